//! Files that can't be read to their end.

use crate::error::TreeError;
use crate::path::TreePath;
use crate::tree::{FileTree, Kind};
use crate::walk::{Step, Walk, WalkError};

/// Bytes read at once.
const PIECE: usize = 64 << 10;

/// Returns the files and directories that can't be read, in the order of a walk: every file is read to its end. A directory that can't
/// be read stands for everything in it.
///
/// # Errors
/// Any [`WalkError`] but [`WalkError::Tree`]: the filesystem is too damaged, or too deep, to be looked through.
pub fn unreadable(tree: &dyn FileTree) -> Result<Vec<(TreePath, TreeError)>, WalkError> {
    let mut found = Vec::new();
    for step in Walk::new(tree, &TreePath::root()) {
        match step {
            Ok(Step::Leaf(visit)) if visit.kind == Kind::File => {
                if let Err(error) = read(tree, &visit.path) {
                    found.push((visit.path, error));
                }
            }
            Ok(_) => {}
            Err(WalkError::Tree { path, error }) => found.push((path, error)),
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn read(tree: &dyn FileTree, path: &TreePath) -> Result<(), TreeError> {
    let mut piece = vec![0; PIECE];
    let mut at: u64 = 0;
    loop {
        match tree.read_at(path, at, &mut piece)? {
            0 => return Ok(()),
            // cannot overflow: no file is longer than 64 bits say.
            read => at = at.saturating_add(read as u64),
        }
    }
}
