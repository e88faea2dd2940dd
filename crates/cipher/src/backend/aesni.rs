//! AES-NI on x86-64 (Intel SDM, volume 2, AESENC and relatives), encoded with AVX or, for CPUs without it, with SSE.

use core::arch::x86_64::{
    __m128i, _mm_aesenclast_si128, _mm_aesimc_si128, _mm_cvtsi128_si32, _mm_set1_epi32, _mm_setzero_si128,
};

use super::cpu::Cpu;
use super::register::Register;
use super::wide::{instructions, modes};
use crate::block::Block;

/// Proof that the CPU has AES-NI and SSE2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AesNiSse(());

/// Proof that the CPU has AES-NI and AVX, and that the system saves AVX registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(atrest_few_backends, expect(dead_code, reason = "it is in no list then"))]
pub(crate) struct AesNiAvx(());

impl AesNiSse {
    /// Asks the CPU.
    pub(super) fn detect() -> Option<Self> {
        Cpu::ask().aes.then_some(Self(()))
    }
}

impl AesNiAvx {
    /// Asks the CPU.
    #[cfg(not(atrest_few_backends))]
    pub(super) fn detect() -> Option<Self> {
        Cpu::ask().has_aes_avx().then_some(Self(()))
    }
}

instructions!(AesNiAvx, avx, "aes,avx", modes, __m128i);
instructions!(AesNiSse, sse, "aes,sse2", modes, __m128i);

/// The S-box on each byte of a word. In a block of four equal columns AESENCLAST's ShiftRows changes nothing.
#[inline(always)]
pub(super) unsafe fn sub_word(word: u32) -> u32 {
    // SAFETY: the caller has AES-NI.
    unsafe {
        let columns = _mm_set1_epi32(word.cast_signed());
        _mm_cvtsi128_si32(_mm_aesenclast_si128(columns, _mm_setzero_si128())).cast_unsigned()
    }
}

#[inline(always)]
pub(super) unsafe fn inverse_mix(key: &Block) -> Block {
    let mut mixed = [0; 16];
    // SAFETY: the caller has AES-NI; both blocks are 16 bytes long.
    unsafe { _mm_aesimc_si128(__m128i::load(key.as_ptr())).store(mixed.as_mut_ptr()) };
    mixed
}
