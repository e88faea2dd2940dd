//! Extended attributes of the host's files, in the form in which ext4 stores them.

use atrest_codec::{Le, decode};
use rustix::io::Errno;
use rustix::path::Arg;

use super::attributes::Attribute;

/// Largest list of names, and largest value, that Linux has.
const LIMIT: usize = 65536;

/// The attributes of the entry at `path`, whose last link is not followed. Those that ext4 can't store are counted in `left_out`.
pub(super) fn read(path: impl Arg + Copy, left_out: &mut u64) -> Result<Vec<Attribute>, Errno> {
    let mut names = vec![0; LIMIT];
    let len = match rustix::fs::llistxattr(path, names.as_mut_slice()) {
        Ok(len) => len,
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Err(errno) => return Err(errno),
    };
    let mut found = Vec::new();
    // cannot miss: the kernel gives no more than there is room for.
    let names = names.get(..len).unwrap_or(&[]);
    for full in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; LIMIT];
        let len = match rustix::fs::lgetxattr(path, full, value.as_mut_slice()) {
            Ok(len) => len,
            // Gone, or listed without a right to read it (a security module's).
            Err(Errno::NODATA | Errno::OPNOTSUPP) => {
                *left_out += 1;
                continue;
            }
            Err(errno) => return Err(errno),
        };
        value.truncate(len);
        match stored(full, value) {
            Some(attribute) => found.push(attribute),
            None => *left_out += 1,
        }
    }
    // The same order every time, and as many as possible in the inode.
    found.sort_by(|a, b| (a.value.len(), a).cmp(&(b.value.len(), b)));
    Ok(found)
}

fn stored(full: &[u8], value: Vec<u8>) -> Option<Attribute> {
    let (space, name): (u8, &[u8]) = match full {
        b"system.posix_acl_access" => {
            return Some(Attribute { space: 2, name: Vec::new(), value: list(&value)? });
        }
        b"system.posix_acl_default" => {
            return Some(Attribute { space: 3, name: Vec::new(), value: list(&value)? });
        }
        _ => [(1, &b"user."[..]), (4, b"trusted."), (6, b"security.")]
            .into_iter()
            .find_map(|(space, prefix)| Some((space, full.strip_prefix(prefix)?)))?,
    };
    Some(Attribute { space, name: name.to_vec(), value })
}

/// An access control list as ext4 stores it: the same entries, without numbers where none belongs.
/// Kernel, `fs/ext4/acl.h` and `include/uapi/linux/posix_acl_xattr.h`.
fn list(value: &[u8]) -> Option<Vec<u8>> {
    const USER: u16 = 2;
    const GROUP: u16 = 8;
    let (version, entries) = value.split_at_checked(4)?;
    let (entries, []) = entries.as_chunks::<8>() else { return None };
    if version != [2, 0, 0, 0] {
        return None;
    }
    let mut out = vec![1, 0, 0, 0];
    for entry in entries {
        let (Le(tag), permissions, number): (Le<u16>, [u8; 2], [u8; 4]) = decode(entry);
        out.extend_from_slice(&tag.to_le_bytes());
        out.extend_from_slice(&permissions);
        if matches!(tag, USER | GROUP) {
            out.extend_from_slice(&number);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_stored_by_the_number_of_their_namespace() {
        let stored = |name: &[u8]| stored(name, b"v".to_vec()).map(|a| (a.space, a.name));
        assert_eq!(stored(b"user.x.y"), Some((1, b"x.y".to_vec())));
        assert_eq!(stored(b"trusted.overlay"), Some((4, b"overlay".to_vec())));
        assert_eq!(stored(b"security.capability"), Some((6, b"capability".to_vec())));
        assert_eq!(stored(b"btrfs.compression"), None);
        assert_eq!(stored(b"system.posix_acl_access"), None, "not a list");
    }
}
