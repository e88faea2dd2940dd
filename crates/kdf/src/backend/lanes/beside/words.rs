//! Vectors with a 32-bit word of each output block in a lane, and the loop of HMAC over hashes of such words.

use core::arch::x86_64::*;

use super::{BLOCK, KeyBlocks};
use crate::backend::cpu::Cpu;

/// Lanes of the widest vectors.
pub(super) const MOST: usize = 16;

/// A vector.
///
/// # Safety
/// Whoever calls one of these has the CPU features of the vector.
pub(super) trait Lanes: Copy {
    const LANES: usize;
    unsafe fn splat(word: u32) -> Self;
    /// Reads [`Lanes::LANES`] words.
    unsafe fn load(from: *const u32) -> Self;
    unsafe fn store(self, to: *mut u32);
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn xor(self, other: Self) -> Self;
    /// To the left.
    unsafe fn turned(self, bits: u32) -> Self;
    /// Bits of `f` where this has ones, of `g` elsewhere.
    #[cfg(feature = "ripemd")]
    unsafe fn choose(self, f: Self, g: Self) -> Self;
    /// `(self | !y) ^ z`.
    #[cfg(feature = "ripemd")]
    unsafe fn or_not_xor(self, y: Self, z: Self) -> Self;
}

impl Lanes for __m512i {
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn splat(word: u32) -> Self {
        // SAFETY: the caller has the features.
        unsafe { _mm512_set1_epi32(word.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self {
        // SAFETY: the caller has the features, and as many words there.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u32) {
        // SAFETY: the caller has the features, and room for as many words there.
        unsafe { _mm512_storeu_si512(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the caller has the features.
        unsafe { _mm512_add_epi32(self, other) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the caller has the features.
        unsafe { _mm512_xor_si512(self, other) }
    }

    #[inline(always)]
    unsafe fn turned(self, bits: u32) -> Self {
        // SAFETY: the caller has the features.
        unsafe { _mm512_rolv_epi32(self, Self::splat(bits)) }
    }

    #[cfg(feature = "ripemd")]
    #[inline(always)]
    unsafe fn choose(self, f: Self, g: Self) -> Self {
        // SAFETY: the caller has the features.
        unsafe { _mm512_ternarylogic_epi32::<0xca>(self, f, g) }
    }

    #[cfg(feature = "ripemd")]
    #[inline(always)]
    unsafe fn or_not_xor(self, y: Self, z: Self) -> Self {
        // SAFETY: the caller has the features.
        unsafe { _mm512_ternarylogic_epi32::<0x59>(self, y, z) }
    }
}

impl Lanes for __m256i {
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn splat(word: u32) -> Self {
        // SAFETY: the caller has the features.
        unsafe { _mm256_set1_epi32(word.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self {
        // SAFETY: the caller has the features, and as many words there.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u32) {
        // SAFETY: the caller has the features, and room for as many words there.
        unsafe { _mm256_storeu_si256(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the caller has the features.
        unsafe { _mm256_add_epi32(self, other) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the caller has the features.
        unsafe { _mm256_xor_si256(self, other) }
    }

    #[inline(always)]
    unsafe fn turned(self, bits: u32) -> Self {
        // SAFETY: the caller has the features.
        unsafe {
            let (up, down) = (Self::splat(bits), Self::splat(32 - bits));
            _mm256_or_si256(_mm256_sllv_epi32(self, up), _mm256_srlv_epi32(self, down))
        }
    }

    #[cfg(feature = "ripemd")]
    #[inline(always)]
    unsafe fn choose(self, f: Self, g: Self) -> Self {
        // SAFETY: the caller has the features.
        unsafe { _mm256_xor_si256(_mm256_and_si256(_mm256_xor_si256(f, g), self), g) }
    }

    #[cfg(feature = "ripemd")]
    #[inline(always)]
    unsafe fn or_not_xor(self, y: Self, z: Self) -> Self {
        // SAFETY: the caller has the features.
        unsafe {
            let not_y = _mm256_xor_si256(y, Self::splat(u32::MAX));
            _mm256_xor_si256(_mm256_or_si256(self, not_y), z)
        }
    }
}

/// A hash of `WORDS` words that are little-endian in blocks and digests.
pub(super) trait Words<const WORDS: usize> {
    /// The state after a first block.
    ///
    /// # Safety
    /// The caller has the CPU features of the vector.
    unsafe fn first<V: Lanes>(block: &[V; 16]) -> [V; WORDS];

    /// The digest when that block was followed by this digest alone.
    ///
    /// # Safety
    /// The caller has the CPU features of the vector.
    unsafe fn last<V: Lanes>(state: &[V; WORDS], digest: &[V; WORDS]) -> [V; WORDS];
}

/// The loop, for as many output blocks as there are lanes.
///
/// # Safety
/// The caller has the CPU features of the vector.
#[inline(always)]
pub(super) unsafe fn chains<H: Words<WORDS>, V: Lanes, const WORDS: usize>(
    key: &KeyBlocks,
    u: &mut [[u8; BLOCK]],
    t: &mut [[u8; BLOCK]],
    count: u32,
) {
    debug_assert!(u.len() <= V::LANES && u.len() == t.len());
    // SAFETY: the features are the caller's promise.
    unsafe {
        let (inner, outer) = (keyed::<H, V, WORDS>(&key.inner), keyed::<H, V, WORDS>(&key.outer));
        let mut digest = load::<V, WORDS>(u);
        let mut sum = load::<V, WORDS>(t);
        for _ in 0..count {
            digest = H::last(&inner, &digest);
            digest = H::last(&outer, &digest);
            for i in 0..WORDS {
                sum[i] = sum[i].xor(digest[i]);
            }
        }
        store(&digest, u);
        store(&sum, t);
    }
}

#[inline(always)]
unsafe fn keyed<H: Words<WORDS>, V: Lanes, const WORDS: usize>(block: &[u8; BLOCK]) -> [V; WORDS] {
    // SAFETY: the features are the caller's promise.
    unsafe {
        let mut words = [V::splat(0); 16];
        for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
            *word = V::splat(u32::from_le_bytes(*bytes));
        }
        H::first(&words)
    }
}

/// The words of the digests, a block in each lane. The lanes that are left have zeros.
#[inline(always)]
unsafe fn load<V: Lanes, const WORDS: usize>(blocks: &[[u8; BLOCK]]) -> [V; WORDS] {
    let mut words = [[0u32; MOST]; WORDS];
    for (lane, block) in blocks.iter().enumerate() {
        for (words, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
            words[lane] = u32::from_le_bytes(*bytes);
        }
    }
    // SAFETY: the features are the caller's promise; no vector has more lanes than a row.
    unsafe {
        let mut lanes = [V::splat(0); WORDS];
        for (lanes, words) in lanes.iter_mut().zip(&words) {
            *lanes = V::load(words.as_ptr());
        }
        lanes
    }
}

#[inline(always)]
unsafe fn store<V: Lanes, const WORDS: usize>(lanes: &[V; WORDS], blocks: &mut [[u8; BLOCK]]) {
    for (i, lanes) in lanes.iter().enumerate() {
        let mut words = [0u32; MOST];
        // SAFETY: the features are the caller's promise; no vector has more lanes than a row.
        unsafe { lanes.store(words.as_mut_ptr()) };
        for (block, word) in blocks.iter_mut().zip(words) {
            block[4 * i..4 * i + 4].copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// Proof that the CPU has one of them, and that the system saves the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vectors {
    Avx512(Proof),
    Avx2(Proof),
}

/// Made by detection alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof(());

impl Vectors {
    /// Those that the CPU has, widest first.
    pub(super) fn detected() -> impl Iterator<Item = Self> {
        let cpu = Cpu::ask();
        let wide = cpu.avx512.then_some(Self::Avx512(Proof(())));
        wide.into_iter().chain(cpu.avx2.then_some(Self::Avx2(Proof(()))))
    }
}

/// Implements [`Beside`](super::Beside) for a hash of such words.
macro_rules! beside {
    ($name:ident, $digest:ty, $words:literal, $width:literal) => {
        impl $crate::backend::lanes::beside::Beside for $name {
            type Digest = $digest;
            const WIDTH: usize = $width;
            type Proof = $crate::backend::lanes::beside::words::Vectors;

            fn detected() -> impl Iterator<Item = Self::Proof> {
                Self::Proof::detected()
            }

            fn iterate(
                proof: Self::Proof,
                key: &KeyBlocks,
                u: &mut [[u8; BLOCK]],
                t: &mut [[u8; BLOCK]],
                count: u32,
            ) {
                match proof {
                    // SAFETY: the proof was built by detection of the features that the function is compiled for.
                    Self::Proof::Avx512(_) => unsafe { avx512(key, u, t, count) },
                    Self::Proof::Avx2(_) => {
                        for (u, t) in u.chunks_mut(8).zip(t.chunks_mut(8)) {
                            // SAFETY: the proof was built by detection of the feature that the function is compiled for.
                            unsafe { avx2(key, u, t, count) };
                        }
                    }
                }
            }
        }

        #[target_feature(enable = "avx512f,avx512vl")]
        unsafe fn avx512(key: &KeyBlocks, u: &mut [[u8; BLOCK]], t: &mut [[u8; BLOCK]], count: u32) {
            // SAFETY: the features are enabled here.
            unsafe { chains::<$name, core::arch::x86_64::__m512i, $words>(key, u, t, count) }
        }

        #[target_feature(enable = "avx2")]
        unsafe fn avx2(key: &KeyBlocks, u: &mut [[u8; BLOCK]], t: &mut [[u8; BLOCK]], count: u32) {
            // SAFETY: the feature is enabled here.
            unsafe { chains::<$name, core::arch::x86_64::__m256i, $words>(key, u, t, count) }
        }
    };
}

pub(super) use beside;
