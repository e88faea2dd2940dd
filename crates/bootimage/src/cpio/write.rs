//! Writes archives that are the same whenever their files are: sorted names, counted inodes, one time for all, owner root.

use std::collections::BTreeMap;
use std::fmt;

use zeroize::Zeroizing;

use super::{ALIGN, HEADER, PATH_MAX, S_IFBLK, S_IFCHR, S_IFDIR, S_IFLNK, S_IFREG, TRAILER};

/// What a new file holds.
#[derive(Clone)]
pub enum Content {
    /// A directory.
    Directory,
    /// A regular file. Wiped when dropped, because it may be a key.
    File(Zeroizing<Vec<u8>>),
    /// A symbolic link to this target.
    Symlink(Vec<u8>),
    /// A character device with its numbers.
    CharDevice(u32, u32),
    /// A block device with its numbers.
    BlockDevice(u32, u32),
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory => f.write_str("Directory"),
            Self::File(data) => write!(f, "File({} bytes)", data.len()),
            Self::Symlink(target) => write!(f, "Symlink({:?})", String::from_utf8_lossy(target)),
            Self::CharDevice(major, minor) => write!(f, "CharDevice({major}, {minor})"),
            Self::BlockDevice(major, minor) => write!(f, "BlockDevice({major}, {minor})"),
        }
    }
}

/// A file that can't be put into an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathError {
    /// An empty name, one with `..`, `.`, a doubled `/` or a zero in it, or one that is too long.
    Name(String),
    /// Two different files of this name.
    Twice(String),
    /// A file of 4 GiB or more, which the format can't hold.
    TooLarge(String),
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "{name:?} can't be the name of a file in an archive"),
            Self::Twice(name) => write!(f, "two files would be {name:?}"),
            Self::TooLarge(name) => write!(f, "{name:?} is too large for an archive (4 GiB)"),
        }
    }
}

impl std::error::Error for PathError {}

/// A new archive.
#[derive(Debug, Default)]
pub struct Archive {
    files: BTreeMap<Vec<u8>, (u32, Content)>,
}

impl Archive {
    /// An archive without files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file at `path` (from the root, with or without the leading `/`) with these permissions. Directories above
    /// it are made with mode 0755, but for those that `is_there` knows of.
    ///
    /// # Errors
    /// [`PathError`] if the path can't be a name in an archive, or another file is there or in its way.
    /// Nothing is added then. A directory that is there already is no error.
    pub fn add(
        &mut self,
        path: &str,
        permissions: u32,
        content: Content,
        is_there: &dyn Fn(&str) -> bool,
    ) -> Result<(), PathError> {
        let name = checked(path)?;
        if matches!(&content, Content::File(data) if u32::try_from(data.len()).is_err()) {
            return Err(PathError::TooLarge(name.into()));
        }
        if matches!(&content, Content::Symlink(target) if target.is_empty() || target.len() >= PATH_MAX) {
            return Err(PathError::Name(name.into()));
        }
        let parents: Vec<&str> = name.match_indices('/').filter_map(|(end, _)| name.get(..end)).collect();
        for parent in &parents {
            if self
                .files
                .get(parent.as_bytes())
                .is_some_and(|(_, content)| !matches!(content, Content::Directory))
            {
                return Err(PathError::Twice((*parent).into()));
            }
        }
        match (self.files.get(name.as_bytes()), &content) {
            (None, _) => {}
            (Some((_, Content::Directory)), Content::Directory) => return Ok(()),
            _ => return Err(PathError::Twice(name.into())),
        }
        for parent in parents {
            if !is_there(parent) {
                self.files.entry(parent.into()).or_insert((0o755, Content::Directory));
            }
        }
        self.files.insert(name.into(), (permissions & 0o7777, content));
        Ok(())
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.files.keys().map(Vec::as_slice)
    }

    /// The archive in the format `newc`, with `mtime` (seconds since 1970) as the time of every file.
    pub fn to_newc(&self, mtime: u32) -> Zeroizing<Vec<u8>> {
        // All of it at once: growing would leave copies of keys behind.
        let size = |name: &[u8], data: usize| {
            (HEADER + name.len() + 1).next_multiple_of(ALIGN) + data.next_multiple_of(ALIGN)
        };
        let total: usize =
            self.files.iter().map(|(name, (_, content))| size(name, data(content).len())).sum();
        let mut out = Zeroizing::new(Vec::with_capacity(total + size(TRAILER, 0)));
        for (inode, (name, (permissions, content))) in (1_u32..).zip(&self.files) {
            write_entry(&mut out, name, inode, *permissions, mtime, content);
        }
        write_entry(&mut out, TRAILER, 0, 0, 0, &Content::File(Zeroizing::default()));
        out
    }
}

fn write_entry(out: &mut Vec<u8>, name: &[u8], inode: u32, permissions: u32, mtime: u32, content: &Content) {
    let (kind, links, device) = match content {
        // The trailer is no file at all.
        Content::File(_) if inode == 0 => (0, 1, (0, 0)),
        Content::Directory => (S_IFDIR, 2, (0, 0)),
        Content::File(_) => (S_IFREG, 1, (0, 0)),
        Content::Symlink(_) => (S_IFLNK, 1, (0, 0)),
        Content::CharDevice(major, minor) => (S_IFCHR, 1, (*major, *minor)),
        Content::BlockDevice(major, minor) => (S_IFBLK, 1, (*major, *minor)),
    };
    let data = data(content);
    out.extend_from_slice(b"070701");
    let name_len = name.len() + 1;
    // `add` has seen to it that both lengths fit.
    let fields = [
        inode,
        kind | permissions,
        0,
        0,
        links,
        mtime,
        // cannot fail: `add` refuses larger files.
        u32::try_from(data.len()).unwrap_or(u32::MAX),
        0,
        0,
        device.0,
        device.1,
        // cannot fail: `add` refuses longer names.
        u32::try_from(name_len).unwrap_or(u32::MAX),
        0,
    ];
    for field in fields {
        out.extend_from_slice(format!("{field:08x}").as_bytes());
    }
    out.extend_from_slice(name);
    out.push(0);
    out.resize(out.len().next_multiple_of(ALIGN), 0);
    out.extend_from_slice(data);
    out.resize(out.len().next_multiple_of(ALIGN), 0);
}

fn data(content: &Content) -> &[u8] {
    match content {
        Content::File(data) => data,
        Content::Symlink(target) => target,
        _ => &[],
    }
}

fn checked(path: &str) -> Result<&str, PathError> {
    let name = path.strip_prefix('/').unwrap_or(path);
    let wrong = name.len() >= PATH_MAX
        || name.as_bytes() == TRAILER
        || name.contains('\0')
        || name.split('/').any(|part| matches!(part, "" | "." | ".."));
    if wrong { Err(PathError::Name(path.into())) } else { Ok(name) }
}
