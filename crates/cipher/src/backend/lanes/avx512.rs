//! AVX-512 (F, BW, VL and DQ) on x86-64.

#[cfg(feature = "serpent")]
use core::arch::x86_64::_mm512_sllv_epi32;
use core::arch::x86_64::{
    __m512i, _mm256_add_epi64, _mm256_storeu_si256, _mm512_add_epi32, _mm512_add_epi64,
    _mm512_castsi512_si256, _mm512_extracti64x4_epi64, _mm512_mul_epu32, _mm512_permutex2var_epi64,
    _mm512_permutexvar_epi32, _mm512_rol_epi32, _mm512_set1_epi32, _mm512_set1_epi64, _mm512_setr_epi64,
    _mm512_shuffle_i64x2, _mm512_sllv_epi64, _mm512_srli_epi64, _mm512_srlv_epi64, _mm512_unpackhi_epi32,
    _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
};
#[cfg(feature = "sha2")]
use core::arch::x86_64::{
    _mm512_rorv_epi32, _mm512_rorv_epi64, _mm512_srlv_epi32, _mm512_ternarylogic_epi32,
};

use super::{Lanes, UNITS, vector_instructions};
use crate::backend::cpu::Cpu;
use crate::backend::register::Register;

/// Proof that the CPU has these parts of AVX-512, and that the system saves the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// Asks the CPU.
    pub(in crate::backend) fn detect() -> Option<Self> {
        Cpu::ask().has_avx512().then_some(Self(()))
    }
}

vector_instructions!(
    Avx512,
    super::__m512i,
    crate::backend::lanes::poly::Limbs<super::__m512i>,
    instructions,
    "avx512f,avx512bw,avx512dq,avx512vl"
);

#[cfg(feature = "sha2")]
super::sha2::sha_instructions!(Avx512, super::__m512i, sha2, "avx512f,avx512bw,avx512dq,avx512vl");

#[cfg(feature = "serpent")]
super::serpent::serpent_instructions!(
    Avx512,
    super::__m512i,
    2,
    serpent,
    "avx512f,avx512bw,avx512dq,avx512vl"
);

// SAFETY (all of the blocks below): the caller has these parts of AVX-512 and passes pointers as the trait asks.
impl Lanes for __m512i {
    const WORDS: usize = 16;

    #[inline(always)]
    unsafe fn splat32(value: u32) -> Self {
        // SAFETY: registers only.
        unsafe { _mm512_set1_epi32(value.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn splat64(value: u64) -> Self {
        // SAFETY: registers only.
        unsafe { _mm512_set1_epi64(value.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn add32(self, other: Self) -> Self {
        // SAFETY: registers only.
        unsafe { _mm512_add_epi32(self, other) }
    }

    #[inline(always)]
    unsafe fn rotate32<const BITS: i32>(self) -> Self {
        // SAFETY: registers only.
        unsafe { _mm512_rol_epi32::<BITS>(self) }
    }

    #[cfg(feature = "serpent")]
    #[inline(always)]
    unsafe fn up32<const BITS: i32>(self) -> Self {
        // SAFETY: registers only.
        unsafe { _mm512_sllv_epi32(self, Self::splat32(BITS as u32)) }
    }

    #[cfg(feature = "serpent")]
    #[inline(always)]
    unsafe fn turned_left32<const UP: i32, const DOWN: i32>(self) -> Self {
        // SAFETY: registers only.
        unsafe { _mm512_rol_epi32::<UP>(self) }
    }

    #[cfg(feature = "serpent")]
    #[inline(always)]
    unsafe fn transposed32([a, b, c, d]: [Self; 4]) -> [Self; 4] {
        // SAFETY: registers only.
        unsafe {
            let (ab, more_ab) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
            let (cd, more_cd) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
            [
                _mm512_unpacklo_epi64(ab, cd),
                _mm512_unpackhi_epi64(ab, cd),
                _mm512_unpacklo_epi64(more_ab, more_cd),
                _mm512_unpackhi_epi64(more_ab, more_cd),
            ]
        }
    }

    #[inline(always)]
    unsafe fn up64<const BITS: i32>(self) -> Self {
        // SAFETY: registers only. With a constant count this is one instruction.
        unsafe { _mm512_sllv_epi64(self, Self::splat64(BITS as u64)) }
    }

    #[inline(always)]
    unsafe fn down64<const BITS: i32>(self) -> Self {
        // SAFETY: registers only. With a constant count this is one instruction.
        unsafe { _mm512_srlv_epi64(self, Self::splat64(BITS as u64)) }
    }

    #[inline(always)]
    unsafe fn product(self, other: Self) -> Self {
        // SAFETY: registers only.
        unsafe { _mm512_mul_epu32(self, other) }
    }

    #[inline(always)]
    unsafe fn add_products(sum: Self, a: Self, b: Self) -> Self {
        // SAFETY: registers only.
        unsafe {
            let high = _mm512_mul_epu32(_mm512_srli_epi64::<32>(a), _mm512_srli_epi64::<32>(b));
            _mm512_add_epi64(_mm512_add_epi64(sum, _mm512_mul_epu32(a, b)), high)
        }
    }

    #[inline(always)]
    unsafe fn sums([a, b, c, d]: [Self; 4], to: &mut [u64; 4]) {
        // SAFETY: four words are the half register that is written.
        unsafe {
            // Lanes of a and b, then of c and d, in turns.
            let ab = _mm512_add_epi64(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
            let cd = _mm512_add_epi64(_mm512_unpacklo_epi64(c, d), _mm512_unpackhi_epi64(c, d));
            let low = _mm512_permutex2var_epi64(ab, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), cd);
            let high = _mm512_permutex2var_epi64(ab, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), cd);
            let all = _mm512_add_epi64(low, high);
            let all = _mm256_add_epi64(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64::<1>(all));
            _mm256_storeu_si256(to.as_mut_ptr().cast(), all);
        }
    }

    #[inline(always)]
    unsafe fn halves(from: *const u8) -> (Self, Self) {
        // SAFETY: eight strides are two registers.
        unsafe {
            let (a, b) = (Self::load(from), Self::load(from.add(64)));
            (
                _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), b),
                _mm512_permutex2var_epi64(a, _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15), b),
            )
        }
    }

    #[inline(always)]
    unsafe fn transpose64(x: &mut [Self; 8]) {
        // SAFETY: registers only.
        unsafe {
            let mut pairs = *x;
            for i in 0..4 {
                pairs[2 * i] = _mm512_unpacklo_epi64(x[2 * i], x[2 * i + 1]);
                pairs[2 * i + 1] = _mm512_unpackhi_epi64(x[2 * i], x[2 * i + 1]);
            }
            // pairs[2i + h] has, in quarter q, word 2q + h of rows 2i and 2i + 1.
            for h in 0..2 {
                let quarters = transposed_quarters([pairs[h], pairs[2 + h], pairs[4 + h], pairs[6 + h]]);
                for (q, quarter) in quarters.into_iter().enumerate() {
                    x[2 * q + h] = quarter;
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn store_blocks(x: &[Self; 16], to: *mut u8) {
        // SAFETY: 16 blocks of 64 writable bytes.
        unsafe {
            let mut y = *x;
            for group in 0..4 {
                let [a, b, c, d] = [x[4 * group], x[4 * group + 1], x[4 * group + 2], x[4 * group + 3]];
                let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
                let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
                y[4 * group] = _mm512_unpacklo_epi64(ab_low, cd_low);
                y[4 * group + 1] = _mm512_unpackhi_epi64(ab_low, cd_low);
                y[4 * group + 2] = _mm512_unpacklo_epi64(ab_high, cd_high);
                y[4 * group + 3] = _mm512_unpackhi_epi64(ab_high, cd_high);
            }
            for lane in 0..4 {
                let blocks = transposed_quarters([y[lane], y[4 + lane], y[8 + lane], y[12 + lane]]);
                for (quarter, block) in blocks.into_iter().enumerate() {
                    block.store(to.add(64 * (4 * quarter + lane)));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn looked_up(table: &[u32; UNITS], indices: &[u32; 16]) -> Self {
        // SAFETY: 16 words are a register.
        unsafe {
            _mm512_permutexvar_epi32(Self::load(indices.as_ptr().cast()), Self::load(table.as_ptr().cast()))
        }
    }
}

#[cfg(feature = "sha2")]
impl super::sha2::Turning for __m512i {
    #[inline(always)]
    unsafe fn down32(self, bits: u32) -> Self {
        // SAFETY: registers only. With a constant count this is one instruction.
        unsafe { _mm512_srlv_epi32(self, Self::splat32(bits)) }
    }

    #[inline(always)]
    unsafe fn turned32(self, bits: u32) -> Self {
        // SAFETY: registers only.
        unsafe { _mm512_rorv_epi32(self, Self::splat32(bits)) }
    }

    #[inline(always)]
    unsafe fn shifted64(self, bits: u32) -> Self {
        // SAFETY: registers only.
        unsafe { _mm512_srlv_epi64(self, Self::splat64(bits.into())) }
    }

    #[inline(always)]
    unsafe fn turned64(self, bits: u32) -> Self {
        // SAFETY: registers only.
        unsafe { _mm512_rorv_epi64(self, Self::splat64(bits.into())) }
    }

    #[inline(always)]
    unsafe fn xor3(self, b: Self, c: Self) -> Self {
        // SAFETY: registers only.
        unsafe { _mm512_ternarylogic_epi32::<0x96>(self, b, c) }
    }

    #[inline(always)]
    unsafe fn choose(self, f: Self, g: Self) -> Self {
        // SAFETY: registers only.
        unsafe { _mm512_ternarylogic_epi32::<0xca>(self, f, g) }
    }

    #[inline(always)]
    unsafe fn majority(self, b: Self, c: Self) -> Self {
        // SAFETY: registers only.
        unsafe { _mm512_ternarylogic_epi32::<0xe8>(self, b, c) }
    }
}

/// Quarter i of vector j to quarter j of vector i.
#[inline(always)]
unsafe fn transposed_quarters([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    // SAFETY: registers only.
    unsafe {
        let (ab_low, ab_high) = (_mm512_shuffle_i64x2::<0x44>(a, b), _mm512_shuffle_i64x2::<0xee>(a, b));
        let (cd_low, cd_high) = (_mm512_shuffle_i64x2::<0x44>(c, d), _mm512_shuffle_i64x2::<0xee>(c, d));
        [
            _mm512_shuffle_i64x2::<0x88>(ab_low, cd_low),
            _mm512_shuffle_i64x2::<0xdd>(ab_low, cd_low),
            _mm512_shuffle_i64x2::<0x88>(ab_high, cd_high),
            _mm512_shuffle_i64x2::<0xdd>(ab_high, cd_high),
        ]
    }
}
