//! Encrypted flash on the desk: an image of a chip or card, or the card itself, unlocked by the compact header on it.

mod detect;
mod file;
mod volume;

pub use detect::{DetectError, detect};
pub use file::FileFlash;
pub use volume::{FlashOpenError, FlashVolume, LockedMapper, PlainFlash, format, open, plaintext};
