//! SSE2, which every x86-64 CPU has.

use core::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_add_epi64, _mm_mul_epu32, _mm_or_si128, _mm_set1_epi32, _mm_set1_epi64x,
    _mm_shufflehi_epi16, _mm_shufflelo_epi16, _mm_slli_epi32, _mm_slli_epi64, _mm_srli_epi32, _mm_srli_epi64,
    _mm_unpackhi_epi32, _mm_unpackhi_epi64, _mm_unpacklo_epi32, _mm_unpacklo_epi64,
};

use super::{Lanes, vector_instructions};
use crate::backend::register::Register;

/// Proof that the CPU has SSE2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sse2(());

impl Sse2 {
    /// SSE2 is part of x86-64.
    pub(in crate::backend) fn detect() -> Option<Self> {
        Some(Self(()))
    }
}

vector_instructions!(
    Sse2,
    super::__m128i,
    crate::backend::lanes::poly::Limbs<super::__m128i>,
    instructions,
    "sse2"
);

#[cfg(feature = "serpent")]
super::serpent::serpent_instructions!(Sse2, super::__m128i, 1, serpent, "sse2");

// SAFETY (all of the blocks below): SSE2 is part of x86-64, and the caller passes pointers as the trait asks.
impl Lanes for __m128i {
    const WORDS: usize = 4;

    #[inline(always)]
    unsafe fn splat32(value: u32) -> Self {
        // SAFETY: registers only.
        unsafe { _mm_set1_epi32(value.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn splat64(value: u64) -> Self {
        // SAFETY: registers only.
        unsafe { _mm_set1_epi64x(value.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn add32(self, other: Self) -> Self {
        // SAFETY: registers only.
        unsafe { _mm_add_epi32(self, other) }
    }

    #[inline(always)]
    unsafe fn rotate32<const BITS: i32>(self) -> Self {
        // SAFETY: registers only.
        unsafe {
            match BITS {
                16 => _mm_shufflehi_epi16::<0b10_11_00_01>(_mm_shufflelo_epi16::<0b10_11_00_01>(self)),
                8 => _mm_or_si128(_mm_slli_epi32::<8>(self), _mm_srli_epi32::<24>(self)),
                12 => _mm_or_si128(_mm_slli_epi32::<12>(self), _mm_srli_epi32::<20>(self)),
                _ => _mm_or_si128(_mm_slli_epi32::<7>(self), _mm_srli_epi32::<25>(self)),
            }
        }
    }

    #[cfg(feature = "serpent")]
    #[inline(always)]
    unsafe fn up32<const BITS: i32>(self) -> Self {
        // SAFETY: registers only.
        unsafe { _mm_slli_epi32::<BITS>(self) }
    }

    #[cfg(feature = "serpent")]
    #[inline(always)]
    unsafe fn turned_left32<const UP: i32, const DOWN: i32>(self) -> Self {
        // SAFETY: registers only.
        unsafe { _mm_or_si128(_mm_slli_epi32::<UP>(self), _mm_srli_epi32::<DOWN>(self)) }
    }

    #[cfg(feature = "serpent")]
    #[inline(always)]
    unsafe fn transposed32([a, b, c, d]: [Self; 4]) -> [Self; 4] {
        // SAFETY: registers only.
        unsafe {
            let (ab, more_ab) = (_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
            let (cd, more_cd) = (_mm_unpacklo_epi32(c, d), _mm_unpackhi_epi32(c, d));
            [
                _mm_unpacklo_epi64(ab, cd),
                _mm_unpackhi_epi64(ab, cd),
                _mm_unpacklo_epi64(more_ab, more_cd),
                _mm_unpackhi_epi64(more_ab, more_cd),
            ]
        }
    }

    #[inline(always)]
    unsafe fn up64<const BITS: i32>(self) -> Self {
        // SAFETY: registers only.
        unsafe { _mm_slli_epi64::<BITS>(self) }
    }

    #[inline(always)]
    unsafe fn down64<const BITS: i32>(self) -> Self {
        // SAFETY: registers only.
        unsafe { _mm_srli_epi64::<BITS>(self) }
    }

    #[inline(always)]
    unsafe fn product(self, other: Self) -> Self {
        // SAFETY: registers only.
        unsafe { _mm_mul_epu32(self, other) }
    }

    #[inline(always)]
    unsafe fn add_products(sum: Self, a: Self, b: Self) -> Self {
        // SAFETY: registers only.
        unsafe {
            let high = _mm_mul_epu32(_mm_srli_epi64::<32>(a), _mm_srli_epi64::<32>(b));
            _mm_add_epi64(_mm_add_epi64(sum, _mm_mul_epu32(a, b)), high)
        }
    }

    #[inline(always)]
    unsafe fn sums([a, b, c, d]: [Self; 4], to: &mut [u64; 4]) {
        // SAFETY: four words are two registers.
        unsafe {
            _mm_add_epi64(_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b)).store(to.as_mut_ptr().cast());
            let second = to.as_mut_ptr().add(2);
            _mm_add_epi64(_mm_unpacklo_epi64(c, d), _mm_unpackhi_epi64(c, d)).store(second.cast());
        }
    }

    #[inline(always)]
    unsafe fn halves(from: *const u8) -> (Self, Self) {
        // SAFETY: two strides are two registers.
        unsafe {
            let (a, b) = (Self::load(from), Self::load(from.add(16)));
            (_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b))
        }
    }

    #[inline(always)]
    unsafe fn transpose64(x: &mut [Self; 8]) {
        // SAFETY: registers only.
        unsafe { (x[0], x[1]) = (_mm_unpacklo_epi64(x[0], x[1]), _mm_unpackhi_epi64(x[0], x[1])) }
    }

    #[inline(always)]
    unsafe fn store_blocks(x: &[Self; 16], to: *mut u8) {
        // SAFETY: four blocks of 64 writable bytes.
        unsafe {
            for row in 0..4 {
                let (a, b, c, d) = (x[4 * row], x[4 * row + 1], x[4 * row + 2], x[4 * row + 3]);
                let (ab_low, ab_high) = (_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
                let (cd_low, cd_high) = (_mm_unpacklo_epi32(c, d), _mm_unpackhi_epi32(c, d));
                let to = to.add(16 * row);
                _mm_unpacklo_epi64(ab_low, cd_low).store(to);
                _mm_unpackhi_epi64(ab_low, cd_low).store(to.add(64));
                _mm_unpacklo_epi64(ab_high, cd_high).store(to.add(128));
                _mm_unpackhi_epi64(ab_high, cd_high).store(to.add(192));
            }
        }
    }
}
