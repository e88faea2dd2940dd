//! Two cipher blocks in a 256-bit register: AVX2, VAES and VPCLMULQDQ.

use core::arch::x86_64::{
    __m256i, _mm256_bslli_epi128, _mm256_bsrli_epi128, _mm256_clmulepi64_epi128, _mm256_permute2x128_si256,
    _mm256_set_epi64x, _mm256_sllv_epi64, _mm256_srlv_epi64, _mm256_sub_epi64,
};

use super::Lanes;
use crate::backend::register::Register;
use crate::backend::rounds::Steps;

/// x^128 modulo the field's polynomial, in the low half of each lane.
#[inline(always)]
unsafe fn polynomial() -> __m256i {
    // SAFETY: the caller has AVX2.
    unsafe { _mm256_set_epi64x(0, 0x87, 0, 0x87) }
}

impl Lanes for __m256i {
    #[inline(always)]
    unsafe fn four_further(four: &[Self; 4]) -> [Self; 4] {
        let mut further = *four;
        for lanes in &mut further {
            // SAFETY: the caller has AVX2, VAES and VPCLMULQDQ.
            unsafe {
                // x^8: a shift by a byte.
                let out = _mm256_bsrli_epi128::<15>(*lanes);
                let reduced = _mm256_clmulepi64_epi128::<0x00>(out, polynomial());
                *lanes = _mm256_bslli_epi128::<1>(*lanes).xor(reduced);
            }
        }
        further
    }

    #[inline(always)]
    unsafe fn first_four(start: Self) -> [Self; 4] {
        let mut powers = [start; 4];
        for (register, first) in powers.iter_mut().zip([0, 2, 4, 6]) {
            // SAFETY: the caller has AVX2, VAES and VPCLMULQDQ. A shift by 64 gives zero, as the power 0 wants it.
            unsafe {
                let left = _mm256_set_epi64x(first + 1, first + 1, first, first);
                let right = _mm256_sub_epi64(_mm256_set_epi64x(64, 64, 64, 64), left);
                // What leaves the low half goes to the high one, what leaves the high one is reduced into the low one.
                let out = _mm256_srlv_epi64(start, right);
                let reduced = _mm256_clmulepi64_epi128::<0x01>(out, polynomial());
                *register = _mm256_sllv_epi64(start, left).xor3(_mm256_bslli_epi128::<8>(out), reduced);
            }
        }
        powers
    }

    #[inline(always)]
    unsafe fn behind(self, previous: Self) -> Self {
        // SAFETY: the caller has AVX2, VAES and VPCLMULQDQ.
        unsafe { _mm256_permute2x128_si256::<0x21>(previous, self) }
    }

    #[inline(always)]
    unsafe fn transpose(tile: &mut [Self; 4]) {
        // SAFETY: the caller has AVX2, VAES and VPCLMULQDQ.
        unsafe {
            let [first, second, ..] = *tile;
            tile[0] = _mm256_permute2x128_si256::<0x20>(first, second);
            tile[1] = _mm256_permute2x128_si256::<0x31>(first, second);
        }
    }
}
