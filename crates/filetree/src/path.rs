//! Names and paths inside a tree: bytes, never `..`.

use core::fmt;

/// Longest name of a directory entry in bytes. ext4 and the Linux VFS allow 255; VFAT's 255 UTF-16 units take up to 765.
pub const MAX_NAME_LEN: usize = 765;

/// A place in a tree, relative to its root: names joined by `/`. The root is the empty path.
///
/// Every component is a valid name (see [`is_valid_name`]), so no path leads out of its tree, lexically.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TreePath(Vec<u8>);

impl TreePath {
    /// The tree's root.
    pub const fn root() -> Self {
        Self(Vec::new())
    }

    /// Parses what a person writes: leading, trailing and repeated slashes and `.` components are dropped.
    ///
    /// # Errors
    /// [`PathError::ParentComponent`] if a component is `..`, and [`PathError::InvalidName`] if one is no valid name.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self, PathError> {
        let mut path = Self::root();
        for (index, name) in text.as_ref().split(|&byte| byte == b'/').enumerate() {
            match name {
                b"" | b"." => {}
                b".." => return Err(PathError::ParentComponent { index }),
                _ => path.push(name)?,
            }
        }
        Ok(path)
    }

    /// This path with one more name.
    ///
    /// # Errors
    /// [`PathError::InvalidName`] unless it is a valid name ([`is_valid_name`]).
    pub fn join(&self, name: impl AsRef<[u8]>) -> Result<Self, PathError> {
        let mut path = self.clone();
        path.push(name.as_ref())?;
        Ok(path)
    }

    fn push(&mut self, name: &[u8]) -> Result<(), PathError> {
        if !is_valid_name(name) {
            return Err(PathError::InvalidName { len: name.len() });
        }
        if !self.0.is_empty() {
            self.0.push(b'/');
        }
        self.0.extend_from_slice(name);
        Ok(())
    }

    /// The names from the root down.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.split(|&byte| byte == b'/').filter(|name| !name.is_empty())
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The last name; none for the root.
    pub fn name(&self) -> Option<&[u8]> {
        self.components().next_back()
    }

    /// The directory that holds it; none for the root.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        // intended: a name in the root has the root as its parent. The end was found in the bytes.
        let end = self.0.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        Some(Self(self.0.get(..end).unwrap_or(&[]).to_vec()))
    }

    /// The bytes without a leading slash.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Whether `name` can stand for one directory entry: 1 to 765 bytes, no `/`, no NUL, neither `.` nor `..`.
pub fn is_valid_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..")
        && name.len() <= MAX_NAME_LEN
        && !name.iter().any(|&b| b == b'/' || b == 0)
}

/// Shows the path with a leading slash; bytes that are not UTF-8 and control characters are escaped, so that a hostile
/// name can't steer a terminal.
impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("/")?;
        write_name(f, &self.0)
    }
}

impl fmt::Debug for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Shows one name as [`TreePath`] shows its components.
pub struct DisplayName<'a>(pub &'a [u8]);

impl fmt::Display for DisplayName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(f, self.0)
    }
}

fn write_name(f: &mut fmt::Formatter<'_>, name: &[u8]) -> fmt::Result {
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() { write!(f, "{}", c.escape_default())? } else { write!(f, "{c}")? }
        }
        for byte in chunk.invalid() {
            write!(f, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

/// Why some bytes are no path inside a tree.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// A component is `..`.
    ParentComponent {
        /// Which component, counted from 0.
        index: usize,
    },
    /// A name is empty, too long, or holds `/` or NUL.
    InvalidName {
        /// Its length in bytes.
        len: usize,
    },
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ParentComponent { index } => write!(f, "component {index} of the path is '..'"),
            Self::InvalidName { len } => {
                write!(
                    f,
                    "a name of {len} bytes is no valid file name (1 to {MAX_NAME_LEN} bytes without '/' and NUL)"
                )
            }
        }
    }
}

impl core::error::Error for PathError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalised_and_never_lead_upwards() {
        let path = TreePath::parse("//usr/./lib/").unwrap();
        assert_eq!(path.as_bytes(), b"usr/lib");
        assert_eq!(path.components().collect::<Vec<_>>(), [b"usr", b"lib"]);
        assert_eq!(path.name(), Some(&b"lib"[..]));
        assert_eq!(path.parent().unwrap().parent(), Some(TreePath::root()));
        assert_eq!(TreePath::parse("a/../b"), Err(PathError::ParentComponent { index: 1 }));
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0b", &[b'x'; MAX_NAME_LEN + 1]] {
            assert!(TreePath::root().join(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn display_escapes_control_characters_and_invalid_utf8() {
        let path = TreePath::parse(b"a\x1b[31m/\xff\xc3\xa9".as_slice()).unwrap();
        assert_eq!(path.to_string(), "/a\\u{1b}[31m/\\xffé");
    }
}
