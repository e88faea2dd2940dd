//! Four cipher blocks in a 512-bit register: AVX-512 (F, BW, DQ, VL), VAES and VPCLMULQDQ.

use core::arch::asm;
use core::arch::x86_64::{
    __m512i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm512_aesdec_epi128, _mm512_aesdeclast_epi128,
    _mm512_aesenc_epi128, _mm512_aesenclast_epi128, _mm512_alignr_epi64, _mm512_broadcast_i32x4,
    _mm512_bslli_epi128, _mm512_bsrli_epi128, _mm512_clmulepi64_epi128, _mm512_loadu_si512,
    _mm512_mask_storeu_epi64, _mm512_maskz_loadu_epi64, _mm512_set_epi64, _mm512_set1_epi64,
    _mm512_setzero_si512, _mm512_shuffle_i64x2, _mm512_sllv_epi64, _mm512_srlv_epi64, _mm512_storeu_si512,
    _mm512_sub_epi64, _mm512_ternarylogic_epi64, _mm512_xor_si512,
};

use super::{Lanes, REGISTERS};

/// x^128 modulo the field's polynomial, in the low half of each lane.
#[inline(always)]
unsafe fn polynomial() -> __m512i {
    // SAFETY: the caller has AVX-512.
    unsafe { _mm512_set_epi64(0, 0x87, 0, 0x87, 0, 0x87, 0, 0x87) }
}

/// A bit for each half of the first `count` blocks.
#[inline(always)]
fn halves(count: usize) -> u8 {
    // Four blocks make 255, the same as 256 - 1 without its top bit.
    ((1u32 << (2 * count.min(4))) - 1) as u8
}

// SAFETY (all of the blocks below): the caller has AVX-512, VAES and VPCLMULQDQ and passes pointers as the trait asks.
impl Lanes for __m512i {
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: as above.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: 64 readable bytes, any alignment.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: 64 writable bytes, any alignment.
        unsafe { _mm512_storeu_si512(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const u8, count: usize) -> Self {
        // SAFETY: what the mask leaves out is not touched; 16 readable bytes for each block that it has.
        unsafe { _mm512_maskz_loadu_epi64(halves(count), from.cast()) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut u8, count: usize) {
        // SAFETY: what the mask leaves out is not touched; 16 writable bytes for each block that it has.
        unsafe { _mm512_mask_storeu_epi64(to.cast(), halves(count), self) }
    }

    #[inline(always)]
    unsafe fn broadcast(from: *const u8) -> Self {
        // SAFETY: 16 readable bytes, any alignment.
        unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(from.cast())) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_xor_si512(self, other) }
    }

    #[inline(always)]
    unsafe fn xor3(self, second: Self, third: Self) -> Self {
        // SAFETY: as above. 0x96 is the table of a xor b xor c.
        unsafe { _mm512_ternarylogic_epi64::<0x96>(self, second, third) }
    }

    #[inline(always)]
    unsafe fn times_x8(self) -> Self {
        // SAFETY: as above.
        unsafe {
            let out = _mm512_bsrli_epi128::<15>(self);
            let reduced = _mm512_clmulepi64_epi128::<0x00>(out, polynomial());
            _mm512_xor_si512(_mm512_bslli_epi128::<1>(self), reduced)
        }
    }

    #[inline(always)]
    unsafe fn times_powers(self, first: usize) -> Self {
        let first = first as i64;
        // SAFETY: as above. A shift by 64 gives zero, as the power 0 wants it.
        unsafe {
            let (second, third, fourth) = (first + 1, first + 2, first + 3);
            let left = _mm512_set_epi64(fourth, fourth, third, third, second, second, first, first);
            let right = _mm512_sub_epi64(_mm512_set1_epi64(64), left);
            // What leaves the low half goes to the high one, what leaves the high one is reduced into the low one.
            let out = _mm512_srlv_epi64(self, right);
            let reduced = _mm512_clmulepi64_epi128::<0x01>(out, polynomial());
            _mm512_sllv_epi64(self, left).xor3(_mm512_bslli_epi128::<8>(out), reduced)
        }
    }

    #[inline(always)]
    unsafe fn behind(self, previous: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_alignr_epi64::<6>(self, previous) }
    }

    #[inline(always)]
    unsafe fn transpose(tile: &mut [Self; 4]) {
        // SAFETY: as above.
        unsafe {
            let [a, b, c, d] = *tile;
            let low_ab = _mm512_shuffle_i64x2::<0x44>(a, b);
            let high_ab = _mm512_shuffle_i64x2::<0xee>(a, b);
            let low_cd = _mm512_shuffle_i64x2::<0x44>(c, d);
            let high_cd = _mm512_shuffle_i64x2::<0xee>(c, d);
            tile[0] = _mm512_shuffle_i64x2::<0x88>(low_ab, low_cd);
            tile[1] = _mm512_shuffle_i64x2::<0xdd>(low_ab, low_cd);
            tile[2] = _mm512_shuffle_i64x2::<0x88>(high_ab, high_cd);
            tile[3] = _mm512_shuffle_i64x2::<0xdd>(high_ab, high_cd);
        }
    }

    #[inline(always)]
    unsafe fn encrypt_round(self, key: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_aesenc_epi128(self, key) }
    }

    #[inline(always)]
    unsafe fn encrypt_last(self, key: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_aesenclast_epi128(self, key) }
    }

    #[inline(always)]
    unsafe fn decrypt_round(self, key: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_aesdec_epi128(self, key) }
    }

    #[inline(always)]
    unsafe fn decrypt_last(self, key: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_aesdeclast_epi128(self, key) }
    }

    #[inline(always)]
    unsafe fn keep_together(registers: &mut [Self; REGISTERS]) {
        // SAFETY: as above.
        unsafe { keep_together(registers) }
    }

    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        // SAFETY: a prefetch never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn keep_together(registers: &mut [__m512i; REGISTERS]) {
    let (low, high) = registers.split_at_mut(4);
    // SAFETY: no instruction, no memory, no flags.
    unsafe {
        asm!("/* {} {} {} {} {} {} {} {} */",
            inout(zmm_reg) low[0], inout(zmm_reg) low[1], inout(zmm_reg) low[2], inout(zmm_reg) low[3],
            inout(zmm_reg) high[0], inout(zmm_reg) high[1], inout(zmm_reg) high[2], inout(zmm_reg) high[3],
            options(nomem, nostack, preserves_flags));
    }
}
