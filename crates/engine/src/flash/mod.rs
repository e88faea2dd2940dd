//! Encrypted flash on the desk: an image of a chip or card, or the card itself, unlocked by the compact header on it.

mod aead;
mod any;
mod detect;
mod file;
mod hand_over;
mod memory;
mod peek;
mod repair;
mod sealed;
mod volume;

pub use detect::{DetectError, detect};
pub use file::FileFlash;
pub use hand_over::{HandedOver, hand_over};
pub use peek::MemoryStore;
pub use repair::{
    Examined, FailedUnit, adopt_header, adopt_sealed, confirm_header, examine_sealed, put_right,
    wants_smaller_reserve,
};
pub use sealed::{
    SealedPlain, Unverified, make_sealed, open_sealed, open_sealed_to_read, open_without_freshness,
    sealed_layout, sealed_payload, unverified,
};
pub use volume::{
    FlashOpenError, FlashVolume, LockedMapper, PlainFlash, format, open, params, plain_geometry, plaintext,
};
