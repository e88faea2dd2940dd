//! PCLMULQDQ on x86-64 (Intel SDM, volume 2; S. Gueron and M. Kounavis, "Carry-less multiplication instruction and its
//! usage for computing the GCM mode"; the reduction is that of RFC 8452's authors).

use core::arch::x86_64::{
    __m128i, _mm_add_epi64, _mm_clmulepi64_si128, _mm_cvtsi64_si128, _mm_set_epi64x, _mm_shuffle_epi32,
    _mm_slli_si128, _mm_srli_si128, _mm_xor_si128,
};

use crate::backend::aesni::{AesNiAvx, AesNiSse};
use crate::backend::vaes::{Vaes256, Vaes512};
use crate::backend::wide::hctr2::{Multiply, Product, hashing};

hashing!(AesNiSse, sse, "aes,sse2,pclmulqdq", __m128i);
hashing!(AesNiAvx, avx, "aes,avx,pclmulqdq", __m128i);
// Every CPU with VAES has what this needs.
hashing!(Vaes256, ymm256, "aes,avx2,pclmulqdq", __m128i);
hashing!(Vaes512, zmm512, "aes,avx2,avx512f,avx512vl,pclmulqdq", __m128i);

// SAFETY (all of the blocks below): the caller has PCLMULQDQ, as the trait asks; the rest is SSE2.
impl Multiply for __m128i {
    #[inline(always)]
    unsafe fn multiply_add(self, other: Self, sum: &mut Product<Self>) {
        // SAFETY: as said above.
        unsafe {
            let low = _mm_clmulepi64_si128::<0x00>(self, other);
            let high = _mm_clmulepi64_si128::<0x11>(self, other);
            let crossed =
                [_mm_clmulepi64_si128::<0x01>(self, other), _mm_clmulepi64_si128::<0x10>(self, other)];
            sum.low = _mm_xor_si128(sum.low, low);
            sum.high = _mm_xor_si128(sum.high, high);
            sum.middle = _mm_xor_si128(sum.middle, _mm_xor_si128(crossed[0], crossed[1]));
        }
    }

    #[inline(always)]
    unsafe fn reduce(sum: Product<Self>) -> Self {
        // SAFETY: as said above.
        unsafe {
            let low = _mm_xor_si128(sum.low, _mm_slli_si128::<8>(sum.middle));
            let high = _mm_xor_si128(sum.high, _mm_srli_si128::<8>(sum.middle));
            _mm_xor_si128(high, fold(fold(low)))
        }
    }

    #[inline(always)]
    unsafe fn number(number: u64) -> Self {
        // SAFETY: as said above.
        unsafe { _mm_cvtsi64_si128(number.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        // SAFETY: as said above.
        unsafe { _mm_add_epi64(self, other) }
    }
}

/// x^-64 times a polynomial of 128 bits: the low half times x^63 + x^62 + x^57, added to the swapped halves.
#[inline(always)]
unsafe fn fold(a: __m128i) -> __m128i {
    // SAFETY: the caller has PCLMULQDQ.
    unsafe {
        let modulus = _mm_set_epi64x(0, 0xc200_0000_0000_0000u64.cast_signed());
        _mm_xor_si128(_mm_shuffle_epi32::<0b01_00_11_10>(a), _mm_clmulepi64_si128::<0x00>(a, modulus))
    }
}
