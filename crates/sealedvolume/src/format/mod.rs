//! Bytes of a sealed volume: objects and their names, keys, and the trusted record. No I/O (FORMATS.md, "Sealed volumes").
//!
//! Every reader is given bytes that an attacker chose. None allocates more than the limits below allow, and all that is not laid out
//! exactly as the format says is an error.

mod counts;
mod error;
mod keys;
mod leaf;
mod log;
pub mod names;
mod prelude;
mod record;
mod root;
mod summary;

pub use error::FormatError;
pub use keys::{Aead, Keys, ObjectCipher, Part};
pub use leaf::{Leaf, LeafEntry, open_leaf, seal_leaf};
pub use log::{
    BLOCK_SEALED, LogObject, SealedLog, log_len, open_block, open_log, open_log_front, seal_log, slot_offset,
};
pub use prelude::{Kind, PRELUDE_LEN, Prelude};
pub use record::Record;
pub use root::{LeafRef, Root, SnapshotRef, open_root, seal_root};
pub use summary::{Extent, Operation, Summary};

/// Version of the format. 0: nothing about it is promised yet.
pub const VERSION: u16 = 0;
/// Bytes in a block.
pub const BLOCK_LEN: usize = 4096;
/// Bytes in a tag.
pub const TAG_LEN: usize = 16;
/// Blocks that a leaf of the map describes.
pub const LEAF_BLOCKS: u64 = 4096;
/// Blocks that a volume has at most.
pub const MOST_BLOCKS: u64 = 1 << 48;
/// Blocks that a volume has at most, so that a checkpoint has room for its map: 11 TiB.
pub const MOST_MAPPED: u64 = (11 << 40) / BLOCK_LEN as u64;
/// Numbers that log objects have at most.
pub const MOST_NUMBER: u64 = 1 << 56;
/// Blocks in a log object, at most.
pub const MOST_SLOTS: u32 = 15_360;
/// Bytes in a summary, at most.
pub const MOST_SUMMARY: u32 = 1 << 20;
/// Bytes in a leaf, at most.
pub const MOST_LEAF: u32 = 1 << 20;
/// Bytes in a root, at most.
pub const MOST_ROOT: u32 = 64 << 20;
/// Bytes in an object of any kind, at most.
pub const MOST_OBJECT: usize = 160 << 20;
/// Snapshots, at most.
pub const MOST_SNAPSHOTS: u32 = 65_536;
/// Numbers that may be under way at once, at most.
pub const MOST_WINDOW: u8 = 64;

/// A random identifier that keeps volumes under one key apart.
pub type FormatId = [u8; 16];
/// What stands for a history: every object up to one, in their order.
pub type Chain = [u8; 32];
