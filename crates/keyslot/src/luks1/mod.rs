//! LUKS1: one header of 592 bytes and eight keyslot areas (LUKS On-Disk Format Specification 1.2.3).

mod error;
mod header;
mod repair;
mod slot;
mod stream;
mod text;

pub use error::{HeaderError, SlotError, TextField};
pub use header::{AREA_ALIGNMENT, Header, HeaderParts, Slot, SlotState, area_sectors};
pub use repair::{Repaired, repair};
pub use slot::{check_key, new_digest, open, seal};
pub use stream::{ChipKey, ChipUnlock, StreamError, check_for_chip};

/// Bytes in the header. It reaches into the second sector.
pub const HEADER_LEN: usize = 592;
/// What a LUKS header starts with.
pub const MAGIC: [u8; 6] = *b"LUKS\xba\xbe";
/// What a header starts with that does not count, as the volume is being re-encrypted and its header is in a file.
pub const SET_ASIDE_MAGIC: [u8; 6] = *b"LUKS\xde\xad";
/// The version that this module reads and writes.
pub const VERSION: u16 = 1;
/// Keyslots in a header.
pub const SLOTS: usize = 8;
/// Bytes in a salt.
pub const SALT_LEN: usize = 32;
/// Bytes in the volume key's digest.
pub const DIGEST_LEN: usize = 20;
/// Stripes that are written, here and by everybody else. A chip reads no more.
pub const STRIPES: u32 = 4000;
/// Most stripes that are read: enough for any header in use, little enough that an area fits memory.
pub const MAX_STRIPES: u32 = 1 << 16;
/// Longest volume key, in bytes.
pub const MAX_KEY_LEN: usize = 512;
