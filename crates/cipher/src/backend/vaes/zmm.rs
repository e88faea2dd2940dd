//! Four cipher blocks in a 512-bit register: AVX-512 (F, BW, DQ, VL), VAES and VPCLMULQDQ.

use core::arch::x86_64::{__m512i, _mm512_alignr_epi64, _mm512_shuffle_i64x2};

use super::Lanes;
use crate::backend::powers;

impl Lanes for __m512i {
    #[inline(always)]
    unsafe fn four_further(four: &[Self; 4]) -> [Self; 4] {
        // SAFETY: the caller has AVX-512.
        unsafe { powers::four_further(four) }
    }

    #[inline(always)]
    unsafe fn first_four(start: Self) -> [Self; 4] {
        // SAFETY: the caller has AVX-512.
        unsafe { powers::first_four(start) }
    }

    #[inline(always)]
    unsafe fn behind(self, previous: Self) -> Self {
        // SAFETY: the caller has AVX-512, VAES and VPCLMULQDQ.
        unsafe { _mm512_alignr_epi64::<6>(self, previous) }
    }

    #[inline(always)]
    unsafe fn transpose(tile: &mut [Self; 4]) {
        // SAFETY: the caller has AVX-512, VAES and VPCLMULQDQ.
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
