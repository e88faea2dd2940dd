//! Paths as people write them: through symbolic links and `..`, but never out of the tree.

use crate::error::TreeError;
use crate::path::TreePath;
use crate::tree::{FileTree, Kind};

/// Links that may be followed on the way, as in Linux.
const MAX_LINKS: u32 = 40;

/// Whether a link at the end of the path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastLink {
    /// It is, as `cat` does.
    Follow,
    /// The link itself is meant, as `ls -l` shows it.
    Keep,
}

/// The place in the tree that `path` leads to. Absolute link targets start at the tree's root, and `..` there stays there, as
/// in a `chroot`. Everything but the last component must exist.
///
/// # Errors
/// [`TreeError::NotFound`] if one of the others does not, [`TreeError::NotADirectory`] if it is no directory and no link to one,
/// [`TreeError::TooManyLinks`] after 40 links, [`TreeError::Path`] if a name can't be one, and what the tree fails with when it is
/// asked for metadata and link targets.
pub fn resolve(tree: &dyn FileTree, path: &[u8], last: LastLink) -> Result<TreePath, TreeError> {
    let mut place = TreePath::root();
    // Components still to go, the next one last.
    let mut ahead: Vec<Vec<u8>> = split(path);
    let mut links = 0;
    while let Some(name) = ahead.pop() {
        if name == b".." {
            // intended: `..` of the root is the root.
            place = place.parent().unwrap_or_default();
            continue;
        }
        let next = place.join(&name)?;
        let is_last = ahead.is_empty();
        if is_last && last == LastLink::Keep {
            return Ok(next);
        }
        let kind = match tree.metadata(&next) {
            Ok(found) => found.kind,
            // The target of a copy need not exist.
            Err(TreeError::NotFound) if is_last => return Ok(next),
            Err(error) => return Err(error),
        };
        match kind {
            Kind::Link => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(TreeError::TooManyLinks { limit: MAX_LINKS });
                }
                let target = tree.read_link(&next)?;
                if target.starts_with(b"/") {
                    place = TreePath::root();
                }
                ahead.extend(split(&target));
            }
            Kind::Directory => place = next,
            _ if is_last => return Ok(next),
            _ => return Err(TreeError::NotADirectory),
        }
    }
    Ok(place)
}

/// The components of a path, the first one last.
fn split(path: &[u8]) -> Vec<Vec<u8>> {
    let names = path.split(|&byte| byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    names.rev().map(<[u8]>::to_vec).collect()
}
