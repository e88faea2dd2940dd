//! What the kernel keeps of a mounted tree, and how it is told to forget it.

use std::sync::{Arc, Mutex, PoisonError};

use super::protocol::abi::ROOT;
use super::session::Notifier;
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
        for (parent, name) in entries {
            self.notifier.forget_entry(parent, &name);
        }
        for number in numbers {
            self.notifier.forget_node(number);
        }
        self.notifier.forget_node(ROOT);
    }
}
