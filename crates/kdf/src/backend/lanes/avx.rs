//! AVX, for its three operands: rotations are two shifts. It pays from two blocks on.

use core::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_and_si128, _mm_extract_epi32, _mm_or_si128, _mm_set1_epi32, _mm_setr_epi32,
    _mm_slli_epi32, _mm_srli_epi32, _mm_xor_si128,
};

use super::{chains, eight_rounds, known_sigma0, known_sigma1, next, round};
use crate::backend::cpu::Cpu;
use crate::backend::portable;
use crate::backend::{K, Keyed, MAX_BLOCKS, PADDING, Words};

/// Proof that the CPU has AVX, and that the system saves the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend) struct Avx(());

/// Takes what the CPU said.
pub(in crate::backend) fn detect(cpu: Cpu) -> Option<Avx> {
    cpu.avx.then_some(Avx(()))
}

impl Avx {
    pub(in crate::backend) fn iterate(self, key: &Keyed, u: &mut [Words], t: &mut [Words], count: u32) {
        if u.len() < 2 {
            return portable::iterate(key, u, t, count);
        }
        // SAFETY: the proof was built by detection of the feature that the function is compiled for.
        unsafe { chains(key, u, t, count) };
    }
}

#[inline]
#[target_feature(enable = "avx")]
fn rotated<const BITS: i32>(x: __m128i) -> __m128i {
    // The shift to the left can't be spelled 32 - BITS in a const argument.
    let left = match BITS {
        2 => _mm_slli_epi32::<30>(x),
        6 => _mm_slli_epi32::<26>(x),
        7 => _mm_slli_epi32::<25>(x),
        11 => _mm_slli_epi32::<21>(x),
        13 => _mm_slli_epi32::<19>(x),
        17 => _mm_slli_epi32::<15>(x),
        18 => _mm_slli_epi32::<14>(x),
        19 => _mm_slli_epi32::<13>(x),
        22 => _mm_slli_epi32::<10>(x),
        25 => _mm_slli_epi32::<7>(x),
        _ => unreachable!("a rotation that SHA-256 does not have"),
    };
    _mm_or_si128(left, _mm_srli_epi32::<BITS>(x))
}

#[inline]
#[target_feature(enable = "avx")]
fn xor3(a: __m128i, b: __m128i, c: __m128i) -> __m128i {
    _mm_xor_si128(_mm_xor_si128(a, b), c)
}

/// Bits of `f` where `e` has ones, of `g` elsewhere.
#[inline]
#[target_feature(enable = "avx")]
fn choose(e: __m128i, f: __m128i, g: __m128i) -> __m128i {
    _mm_xor_si128(_mm_and_si128(_mm_xor_si128(f, g), e), g)
}

#[inline]
#[target_feature(enable = "avx")]
fn majority(a: __m128i, b: __m128i, c: __m128i) -> __m128i {
    _mm_or_si128(_mm_and_si128(a, b), _mm_and_si128(_mm_or_si128(a, b), c))
}

chains!("avx");
