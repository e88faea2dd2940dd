//! The compact header of encrypted flash: 512 bytes that a microcontroller parses in place. FORMATS.md, "Flash header".
//!
//! What to encrypt and how ([`Params`]), and four keyslots, each of which holds the volume key wrapped by RFC 3394 under what
//! a passphrase derives. A checksum finds damage. Whoever changes anything but the keyslots' number and the sequence number
//! on purpose makes keyslots that no passphrase opens: the wrapping key depends on all of it.
//!
//! This module does no I/O. `atrest-flash` keeps the two copies of the header and changes them so that power may fail.

mod cost;
mod derive;
mod device_key;
mod error;
mod header;
mod params;
mod slot;

pub use cost::{KdfCost, MAX_WORK};
#[cfg(feature = "alloc")]
pub use derive::AnyKdf;
#[cfg(feature = "catena")]
pub use derive::ChipKdfs;
pub use derive::{AtMost, Derive, DeriveError, Pbkdf2Kdf};
pub use device_key::{AesCmac, CmacSecret, DeviceCmac};
pub use error::{HeaderError, SlotError};
pub use header::{Header, HeaderEdit, Slot, is_blank};
pub use params::{
    FlashCipher, FlashSizes, Freshness, Params, ParamsError, Protection, SEALED_UNITS, TicketPolicy, Uuid,
};
pub use slot::{
    Derived, DeviceSecret, DeviceSecretError, FlashKey, HmacSecret, SLOT_SALT_LEN, SlotBytes, SlotKdf,
    check_passphrase, open_slot, seal_slot,
};
#[cfg(feature = "rotate")]
pub use slot::{open_previous, seal_previous};

/// Bytes in a header.
pub const HEADER_LEN: usize = 512;
/// What a header starts with.
pub const MAGIC: [u8; 8] = *b"\x93atrest\n";
/// The version that this module reads and writes.
pub const VERSION: u16 = 1;
/// Keyslots in a header.
pub const SLOTS: usize = 4;
/// Bytes in a keyslot.
pub const SLOT_LEN: usize = 104;
/// Longest volume key in bytes.
pub const MAX_KEY_LEN: usize = 64;
/// Longest passphrase in bytes. An empty one is refused too.
pub const MAX_PASSPHRASE_LEN: usize = 4096;

/// Bytes before the first keyslot.
const PARAMS_LEN: usize = 64;
/// Bytes of the checksum, which are the last.
const CHECKSUM_LEN: usize = 32;
