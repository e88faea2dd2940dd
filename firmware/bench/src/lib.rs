//! Counts what a cipher costs on a microcontroller: instructions, and bytes of stack. Each program in `src/bin` holds
//! one cipher, so that its size tells what that cipher takes of the flash.
//!
//! The programs run in QEMU, where `-icount` makes the counters exact. They print a line per figure;
//! `crates/testkit/tests/embedded` builds and runs them, and compares with what is committed.
#![no_std]

pub mod opening;
pub mod sealed;

use core::hint::black_box;

use atrest_cipher::{DataUnitCipher, DataUnitIndex, KeyPlace, Keys, MapperOptions, Plain64};

pub use firmware_board as board;
pub use firmware_board::{Memory, done, stack};

/// Memory for a cipher's key, as the programs use it.
pub trait Subject: Sized {
    /// Bytes of key.
    const KEY_LEN: usize;
    /// Without a key.
    const EMPTY: Self;
    /// The cipher.
    type Cipher: DataUnitCipher;

    /// Expands a key for data units of `data_unit` bytes.
    fn expand(&mut self, key: &[u8], data_unit: usize) -> &Self::Cipher;
}

/// A cipher of the crate, with a key of `KEY_LEN` bytes.
pub struct Alone<C, const KEY_LEN: usize>(KeyPlace<C>);

impl<K: Keys, const KEY_LEN: usize> Subject for Alone<Plain64<K>, KEY_LEN> {
    const KEY_LEN: usize = KEY_LEN;
    const EMPTY: Self = Self(KeyPlace::<Plain64<K>>::empty());
    type Cipher = Plain64<K>;

    fn expand(&mut self, key: &[u8], data_unit: usize) -> &Plain64<K> {
        let options = MapperOptions { data_unit, ..MapperOptions::default() };
        &*done(self.0.expand(key, &options))
    }
}

/// Bytes in the run that is measured, whatever the data unit.
const RUN: usize = 4096;

/// Buffers of drivers that move data by DMA are aligned too.
#[repr(align(4))]
struct Aligned([u8; RUN]);

/// Makes the entry point of a program that measures a [`Subject`].
#[macro_export]
macro_rules! program {
    ($subject:ty) => {
        #[$crate::board::entry]
        fn main() -> ! {
            static PLACE: $crate::Memory<$subject> =
                $crate::Memory::new(<$subject as $crate::Subject>::EMPTY);
            // SAFETY: the entry point runs once.
            $crate::measure(unsafe { PLACE.take() });
            $crate::board::exit()
        }
    };
}

/// Prints every figure of a cipher. The expanded key is in memory of the caller's, and does not count as stack.
pub fn measure<S: Subject>(place: &mut S) {
    let counter = board::Counter::start();
    // Two instructions a step: the reader of the figures checks that the counter counts.
    board::print("calibration", 0, counter.instructions(|| board::steps(10_000)));
    let nothing = counter.instructions(|| empty(black_box(&mut [0; 16])));
    let mut key = [0u8; 64];
    for (i, byte) in key.iter_mut().enumerate() {
        *byte = i as u8;
    }
    let key = black_box(&key[..S::KEY_LEN]);
    let mut run = Aligned([0; RUN]);
    let run = black_box(&mut run.0[..]);
    for unit in [4096, 512] {
        board::print("setup", unit, counter.instructions(|| expand(place, key, unit)) - nothing);
        let cipher = black_box(place.expand(key, unit));
        board::print("encrypt", unit, counter.instructions(|| encrypt(cipher, run)) - nothing);
        board::print("fingerprint", unit, fingerprint(run));
        board::print("decrypt", unit, counter.instructions(|| decrypt(cipher, run)) - nothing);
        // What it was before, or the program measures something that does not work.
        board::print("damaged", unit, run.iter().filter(|byte| **byte != 0).count() as u32);
    }
    board::print("stack setup", 0, stack::used(|| expand(place, key, 512)));
    let cipher = black_box(place.expand(key, 512));
    board::print("stack encrypt", 0, stack::used(|| encrypt(cipher, run)));
    board::print("stack decrypt", 0, stack::used(|| decrypt(cipher, run)));
    board::print("context", 0, size_of::<S>() as u32);
}

/// FNV-1a: tells whether the same was encrypted elsewhere.
pub fn fingerprint(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[inline(never)]
pub fn empty(run: &mut [u8]) {
    black_box(run);
}

#[inline(never)]
fn expand<S: Subject>(place: &mut S, key: &[u8], unit: usize) {
    black_box(place.expand(black_box(key), unit));
}

#[inline(never)]
fn encrypt(cipher: &impl DataUnitCipher, run: &mut [u8]) {
    done(cipher.encrypt(DataUnitIndex(0), run));
}

#[inline(never)]
fn decrypt(cipher: &impl DataUnitCipher, run: &mut [u8]) {
    done(cipher.decrypt(DataUnitIndex(0), run));
}
