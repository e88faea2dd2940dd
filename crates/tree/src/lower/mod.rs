//! A lower directory of the host, served as a tree with POSIX behaviour ([`PosixTree`](atrest_filetree::posix::PosixTree)).
//!
//! What stands between the tree and the directory is a [`Layer`]: [`Identity`] shows everything as it is, and
//! [`EcryptfsLayer`] decrypts names and contents.
//!
//! Every node that somebody knows holds an `O_PATH` descriptor of what it stands for, and names are resolved one by one below
//! such a descriptor, without following links. So no link, no `..` and no rename by somebody else leads out of the lower directory,
//! and a node stays itself under any name.

mod attributes;
mod directory;
mod ecryptfs;
mod identity;
mod layer;
mod nodes;
mod open;
mod tree;
mod write_behind;
mod xattrs;

pub(crate) use directory::kind_of;
pub use ecryptfs::{Contents, EcryptfsLayer, FoundNames, look_at};
pub use identity::Identity;
pub use layer::{Layer, LayerFile};
pub use tree::{LowerError, LowerPosix};
