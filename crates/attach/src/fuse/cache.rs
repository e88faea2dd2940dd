//! What the kernel keeps of a mounted tree, and how it is told to forget it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, PoisonError};

use fuser::{INodeNo, Notifier};

use super::tree::Nodes;

/// Makes the kernel forget the names and contents that it keeps of a tree: they may be those of files that are locked now.
///
/// Not to be used by what answers the kernel's requests: it would wait for itself.
#[derive(Clone)]
pub struct KernelCache {
    notifier: Notifier,
    nodes: Arc<Mutex<Nodes>>,
}

impl KernelCache {
    pub(super) fn new(notifier: Notifier, nodes: Arc<Mutex<Nodes>>) -> Self {
        Self { notifier, nodes }
    }

    /// Drops all names, attributes and pages. Files that are open stay open; what is read of them is asked for anew.
    pub fn forget(&self) {
        let (entries, numbers) = self.nodes.lock().unwrap_or_else(PoisonError::into_inner).known();
        // An error says that the kernel has forgotten it already, or that nothing is mounted any more.
        for (parent, name) in entries {
            let _ = self.notifier.inval_entry(parent, OsStr::from_bytes(&name));
        }
        for number in numbers {
            let _ = self.notifier.inval_inode(number, 0, 0);
        }
        let _ = self.notifier.inval_inode(INodeNo::ROOT, 0, 0);
    }
}
