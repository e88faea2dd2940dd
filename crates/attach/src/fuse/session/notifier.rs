//! What the kernel is told without having asked.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use crate::fuse::protocol::{notice_of_entry, notice_of_node};

/// Tells the kernel to forget what it keeps.
#[derive(Clone)]
pub struct Notifier {
    /// It does not keep the mount: that ends with the threads that answer.
    kernel: Weak<OwnedFd>,
}

impl Notifier {
    pub(super) fn new(kernel: &Arc<OwnedFd>) -> Self {
        Self { kernel: Arc::downgrade(kernel) }
    }

    /// What a name in a directory stands for.
    pub fn forget_entry(&self, parent: u64, name: &[u8]) {
        if let Some(message) = notice_of_entry(parent, name) {
            self.tell(&message);
        }
    }

    /// The attributes and contents of a node.
    pub fn forget_node(&self, node: u64) {
        self.tell(&notice_of_node(node));
    }

    fn tell(&self, message: &[u8]) {
        // An error says that the kernel has forgotten it already, or that nothing is mounted any more.
        let _ = self.kernel.upgrade().map(|kernel| rustix::io::write(&*kernel, message));
    }
}
