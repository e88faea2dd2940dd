//! AES-NI on x86-64 (Intel SDM, volume 2, AESENC and relatives), encoded with AVX or, for CPUs without it, with SSE.

use core::arch::asm;
use core::arch::x86_64::{
    __m128i, _MM_HINT_T0, _mm_add_epi64, _mm_aesdec_si128, _mm_aesdeclast_si128, _mm_aesenc_si128,
    _mm_aesenclast_si128, _mm_aesimc_si128, _mm_and_si128, _mm_cvtsi128_si32, _mm_loadu_si128, _mm_prefetch,
    _mm_set_epi32, _mm_set1_epi32, _mm_setzero_si128, _mm_shuffle_epi32, _mm_srai_epi32, _mm_storeu_si128,
    _mm_xor_si128,
};

use super::cpu::Cpu;
use super::schedule::Schedule;
use super::wide::{Meanwhile, Vector, instructions, modes};
use crate::block::Block;

/// Proof that the CPU has AES-NI and SSE2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AesNiSse(());

/// Proof that the CPU has AES-NI and AVX, and that the system saves AVX registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AesNiAvx(());

impl AesNiSse {
    /// Asks the CPU.
    pub(super) fn detect() -> Option<Self> {
        Cpu::ask().aes.then_some(Self(()))
    }
}

impl AesNiAvx {
    /// Asks the CPU.
    pub(super) fn detect() -> Option<Self> {
        Cpu::ask().has_aes_avx().then_some(Self(()))
    }
}

type Register = __m128i;

instructions!(AesNiAvx, avx, "aes,avx", modes, Register);
instructions!(AesNiSse, sse, "aes,sse2", modes, Register);

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

/// Emits nothing, but ends a round for all blocks in one place. The compiler would otherwise save registers by taking
/// two blocks at a time through all rounds, which leaves the AES unit idle between them.
#[inline(always)]
fn keep_together<const W: usize>(blocks: &mut [__m128i; W]) {
    if W == 8 {
        let (low, high) = blocks.split_at_mut(4);
        // SAFETY: no instruction, no memory, no flags.
        unsafe {
            asm!("/* {} {} {} {} {} {} {} {} */",
                inout(xmm_reg) low[0], inout(xmm_reg) low[1], inout(xmm_reg) low[2], inout(xmm_reg) low[3],
                inout(xmm_reg) high[0], inout(xmm_reg) high[1], inout(xmm_reg) high[2], inout(xmm_reg) high[3],
                options(nomem, nostack, preserves_flags));
        }
    }
}

// SAFETY (all of the blocks below): the caller has AES-NI and passes pointers to 16 bytes, as the trait asks.
impl Vector for __m128i {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_setzero_si128() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: 16 readable bytes, any alignment.
        unsafe { _mm_loadu_si128(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: 16 writable bytes, any alignment.
        unsafe { _mm_storeu_si128(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_xor_si128(self, other) }
    }

    #[inline(always)]
    unsafe fn double(self) -> Self {
        // SAFETY: SSE2 is part of x86-64.
        unsafe {
            // The top bit of each half goes around: from the low half into bit 64, from the high half into 0x87.
            let signs = _mm_shuffle_epi32(_mm_srai_epi32(self, 31), 0b00_01_00_11);
            let carries = _mm_and_si128(signs, _mm_set_epi32(0, 1, 0, 0x87));
            _mm_xor_si128(_mm_add_epi64(self, self), carries)
        }
    }

    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        // SAFETY: a prefetch never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }

    #[inline(always)]
    unsafe fn encrypt<const R: usize, const W: usize, M: Meanwhile>(
        blocks: &mut [Self; W],
        schedule: &Schedule,
        masks: &[Self; W],
        meanwhile: &mut M,
    ) {
        // SAFETY: the caller has AES-NI, and the schedule has R + 1 keys.
        unsafe {
            let first = Self::load(schedule.0[0].as_ptr());
            for block in blocks.iter_mut() {
                *block = _mm_xor_si128(*block, first);
            }
            for round in 1..R {
                let key = Self::load(schedule.0[round].as_ptr());
                for block in blocks.iter_mut() {
                    *block = _mm_aesenc_si128(*block, key);
                }
                meanwhile.step(round);
                keep_together(blocks);
            }
            let last = Self::load(schedule.0[R].as_ptr());
            for i in 0..W {
                blocks[i] = _mm_aesenclast_si128(blocks[i], _mm_xor_si128(masks[i], last));
            }
        }
    }

    #[inline(always)]
    unsafe fn decrypt<const R: usize, const W: usize, M: Meanwhile>(
        blocks: &mut [Self; W],
        schedule: &Schedule,
        masks: &[Self; W],
        meanwhile: &mut M,
    ) {
        // SAFETY: the caller has AES-NI, and the schedule has R + 1 keys.
        unsafe {
            let first = Self::load(schedule.0[0].as_ptr());
            for block in blocks.iter_mut() {
                *block = _mm_xor_si128(*block, first);
            }
            for round in 1..R {
                let key = Self::load(schedule.0[round].as_ptr());
                for block in blocks.iter_mut() {
                    *block = _mm_aesdec_si128(*block, key);
                }
                meanwhile.step(round);
                keep_together(blocks);
            }
            let last = Self::load(schedule.0[R].as_ptr());
            for i in 0..W {
                blocks[i] = _mm_aesdeclast_si128(blocks[i], _mm_xor_si128(masks[i], last));
            }
        }
    }
}
