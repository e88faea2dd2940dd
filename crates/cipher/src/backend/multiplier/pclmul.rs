//! PCLMULQDQ on x86-64 (Intel SDM, volume 2; S. Gueron and M. Kounavis, "Carry-less multiplication instruction and its
//! usage for computing the GCM mode"; the reduction is that of RFC 8452's authors), and VPCLMULQDQ, which does it for the
//! blocks of a wider register.

use core::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_clmulepi64_si128, _mm_shuffle_epi32, _mm_slli_si128, _mm_srli_si128,
    _mm256_bslli_epi128, _mm256_bsrli_epi128, _mm256_castsi256_si128, _mm256_clmulepi64_epi128,
    _mm256_extracti128_si256, _mm256_shuffle_epi32, _mm256_zextsi128_si256, _mm512_bslli_epi128,
    _mm512_bsrli_epi128, _mm512_clmulepi64_epi128, _mm512_maskz_mov_epi64, _mm512_shuffle_epi32,
    _mm512_shuffle_i64x2,
};

use crate::backend::aesni::{AesNiAvx, AesNiSse};
use crate::backend::register::Register;
use crate::backend::rounds::Steps;
use crate::backend::vaes::{Vaes256, Vaes512};
use crate::backend::wide::Vector;
use crate::backend::wide::hashing::hashing;
use crate::backend::wide::hctr2::{Multiply, Product};

hashing!(AesNiSse, sse, "aes,sse2,pclmulqdq", __m128i, __m128i);
hashing!(AesNiAvx, avx, "aes,avx,pclmulqdq", __m128i, __m128i);
// Every CPU with VAES has PCLMULQDQ, and only with VPCLMULQDQ does it count.
hashing!(Vaes256, ymm256, "aes,avx2,pclmulqdq,vaes,vpclmulqdq", __m128i, __m256i);
hashing!(
    Vaes512,
    zmm512,
    "aes,avx2,avx512f,avx512bw,avx512dq,avx512vl,pclmulqdq,vaes,vpclmulqdq",
    __m128i,
    __m512i
);

/// Implements [`Multiply`] for a width.
macro_rules! multiply {
    ($register:ty, $multiply:ident $shuffle:ident $left:ident $right:ident, $folded:ident) => {
        // SAFETY (all of the blocks below): the caller has the multiplier for that width, as the trait asks.
        impl Multiply for $register {
            #[inline(always)]
            unsafe fn multiply_add(self, other: Self, sum: &mut Product<Self>) {
                // SAFETY: as said above.
                unsafe {
                    sum.low = sum.low.xor($multiply::<0x00>(self, other));
                    sum.high = sum.high.xor($multiply::<0x11>(self, other));
                    let crossed = [$multiply::<0x01>(self, other), $multiply::<0x10>(self, other)];
                    sum.middle = sum.middle.xor3(crossed[0], crossed[1]);
                }
            }

            #[inline(always)]
            unsafe fn multiply_add_pairs([(a, b), (c, d)]: [(Self, Self); 2], sum: &mut Product<Self>) {
                // SAFETY: as said above.
                unsafe {
                    sum.low = sum.low.xor3($multiply::<0x00>(a, b), $multiply::<0x00>(c, d));
                    sum.high = sum.high.xor3($multiply::<0x11>(a, b), $multiply::<0x11>(c, d));
                    sum.middle = sum.middle.xor3($multiply::<0x01>(a, b), $multiply::<0x10>(a, b));
                    sum.middle = sum.middle.xor3($multiply::<0x01>(c, d), $multiply::<0x10>(c, d));
                }
            }

            #[inline(always)]
            unsafe fn reduce(sum: Product<Self>) -> Self {
                // SAFETY: as said above. The modulus is a block.
                unsafe {
                    // x^-64 times a polynomial of 128 bits: the low half times x^63 + x^62 + x^57, added to the swapped
                    // halves; twice.
                    let modulus = Self::broadcast((&raw const MODULUS).cast());
                    let low = sum.low.xor($left::<8>(sum.middle));
                    let high = sum.high.xor($right::<8>(sum.middle));
                    let once = $shuffle::<0b01_00_11_10>(low).xor($multiply::<0x00>(low, modulus));
                    high.xor3($shuffle::<0b01_00_11_10>(once), $multiply::<0x00>(once, modulus))
                }
            }

            #[inline(always)]
            unsafe fn folded(self) -> Self {
                // SAFETY: as said above.
                unsafe { $folded(self) }
            }
        }
    };
}

/// x^63 + x^62 + x^57, in the low half.
static MODULUS: u128 = 0xc200_0000_0000_0000;

multiply!(__m128i, _mm_clmulepi64_si128 _mm_shuffle_epi32 _mm_slli_si128 _mm_srli_si128, fold_one);
multiply!(__m256i, _mm256_clmulepi64_epi128 _mm256_shuffle_epi32 _mm256_bslli_epi128 _mm256_bsrli_epi128, fold_two);
multiply!(__m512i, _mm512_clmulepi64_epi128 _mm512_shuffle_epi32 _mm512_bslli_epi128 _mm512_bsrli_epi128, fold_four);

#[inline(always)]
unsafe fn fold_one(one: __m128i) -> __m128i {
    one
}

#[inline(always)]
unsafe fn fold_two(two: __m256i) -> __m256i {
    // SAFETY: the caller has AVX2.
    unsafe { _mm256_zextsi128_si256(_mm256_extracti128_si256::<1>(two).xor(_mm256_castsi256_si128(two))) }
}

#[inline(always)]
unsafe fn fold_four(four: __m512i) -> __m512i {
    // SAFETY: the caller has AVX-512.
    unsafe {
        let two = four.xor(_mm512_shuffle_i64x2::<0b01_00_11_10>(four, four));
        let one = two.xor(_mm512_shuffle_i64x2::<0b10_11_00_01>(two, two));
        _mm512_maskz_mov_epi64(0b11, one)
    }
}
