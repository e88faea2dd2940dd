//! Bytes of a sealed volume: objects and their names, keys, and the trusted record. No I/O (FORMATS.md, "Sealed volumes").
//!
//! Every reader is given bytes that an attacker chose. None allocates more than the limits below allow, and all that is not laid out
//! exactly as the format says is an error.

mod counts;
mod error;
mod journal;
mod keys;
mod log;
pub mod names;
mod node;
mod prelude;
mod record;
mod root;
mod summary;

pub use error::FormatError;
pub use journal::{
    JOURNAL_HEAD, JournalHead, JournalKeys, JournalMark, JournalRecord, MOST_RECORDS, RECORD_FRONT,
    RecordFront, most_room,
};
pub use keys::{Aead, Keys, ObjectCipher, Part, Parts};
pub use log::{
    BLOCK_SEALED, LogObject, SealedLog, log_len, open_block, open_log, open_log_front, seal_log, slot_offset,
};
pub use node::{FANOUT, Node, Run, node_place, open_node, seal_node, span};
pub use prelude::{Kind, PRELUDE_LEN, Prelude};
pub use record::{JournalPoint, Record, half};
pub use root::{OtherKey, Root, SnapshotRef, open_root, seal_root};
pub use summary::{Extent, Operation, Summary};

/// Version of the format. Volumes of version 0, which was never released, are refused.
pub const VERSION: u16 = 1;
/// Bytes in a block.
pub const BLOCK_LEN: usize = 4096;
/// Bytes in a tag.
pub const TAG_LEN: usize = 16;
/// Blocks that a leaf of the map describes.
pub const LEAF_BLOCKS: u64 = 4096;
/// Blocks that a volume has at most.
pub const MOST_BLOCKS: u64 = 1 << 48;
/// Level of a map's highest node, at most: such a node describes as many blocks as a volume has at most.
pub const MOST_LEVEL: u32 = 6;
/// Numbers that log objects have at most.
pub const MOST_NUMBER: u64 = 1 << 56;
/// Blocks in a log object, at most.
pub const MOST_SLOTS: u32 = 15_360;
/// Bytes in a summary, at most.
pub const MOST_SUMMARY: u32 = 1 << 20;
/// Bytes in a node of the map, at most.
pub const MOST_NODE: u32 = 1 << 20;
/// Bytes in a root, at most.
pub const MOST_ROOT: u32 = 64 << 20;
/// Bytes in an object of any kind, at most.
pub const MOST_OBJECT: usize = 160 << 20;
/// Keys that a root names beside the volume's own, at most.
pub const MOST_KEYS: u32 = 1024;
/// Snapshots, at most.
pub const MOST_SNAPSHOTS: u32 = 65_536;
/// Numbers that may be under way at once, at most.
pub const MOST_WINDOW: u8 = 64;

/// A random identifier that keeps volumes under one key apart.
pub type FormatId = [u8; 16];
/// What stands for a history: every object up to one, in their order.
pub type Chain = [u8; 32];
