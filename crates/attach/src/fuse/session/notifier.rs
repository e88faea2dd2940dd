//! What the kernel is told without having asked.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::fuse::protocol::{notice_of_entry, notice_of_node};

/// Tells the kernel to forget what it keeps.
#[derive(Clone)]
pub struct Notifier {
    kernel: Arc<OwnedFd>,
}

impl Notifier {
    pub(super) fn new(kernel: Arc<OwnedFd>) -> Self {
        Self { kernel }
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
        let _ = rustix::io::write(&*self.kernel, message);
    }
}
