//! ChaCha, and what wide-block ciphers are made of beside AES (XChaCha, NH, Poly1305), for CPUs with vector registers: written once
//! over a small vector trait.
//!
//! Everything here is inlined into functions of the instruction-set files that enable the CPU features. Data units go
//! through it [`UNITS`] at a time, one phase for all of them before the next: HChaCha and Poly1305 have a unit per lane,
//! ChaCha a block per lane, whichever unit it belongs to, and NH the bytes of one unit.
#![allow(clippy::needless_range_loop, reason = "constant bounds over several arrays at once, to be unrolled")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod chacha;
mod chacha_poly;
mod hash;
#[cfg(target_arch = "x86_64")]
mod ifma;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;
#[cfg(all(feature = "internals", target_arch = "x86_64"))]
pub(crate) mod planted;
mod poly;
pub(crate) mod run;
#[cfg(feature = "serpent")]
pub(crate) mod serpent;
#[cfg(all(feature = "sha2", target_arch = "x86_64"))]
pub(crate) mod sha2;
#[cfg(target_arch = "x86_64")]
mod sse2;

use zeroize::Zeroize;

use super::register::Register;
use crate::block::Block;
use crate::chacha::StreamKey;
use crate::mode::adiantum::HashKeys;

/// Data units that are worked on together.
pub(crate) const UNITS: usize = 16;

/// How far ahead of the reads memory is asked for.
const PREFETCH: usize = 4096;

/// A vector register, as lanes of 32 bits or half as many of 64.
///
/// # Safety
///
/// As for [`Register`].
pub(crate) trait Lanes: Register {
    /// Lanes of 32 bits; at most 16.
    const WORDS: usize;
    /// Lanes of 64 bits.
    const HALF: usize = Self::WORDS / 2;
    unsafe fn splat32(value: u32) -> Self;
    unsafe fn splat64(value: u64) -> Self;
    unsafe fn add32(self, other: Self) -> Self;
    unsafe fn rotate32<const BITS: i32>(self) -> Self;
    /// Lanes of 32 bits, `BITS` to the left. Zeros come in.
    #[cfg(feature = "serpent")]
    unsafe fn up32<const BITS: i32>(self) -> Self;
    /// Lanes of 32 bits, turned by `UP` bits to the left; `DOWN` is 32 less `UP`.
    #[cfg(feature = "serpent")]
    unsafe fn turned_left32<const UP: i32, const DOWN: i32>(self) -> Self;
    /// In each quarter of 128 bits: lane i of register j to lane j of register i, for lanes of 32 bits.
    #[cfg(feature = "serpent")]
    unsafe fn transposed32(registers: [Self; 4]) -> [Self; 4];
    unsafe fn up64<const BITS: i32>(self) -> Self;
    unsafe fn down64<const BITS: i32>(self) -> Self;
    /// Product of the low halves of 64-bit lanes.
    unsafe fn product(self, other: Self) -> Self;
    /// `sum` plus the products of the low and those of the high halves of 64-bit lanes, in any lanes.
    unsafe fn add_products(sum: Self, a: Self, b: Self) -> Self;
    /// Sums of the 64-bit lanes of four vectors.
    unsafe fn sums(vectors: [Self; 4], to: &mut [u64; 4]);
    /// As many strides of 16 bytes as there are 64-bit lanes: their first halves, in order, and their second halves.
    unsafe fn halves(from: *const u8) -> (Self, Self);
    /// Lane i of vector j to lane j of vector i, for 64-bit lanes and the first [`Lanes::HALF`] vectors.
    unsafe fn transpose64(vectors: &mut [Self; 8]);
    /// Writes a block of 64 bytes per 32-bit lane, of which vector j holds word j.
    unsafe fn store_blocks(words: &[Self; 16], to: *mut u8);
    /// Lane i is `table[indices[i]]`.
    #[inline(always)]
    unsafe fn looked_up(table: &[u32; UNITS], indices: &[u32; 16]) -> Self {
        let lanes: [u32; 16] = core::array::from_fn(|i| table[indices[i] as usize % UNITS]);
        // SAFETY: 16 words are at least a register.
        unsafe { Self::load(lanes.as_ptr().cast()) }
    }
}

/// Data units that lie one after another.
///
/// Invariant: `src` and `dst` are valid for `count` · `len` bytes and either the same or disjoint; `count` is at most
/// [`UNITS`] and `len` at least 16.
#[derive(Clone, Copy)]
pub(crate) struct Batch {
    pub(crate) src: *const u8,
    pub(crate) dst: *mut u8,
    pub(crate) len: usize,
    pub(crate) count: usize,
}

impl Batch {
    /// Bytes of a unit before its last block.
    #[inline(always)]
    fn bulk(self) -> usize {
        self.len - 16
    }
}

/// What is kept of the units of a batch between phases; a column per word, a row per unit. Wiped on drop.
#[repr(C, align(64))]
pub(crate) struct Scratch {
    /// What precedes the bulk in the hash: blocks as pairs of 64-bit words. With a key for each unit, that comes first.
    pub(crate) header: [[u64; UNITS]; 6],
    /// The hash of it, in limbs.
    pub(crate) starts: [[u64; UNITS]; 5],
    /// The hash of the whole.
    pub(crate) hash: [[u64; UNITS]; 2],
    /// What NH makes of a chunk.
    sums: [[u64; UNITS]; 4],
    /// Subkeys of XChaCha, or the one-time keys of Poly1305.
    subkeys: [[u32; UNITS]; 8],
    /// Nonces of ChaCha: what comes after the counter, of which the long counter takes the first word.
    pub(crate) nonces: [[u32; UNITS]; 3],
    /// Keystream of as many blocks as the widest register has lanes.
    keystream: [[u8; 64]; 16],
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self {
            header: [[0; UNITS]; 6],
            starts: [[0; UNITS]; 5],
            hash: [[0; UNITS]; 2],
            sums: [[0; UNITS]; 4],
            subkeys: [[0; UNITS]; 8],
            nonces: [[0; UNITS]; 3],
            keystream: [[0; 64]; 16],
        }
    }
}

impl Scratch {
    /// The hash of one unit, and the second half of its one-time key.
    fn tag_of(&self, unit: usize) -> u128 {
        let words = self.subkeys.iter().skip(4).rev();
        let end = words.fold(0, |end, words| end << 32 | u128::from(words[unit % UNITS]));
        self.hash_of(unit).wrapping_add(end)
    }

    /// The hash of one unit.
    fn hash_of(&self, unit: usize) -> u128 {
        let [low, high] = &self.hash;
        u128::from(low[unit % UNITS]) | u128::from(high[unit % UNITS]) << 64
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.header.zeroize();
        self.starts.zeroize();
        self.hash.zeroize();
        self.sums.zeroize();
        self.subkeys.zeroize();
        self.keystream.zeroize();
    }
}

/// An instruction set with vectors. A value is a proof that the CPU has it, so that calling these is sound.
pub(crate) trait VectorInstructions: Copy {
    /// Hashes `blocks` blocks of [`Scratch::header`] into [`Scratch::starts`], for each of `count` units.
    fn start(self, keys: &HashKeys, scratch: &mut Scratch, blocks: usize, count: usize);

    /// Hashes the bulks of a batch into [`Scratch::hash`], reading `src`.
    ///
    /// # Safety
    ///
    /// The batch is what it says.
    unsafe fn hash(self, keys: &HashKeys, scratch: &mut Scratch, batch: Batch);

    /// Xors the keystreams under the nonces to the bulks of a batch, from `src` to `dst`.
    ///
    /// # Safety
    ///
    /// The batch is what it says.
    unsafe fn stream(self, key: &StreamKey, scratch: &mut Scratch, nonces: &[Block; UNITS], batch: Batch);

    /// Xors the keystreams of ChaCha under [`Scratch::nonces`] to whole units of a batch, from `src` to `dst`.
    ///
    /// # Safety
    ///
    /// The batch is what it says.
    unsafe fn short_nonce_stream(self, key: &StreamKey, scratch: &mut Scratch, batch: Batch);

    /// Encrypts or decrypts the units of a batch with ChaCha20, under [`Scratch::nonces`] and from block 1 on, and hashes
    /// what is authenticated with Poly1305 under block 0 into [`Scratch::hash`]. The associated data are the last two blocks of
    /// [`Scratch::header`], and `lengths` the block at the end.
    ///
    /// # Safety
    ///
    /// The batch is what it says, and a unit is whole strides of 128 bytes.
    unsafe fn chacha_poly(
        self,
        key: &StreamKey,
        scratch: &mut Scratch,
        batch: Batch,
        lengths: [u64; 2],
        open: bool,
    );
}

/// Implements [`VectorInstructions`] for a proof, with functions in `$module` that enable `$features` and hash long
/// messages in `$field`.
macro_rules! vector_instructions {
    ($proof:ty, $register:ty, $field:ty, $module:ident, $features:literal) => {
        mod $module {
            use $crate::backend::lanes::{Batch, Scratch, UNITS, chacha, chacha_poly, hash};
            use $crate::block::Block;
            use $crate::chacha::StreamKey;
            use $crate::mode::adiantum::HashKeys;

            #[target_feature(enable = $features)]
            pub(super) unsafe fn start(keys: &HashKeys, scratch: &mut Scratch, blocks: usize, count: usize) {
                // SAFETY: the features are enabled here.
                unsafe { hash::start::<$register>(keys, scratch, blocks, count) }
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn bulk(keys: &HashKeys, scratch: &mut Scratch, batch: Batch) {
                // SAFETY: the features are enabled here; the batch is the caller's promise.
                unsafe { hash::bulk::<$register, $field>(keys, scratch, batch) }
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn stream(
                key: &StreamKey,
                scratch: &mut Scratch,
                nonces: &[Block; UNITS],
                batch: Batch,
            ) {
                // SAFETY: the features are enabled here; the batch is the caller's promise.
                unsafe { chacha::stream::<$register>(key, scratch, nonces, batch) }
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn short_nonce_stream(key: &StreamKey, scratch: &mut Scratch, batch: Batch) {
                // SAFETY: the features are enabled here; the batch is the caller's promise.
                unsafe { chacha::short_nonce_stream::<$register>(key, scratch, batch) }
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn chacha_poly(
                key: &StreamKey,
                scratch: &mut Scratch,
                batch: Batch,
                lengths: [u64; 2],
                open: bool,
            ) {
                // SAFETY: the features are enabled here; the batch is the caller's promise.
                unsafe { chacha_poly::run::<$register, $field>(key, scratch, batch, lengths, open) }
            }
        }

        impl $crate::backend::lanes::VectorInstructions for $proof {
            fn start(
                self,
                keys: &$crate::mode::adiantum::HashKeys,
                scratch: &mut $crate::backend::lanes::Scratch,
                blocks: usize,
                count: usize,
            ) {
                // SAFETY: `self` proves that the CPU has the features.
                unsafe { $module::start(keys, scratch, blocks, count) }
            }

            unsafe fn hash(
                self,
                keys: &$crate::mode::adiantum::HashKeys,
                scratch: &mut $crate::backend::lanes::Scratch,
                batch: $crate::backend::lanes::Batch,
            ) {
                // SAFETY: `self` proves that the CPU has the features; the batch is the caller's promise.
                unsafe { $module::bulk(keys, scratch, batch) }
            }

            unsafe fn stream(
                self,
                key: &$crate::chacha::StreamKey,
                scratch: &mut $crate::backend::lanes::Scratch,
                nonces: &[$crate::block::Block; $crate::backend::lanes::UNITS],
                batch: $crate::backend::lanes::Batch,
            ) {
                // SAFETY: `self` proves that the CPU has the features; the batch is the caller's promise.
                unsafe { $module::stream(key, scratch, nonces, batch) }
            }

            unsafe fn short_nonce_stream(
                self,
                key: &$crate::chacha::StreamKey,
                scratch: &mut $crate::backend::lanes::Scratch,
                batch: $crate::backend::lanes::Batch,
            ) {
                // SAFETY: `self` proves that the CPU has the features; the batch is the caller's promise.
                unsafe { $module::short_nonce_stream(key, scratch, batch) }
            }

            unsafe fn chacha_poly(
                self,
                key: &$crate::chacha::StreamKey,
                scratch: &mut $crate::backend::lanes::Scratch,
                batch: $crate::backend::lanes::Batch,
                lengths: [u64; 2],
                open: bool,
            ) {
                // SAFETY: `self` proves that the CPU has the features; the batch is the caller's promise.
                unsafe { $module::chacha_poly(key, scratch, batch, lengths, open) }
            }
        }
    };
}

use vector_instructions;

#[cfg(target_arch = "x86_64")]
pub(super) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(super) use avx512::Avx512;
#[cfg(target_arch = "x86_64")]
pub(super) use ifma::Avx512Ifma;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
pub(super) use neon::Neon;
#[cfg(target_arch = "x86_64")]
pub(super) use sse2::Sse2;
