//! File trees: the traits that stand between what keeps files and what shows them.
//!
//! A reader of a filesystem, or of an encrypted directory, implements [`FileTree`]. A face implements nothing: it is given a
//! tree and lists it, serves it or copies out of it. This crate knows no filesystem and links no C library, so a face needs none
//! either. Its parts:
//!
//! * [`FileTree`] is asked by [`TreePath`]s; [`resolve`] makes one of what a person writes.
//! * [`posix::PosixTree`] is asked by nodes and has open files: what a mounted filesystem needs.
//! * [`Walk`] goes through a tree that may be hostile, within bounds. [`copy_in`], [`copy_out`], [`remove`] and [`unreadable`] do
//!   all that they do through it.
//! * [`Encryption`] is how a filesystem that encrypts single files asks for their ciphers.
//! * [`TreeError`] says what went wrong. What one filesystem alone can say is the [`Fault`] in it.
//!
//! # Example
//! A tree with one file, which is found, read and walked over:
//!
//! ```
//! use atrest_filetree::{
//!     About, Capacity, Entry, FileTree, Kind, LastLink, Metadata, Space, Step, Timestamp, TreeError, TreePath, Walk, resolve,
//! };
//!
//! /// The file `note`, in memory.
//! struct Note(&'static [u8]);
//!
//! impl FileTree for Note {
//!     fn about(&self) -> About {
//!         let (label, notes) = (Vec::new(), Vec::new());
//!         let (size, capacity) = (1 << 20, Capacity::Dense);
//!         About { name: "note", label, id: String::new(), size, capacity, block_size: 512, writable: false, notes }
//!     }
//!     fn space(&self) -> Result<Space, TreeError> {
//!         Ok(Space { block_size: 512, blocks: 2048, free: 0 })
//!     }
//!     fn metadata(&self, path: &TreePath) -> Result<Metadata, TreeError> {
//!         let (kind, size, mode) = match path.as_bytes() {
//!             b"" => (Kind::Directory, 0, 0o755),
//!             b"note" => (Kind::File, self.0.len() as u64, 0o644),
//!             _ => return Err(TreeError::NotFound),
//!         };
//!         let (uid, gid, links, inode) = (0, 0, 1, 0);
//!         let (modified, accessed, changed) = <(Timestamp, Timestamp, Timestamp)>::default();
//!         Ok(Metadata { kind, size, mode, uid, gid, links, inode, allocated: size, modified, accessed, changed })
//!     }
//!     fn list(&self, path: &TreePath) -> Result<Vec<Entry>, TreeError> {
//!         match path.is_root() {
//!             true => Ok(vec![Entry { name: b"note".to_vec(), kind: Kind::File, inode: 0 }]),
//!             false => Err(TreeError::NotADirectory),
//!         }
//!     }
//!     fn read_at(&self, _: &TreePath, offset: u64, buf: &mut [u8]) -> Result<usize, TreeError> {
//!         let rest = self.0.get(offset as usize..).unwrap_or_default();
//!         let len = rest.len().min(buf.len());
//!         buf[..len].copy_from_slice(&rest[..len]);
//!         Ok(len)
//!     }
//! }
//!
//! let tree = Note(b"buy milk");
//! let path = resolve(&tree, b"/./../note", LastLink::Follow)?;
//! let mut text = [0; 8];
//! assert_eq!((tree.read_at(&path, 0, &mut text)?, &text), (8, b"buy milk"));
//!
//! let mut files = Vec::new();
//! for step in Walk::new(&tree, &TreePath::root()) {
//!     if let Step::Leaf(visit) = step? {
//!         files.push(visit.path.to_string());
//!     }
//! }
//! assert_eq!(files, ["/note"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]

mod copy;
mod encryption;
mod error;
mod fault;
mod listing;
mod path;
pub mod posix;
mod resolve;
mod tree;
mod unreadable;
mod walk;

pub use copy::{
    CopyError, CopyOptions, CopyProgress, CopySummary, copy_in, copy_in_stream, copy_out, host_names,
};
pub use encryption::{
    EncryptedFilesystem, EncryptedInode, Encryption, EncryptionFault, InodeCipher, KeyName, NoKeyName, Opened,
};
pub use error::{LowerError, TreeError};
pub use fault::Fault;
pub use listing::{ByHash, Cursor, Listed, Wanted};
pub use path::{DisplayName, MAX_NAME_LEN, PathError, TreePath, is_valid_name};
pub use resolve::{LastLink, resolve};
pub use tree::{About, Capacity, Entry, FileTree, IfExists, Kind, Metadata, Note, Space, Stop, Timestamp};
pub use unreadable::unreadable;
pub use walk::{MAX_DEPTH, Step, Visit, Walk, WalkError, remove};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
