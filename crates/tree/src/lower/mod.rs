//! A lower directory of the host, served as a tree with POSIX behaviour ([`PosixTree`](atrest_filetree::posix::PosixTree)).
//!
//! What stands between the tree and the directory is a [`Layer`]: [`Identity`] shows everything as it is, and
//! [`EcryptfsLayer`] decrypts names and contents.
//!
//! A node is found by its name below a descriptor of its directory, one name at a time, without following links, and is only used if
//! it is the file that it was. So no link, no `..` and no rename by somebody else leads out of the lower directory, and a node
//! stays itself under any name that it is given here. What was used lately is held open, and so is what has lost its name.

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

pub(crate) use directory::{kind_of, times};
pub use ecryptfs::{Contents, EcryptfsLayer, FoundNames, look_at};
pub use identity::Identity;
pub use layer::{Layer, LayerFile};
pub use tree::{LowerError, LowerPosix};
