//! Encrypted flash on the desk: an image of a chip or card, or the card itself, unlocked by the compact header on it.

mod aead;
mod detect;
mod file;
mod memory;
mod peek;
mod repair;
mod sealed;
mod volume;

pub use detect::{DetectError, detect};
pub use file::FileFlash;
pub use peek::MemoryStore;
pub use repair::{Examined, FailedUnit, adopt_sealed, examine_sealed, put_right};
pub use sealed::{
    SealedPlain, Unverified, make_sealed, open_sealed, open_sealed_to_read, open_without_freshness,
    sealed_layout, sealed_payload, unverified,
};
pub use volume::{
    FlashOpenError, FlashVolume, LockedMapper, PlainFlash, format, open, params, plain_geometry, plaintext,
};
