//! dm-integrity's bytes (`drivers/md/dm-integrity.c` of the kernel; versions 1 to 5): the superblock, where the tags and the data lie
//! behind it, and the journal or the bitmap between them.
//!
//! Everything here is sums over untrusted numbers. What does not lie on the device is refused before anything is read or allocated.

mod bitmap;
mod journal;
mod layout;
mod replay;
mod superblock;

pub use bitmap::Bitmap;
pub use journal::{CommitIds, Entry, JOURNAL_MAC_LEN, Sections};
pub use layout::{Layout, LayoutError, NewLayout, Span};
pub use replay::{Continue, JournalError, Replay};
pub use superblock::{Flags, SUPERBLOCK_LEN, Superblock, SuperblockError};
