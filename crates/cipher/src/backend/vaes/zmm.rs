//! Four cipher blocks in a 512-bit register: AVX-512 (F, BW, DQ, VL), VAES and VPCLMULQDQ.

use core::arch::x86_64::{
    __m512i, _mm512_alignr_epi64, _mm512_bslli_epi128, _mm512_bsrli_epi128, _mm512_clmulepi64_epi128,
    _mm512_set_epi64, _mm512_set1_epi64, _mm512_shuffle_i64x2, _mm512_sllv_epi64, _mm512_srlv_epi64,
    _mm512_sub_epi64, _mm512_xor_si512,
};

use super::Lanes;
use crate::backend::rounds::Steps;

/// x^128 modulo the field's polynomial, in the low half of each lane.
#[inline(always)]
unsafe fn polynomial() -> __m512i {
    // SAFETY: the caller has AVX-512.
    unsafe { _mm512_set_epi64(0, 0x87, 0, 0x87, 0, 0x87, 0, 0x87) }
}

// SAFETY (all of the blocks below): the caller has AVX-512, VAES and VPCLMULQDQ and passes pointers as the trait asks.
impl Lanes for __m512i {
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
}
