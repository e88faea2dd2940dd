//! AEGIS by AES-NI and VAES.

use core::arch::x86_64::{__m128i, __m256i, __m512i};

use super::{Round, aegis};
use crate::backend::aesni::{AesNiAvx, AesNiSse};
use crate::backend::rounds::Steps;
use crate::backend::vaes::{Lanes, Vaes256, Vaes512};

aegis!(AesNiSse, sse, "aes,sse2", __m128i, __m128i);
aegis!(AesNiAvx, avx, "aes,avx", __m128i, __m128i);
aegis!(Vaes256, ymm256, "aes,avx2,vaes,vpclmulqdq", __m256i, __m128i);
aegis!(Vaes512, zmm512, "aes,avx2,avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq", __m512i, __m128i);

impl Round for __m128i {
    #[inline(always)]
    unsafe fn round(self, key: Self) -> Self {
        // SAFETY: the caller has AES-NI.
        unsafe { self.encrypt_round(key) }
    }

    #[inline(always)]
    unsafe fn turn(_: &mut [Self; 4]) {}
}

/// With more than one lane.
macro_rules! round {
    ($($register:ty)+) => {$(
        impl Round for $register {
            #[inline(always)]
            unsafe fn round(self, key: Self) -> Self {
                // SAFETY: the caller has VAES for registers of that width.
                unsafe { self.encrypt_round(key) }
            }

            #[inline(always)]
            unsafe fn turn(tile: &mut [Self; 4]) {
                // SAFETY: the caller has VAES for registers of that width.
                unsafe { Lanes::transpose(tile) }
            }
        }
    )+};
}

round!(__m256i __m512i);
