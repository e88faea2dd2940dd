//! A medium and a trusted store whose types nobody needs to know. What a sealed volume is on the desk has code for each of ten ciphers
//! anyway; with types it would have that once more for each medium and store.

use atrest_device::{FlashDevice, TrustedStore};

/// Any medium.
pub(super) type AnyFlash = Box<dyn FlashDevice + Send>;
/// Any trusted store.
pub(super) type AnyStore = Box<dyn TrustedStore + Send>;
