//! The FUSE face of a file tree: its files and directories in a directory of the host.
//!
//! Everything belongs to whoever mounted it, and the kernel lets nobody else see it. Owners, permissions and, where the
//! filesystem has none, times can't be changed. A file that is removed while it is open can't be read any more. `close`
//! and `fsync` after writes make the tree durable.

mod errors;
mod filesystem;
mod nodes;

pub(super) use filesystem::TreeDirectory;
pub(super) use nodes::Nodes;
