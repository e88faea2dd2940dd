//! AVX-512 F and VL: a rotation is one instruction, and so is any logic of three registers. Half as many operations a
//! round as with AVX.

use core::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_extract_epi32, _mm_ror_epi32, _mm_set1_epi32, _mm_setr_epi32, _mm_srli_epi32,
    _mm_ternarylogic_epi32, _mm_xor_si128,
};

use super::{chains, eight_rounds, known_sigma0, known_sigma1, next, round};
use crate::backend::cpu::Cpu;
use crate::backend::{K, Keyed, MAX_BLOCKS, PADDING, Words};

/// Proof that the CPU has these parts of AVX-512, and that the system saves the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend) struct Avx512(());

/// Takes what the CPU said.
pub(in crate::backend) fn detect(cpu: Cpu) -> Option<Avx512> {
    cpu.avx512.then_some(Avx512(()))
}

impl Avx512 {
    pub(in crate::backend) fn iterate(self, key: &Keyed, u: &mut [Words], t: &mut [Words], count: u32) {
        // SAFETY: the proof was built by detection of the features that the function is compiled for.
        unsafe { chains(key, u, t, count) };
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn rotated<const BITS: i32>(x: __m128i) -> __m128i {
    _mm_ror_epi32::<BITS>(x)
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn xor3(a: __m128i, b: __m128i, c: __m128i) -> __m128i {
    _mm_ternarylogic_epi32::<0x96>(a, b, c)
}

/// Bits of `f` where `e` has ones, of `g` elsewhere.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn choose(e: __m128i, f: __m128i, g: __m128i) -> __m128i {
    _mm_ternarylogic_epi32::<0xca>(e, f, g)
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn majority(a: __m128i, b: __m128i, c: __m128i) -> __m128i {
    _mm_ternarylogic_epi32::<0xe8>(a, b, c)
}

chains!("avx512f,avx512vl");
