//! Counts what a cipher costs on a microcontroller: instructions, and bytes of stack. Each program in `src/bin` holds
//! one cipher, so that its size tells what that cipher takes of the flash.
//!
//! The programs run in QEMU, where `-icount` makes the counters exact. They print a line per figure;
//! `crates/testkit/tests/embedded.rs` builds and runs them, and compares with what is committed.
#![no_std]

pub mod aes_xts;
#[cfg_attr(target_arch = "arm", path = "cortex_m4.rs")]
#[cfg_attr(target_arch = "riscv32", path = "rv32.rs")]
pub mod board;
mod stack;

use core::hint::black_box;

/// A cipher as the programs use it.
pub trait Subject {
    /// Bytes of key.
    const KEY_LEN: usize;

    /// Expands a key for data units of `data_unit` bytes.
    fn new(key: &[u8], data_unit: usize) -> Self;
    /// Encrypts whole data units, the first of which has index 0.
    fn encrypt(&self, run: &mut [u8]);
    /// Decrypts whole data units, the first of which has index 0.
    fn decrypt(&self, run: &mut [u8]);
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
            $crate::measure::<$subject>();
            $crate::board::exit()
        }
    };
}

/// Prints every figure of a cipher.
pub fn measure<S: Subject>() {
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
        let mut subject = None;
        let setup = counter.instructions(|| subject = Some(S::new(black_box(key), unit)));
        let Some(subject) = black_box(&subject) else { return };
        board::print("setup", unit, setup - nothing);
        board::print("encrypt", unit, counter.instructions(|| encrypt(subject, run)) - nothing);
        board::print("fingerprint", unit, fingerprint(run));
        board::print("decrypt", unit, counter.instructions(|| decrypt(subject, run)) - nothing);
        // What it was before, or the program measures something that does not work.
        board::print("damaged", unit, run.iter().filter(|byte| **byte != 0).count() as u32);
    }
    let subject = S::new(key, 512);
    let subject = black_box(&subject);
    // The expanded key itself is the caller's, wherever that keeps it.
    let mut place = None;
    board::print("stack setup", 0, stack::used(|| place = Some(S::new(black_box(key), 512))));
    black_box(&place);
    board::print("stack encrypt", 0, stack::used(|| encrypt(subject, run)));
    board::print("stack decrypt", 0, stack::used(|| decrypt(subject, run)));
    board::print("context", 0, size_of::<S>() as u32);
}

/// The value, or the end of the program. `expect` would bring in some kilobytes that print.
pub fn done<T, E>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(_) => board::fail(),
    }
}

/// FNV-1a: tells whether the same was encrypted elsewhere.
fn fingerprint(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[inline(never)]
fn empty(run: &mut [u8]) {
    black_box(run);
}

#[inline(never)]
fn encrypt<S: Subject>(subject: &S, run: &mut [u8]) {
    subject.encrypt(run);
}

#[inline(never)]
fn decrypt<S: Subject>(subject: &S, run: &mut [u8]) {
    subject.decrypt(run);
}
