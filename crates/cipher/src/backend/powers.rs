//! Blocks times powers of x in GF(2^128), four of them in a 512-bit register: AVX-512 (F, BW, DQ and VL).
#![allow(clippy::needless_range_loop, reason = "constant bounds over several arrays at once, to be unrolled")]

use core::arch::x86_64::{
    __m512i, _mm512_bslli_epi128, _mm512_castps_si512, _mm512_castsi512_ps, _mm512_maskz_set1_epi32,
    _mm512_set_epi64, _mm512_set1_epi64, _mm512_shuffle_epi32, _mm512_shuffle_ps, _mm512_slli_epi32,
    _mm512_sllv_epi64, _mm512_srli_epi32, _mm512_srlv_epi64, _mm512_sub_epi64, _mm512_ternarylogic_epi32,
};

use super::register::Register;
use super::rounds::Steps;

/// The blocks that a register has the first of in each lane, times x^0 to x^15.
#[inline(always)]
pub(super) unsafe fn first_four(start: __m512i) -> [__m512i; 4] {
    // SAFETY: the caller has AVX-512. A shift by 64 gives zero, as the power 0 wants it.
    unsafe {
        let mut out = [start; 4];
        let mut powers = [start; 4];
        for i in 0..4 {
            let [a, b, c, d] = core::array::from_fn(|lane| (4 * i + lane) as i64);
            let left = _mm512_set_epi64(d, d, c, c, b, b, a, a);
            let right = _mm512_sub_epi64(_mm512_set1_epi64(64), left);
            // What leaves the low half goes to the high one, what leaves the high one is reduced into the low one.
            out[i] = _mm512_srlv_epi64(start, right);
            powers[i] = _mm512_sllv_epi64(start, left).xor(_mm512_bslli_epi128::<8>(out[i]));
        }
        let reduced = times_polynomial(doublewords::<0b10_10_10_10>(out));
        [
            xor_first_doubleword(powers[0], reduced),
            xor_first_doubleword(powers[1], _mm512_shuffle_epi32::<1>(reduced)),
            xor_first_doubleword(powers[2], _mm512_shuffle_epi32::<2>(reduced)),
            xor_first_doubleword(powers[3], _mm512_shuffle_epi32::<3>(reduced)),
        ]
    }
}

/// Sixteen blocks times x^16.
#[inline(always)]
pub(super) unsafe fn four_further(four: &[__m512i; 4]) -> [__m512i; 4] {
    let [a, b, c, d] = *four;
    // SAFETY: the caller has AVX-512.
    unsafe {
        // x^16: a shift by two bytes. What leaves the lanes of all four is reduced in one register, a doubleword for each.
        let reduced = times_polynomial(_mm512_srli_epi32::<16>(doublewords::<0b11_11_11_11>(*four)));
        [
            xor_first_doubleword(_mm512_bslli_epi128::<2>(a), reduced).kept(),
            xor_first_doubleword(_mm512_bslli_epi128::<2>(b), _mm512_shuffle_epi32::<1>(reduced)).kept(),
            xor_first_doubleword(_mm512_bslli_epi128::<2>(c), _mm512_shuffle_epi32::<2>(reduced)).kept(),
            xor_first_doubleword(_mm512_bslli_epi128::<2>(d), _mm512_shuffle_epi32::<3>(reduced)).kept(),
        ]
    }
}

/// A doubleword of each lane of four registers, side by side: number n, for `WHICH` = n · 0b01_01_01_01.
#[inline(always)]
unsafe fn doublewords<const WHICH: i32>([a, b, c, d]: [__m512i; 4]) -> __m512i {
    // SAFETY: the caller has AVX-512.
    unsafe {
        let ab = _mm512_shuffle_ps::<WHICH>(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b));
        let cd = _mm512_shuffle_ps::<WHICH>(_mm512_castsi512_ps(c), _mm512_castsi512_ps(d));
        _mm512_castps_si512(_mm512_shuffle_ps::<0b10_00_10_00>(ab, cd))
    }
}

/// Doublewords of at most 16 bits, times what x^128 is modulo the field's polynomial: 0x87.
#[inline(always)]
unsafe fn times_polynomial(a: __m512i) -> __m512i {
    // SAFETY: the caller has AVX-512.
    unsafe { a.xor3(_mm512_slli_epi32::<1>(a), _mm512_slli_epi32::<2>(a)).xor(_mm512_slli_epi32::<7>(a)) }
}

/// `a` xor the first doubleword of each lane of `b`. As one operation: of a masked shuffle the compiler makes one that
/// wants a register of constants.
#[inline(always)]
unsafe fn xor_first_doubleword(a: __m512i, b: __m512i) -> __m512i {
    // SAFETY: the caller has AVX-512. 0x78 is the table of a xor (b and c).
    unsafe { _mm512_ternarylogic_epi32::<0x78>(a, b, _mm512_maskz_set1_epi32(0x1111, -1)) }
}
