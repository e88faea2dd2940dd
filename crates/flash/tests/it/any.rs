//! A medium and a trusted store whose types nobody needs to know: sealed flash has code for each cipher, and with types it would have
//! that once more for each medium and store that the tests have.

use atrest_device::{FlashDevice, TrustedStore};
use atrest_flash::sealed::{BlockState, SealedFlash, SealedReader};

/// A sealed volume on any medium with any store.
pub type AnyVolume<'a, A> = SealedFlash<A, AnyFlash<'a>, AnyStore<'a>, Vec<BlockState>, Vec<u8>>;
/// A sealed volume on any medium, read without its store.
pub type AnyReader<A> = SealedReader<A, AnyFlash<'static>, Vec<BlockState>, Vec<u8>>;

/// Any medium.
pub type AnyFlash<'a> = Box<dyn FlashDevice + 'a>;
/// Any trusted store.
pub type AnyStore<'a> = Box<dyn TrustedStore + 'a>;

pub fn any_flash<'a>(flash: impl FlashDevice + 'a) -> AnyFlash<'a> {
    Box::new(flash)
}

pub fn any_store<'a>(store: impl TrustedStore + 'a) -> AnyStore<'a> {
    Box::new(store)
}
