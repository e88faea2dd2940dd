//! AVX2 on x86-64.

use core::arch::x86_64::{
    __m128i, __m256i, _mm256_add_epi32, _mm256_add_epi64, _mm256_blendv_epi8, _mm256_castsi128_si256,
    _mm256_cmpgt_epi32, _mm256_inserti128_si256, _mm256_mul_epu32, _mm256_or_si256,
    _mm256_permute2x128_si256, _mm256_permutevar8x32_epi32, _mm256_set1_epi32, _mm256_set1_epi64x,
    _mm256_shuffle_epi8, _mm256_slli_epi32, _mm256_slli_epi64, _mm256_srli_epi32, _mm256_srli_epi64,
    _mm256_unpackhi_epi32, _mm256_unpackhi_epi64, _mm256_unpacklo_epi32, _mm256_unpacklo_epi64,
};
#[cfg(feature = "sha2")]
use core::arch::x86_64::{_mm256_sllv_epi32, _mm256_sllv_epi64, _mm256_srlv_epi32, _mm256_srlv_epi64};

use super::{Lanes, UNITS, vector_instructions};
use crate::backend::cpu::Cpu;
use crate::backend::register::Register;

/// Proof that the CPU has AVX2, and that the system saves the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// Asks the CPU.
    pub(in crate::backend) fn detect() -> Option<Self> {
        Cpu::ask().has_avx2().then_some(Self(()))
    }
}

vector_instructions!(
    Avx2,
    super::__m256i,
    crate::backend::lanes::poly::Limbs<super::__m256i>,
    instructions,
    "avx2"
);

#[cfg(feature = "sha2")]
super::sha2::sha_instructions!(Avx2, super::__m256i, sha2, "avx2");

#[cfg(feature = "serpent")]
super::serpent::serpent_instructions!(Avx2, super::__m256i, 1, serpent, "avx2");

// SAFETY (all of the blocks below): the caller has AVX2 and passes pointers as the trait asks.
impl Lanes for __m256i {
    const WORDS: usize = 8;

    #[inline(always)]
    unsafe fn splat32(value: u32) -> Self {
        // SAFETY: registers only.
        unsafe { _mm256_set1_epi32(value.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn splat64(value: u64) -> Self {
        // SAFETY: registers only.
        unsafe { _mm256_set1_epi64x(value.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn add32(self, other: Self) -> Self {
        // SAFETY: registers only.
        unsafe { _mm256_add_epi32(self, other) }
    }

    #[inline(always)]
    unsafe fn rotate32<const BITS: i32>(self) -> Self {
        // SAFETY: registers only.
        unsafe {
            match BITS {
                16 => _mm256_shuffle_epi8(self, bytes_turned([2, 3, 0, 1])),
                8 => _mm256_shuffle_epi8(self, bytes_turned([3, 0, 1, 2])),
                12 => _mm256_or_si256(_mm256_slli_epi32::<12>(self), _mm256_srli_epi32::<20>(self)),
                _ => _mm256_or_si256(_mm256_slli_epi32::<7>(self), _mm256_srli_epi32::<25>(self)),
            }
        }
    }

    #[cfg(feature = "serpent")]
    #[inline(always)]
    unsafe fn up32<const BITS: i32>(self) -> Self {
        // SAFETY: registers only.
        unsafe { _mm256_slli_epi32::<BITS>(self) }
    }

    #[cfg(feature = "serpent")]
    #[inline(always)]
    unsafe fn turned_left32<const UP: i32, const DOWN: i32>(self) -> Self {
        // SAFETY: registers only.
        unsafe { _mm256_or_si256(_mm256_slli_epi32::<UP>(self), _mm256_srli_epi32::<DOWN>(self)) }
    }

    #[cfg(feature = "serpent")]
    #[inline(always)]
    unsafe fn transposed32([a, b, c, d]: [Self; 4]) -> [Self; 4] {
        // SAFETY: registers only.
        unsafe {
            let (ab, more_ab) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
            let (cd, more_cd) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
            [
                _mm256_unpacklo_epi64(ab, cd),
                _mm256_unpackhi_epi64(ab, cd),
                _mm256_unpacklo_epi64(more_ab, more_cd),
                _mm256_unpackhi_epi64(more_ab, more_cd),
            ]
        }
    }

    #[inline(always)]
    unsafe fn up64<const BITS: i32>(self) -> Self {
        // SAFETY: registers only.
        unsafe { _mm256_slli_epi64::<BITS>(self) }
    }

    #[inline(always)]
    unsafe fn down64<const BITS: i32>(self) -> Self {
        // SAFETY: registers only.
        unsafe { _mm256_srli_epi64::<BITS>(self) }
    }

    #[inline(always)]
    unsafe fn product(self, other: Self) -> Self {
        // SAFETY: registers only.
        unsafe { _mm256_mul_epu32(self, other) }
    }

    #[inline(always)]
    unsafe fn add_products(sum: Self, a: Self, b: Self) -> Self {
        // SAFETY: registers only.
        unsafe {
            let high = _mm256_mul_epu32(_mm256_srli_epi64::<32>(a), _mm256_srli_epi64::<32>(b));
            _mm256_add_epi64(_mm256_add_epi64(sum, _mm256_mul_epu32(a, b)), high)
        }
    }

    #[inline(always)]
    unsafe fn sums([a, b, c, d]: [Self; 4], to: &mut [u64; 4]) {
        // SAFETY: four words are a register.
        unsafe {
            let ab = _mm256_add_epi64(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
            let cd = _mm256_add_epi64(_mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d));
            let low = _mm256_permute2x128_si256::<0x20>(ab, cd);
            let high = _mm256_permute2x128_si256::<0x31>(ab, cd);
            _mm256_add_epi64(low, high).store(to.as_mut_ptr().cast());
        }
    }

    #[inline(always)]
    unsafe fn halves(from: *const u8) -> (Self, Self) {
        // SAFETY: four strides are 64 bytes.
        unsafe {
            let stride = |i: usize| __m128i::load(from.add(16 * i));
            let even = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(stride(0)), stride(2));
            let odd = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(stride(1)), stride(3));
            (_mm256_unpacklo_epi64(even, odd), _mm256_unpackhi_epi64(even, odd))
        }
    }

    #[inline(always)]
    unsafe fn transpose64(x: &mut [Self; 8]) {
        // SAFETY: registers only.
        unsafe {
            let (a, b) = (_mm256_unpacklo_epi64(x[0], x[1]), _mm256_unpackhi_epi64(x[0], x[1]));
            let (c, d) = (_mm256_unpacklo_epi64(x[2], x[3]), _mm256_unpackhi_epi64(x[2], x[3]));
            x[0] = _mm256_permute2x128_si256::<0x20>(a, c);
            x[1] = _mm256_permute2x128_si256::<0x20>(b, d);
            x[2] = _mm256_permute2x128_si256::<0x31>(a, c);
            x[3] = _mm256_permute2x128_si256::<0x31>(b, d);
        }
    }

    #[inline(always)]
    unsafe fn store_blocks(x: &[Self; 16], to: *mut u8) {
        // SAFETY: eight blocks of 64 writable bytes.
        unsafe {
            // Two rows of four words at a time, which fill half a block.
            for half in 0..2 {
                let (top, bottom) = (four_words(x, 8 * half), four_words(x, 8 * half + 4));
                for i in 0..4 {
                    let to = to.add(64 * i + 32 * half);
                    _mm256_permute2x128_si256::<0x20>(top[i], bottom[i]).store(to);
                    _mm256_permute2x128_si256::<0x31>(top[i], bottom[i]).store(to.add(4 * 64));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn looked_up(table: &[u32; UNITS], indices: &[u32; 16]) -> Self {
        // SAFETY: 16 words are two registers.
        unsafe {
            let indices = Self::load(indices.as_ptr().cast());
            let low = _mm256_permutevar8x32_epi32(Self::load(table.as_ptr().cast()), indices);
            let high = _mm256_permutevar8x32_epi32(Self::load(table.as_ptr().add(8).cast()), indices);
            _mm256_blendv_epi8(low, high, _mm256_cmpgt_epi32(indices, Self::splat32(7)))
        }
    }
}

/// A shuffle that puts byte `order[i]` of each word in place i.
#[inline(always)]
unsafe fn bytes_turned(order: [u8; 4]) -> __m256i {
    let bytes: [u8; 32] = core::array::from_fn(|i| order[i % 4] + (i % 16 / 4 * 4) as u8);
    // SAFETY: 32 bytes are a register.
    unsafe { __m256i::load(bytes.as_ptr()) }
}

/// Words `first` to `first` + 3 of a block side by side: half i of the register has those of block i, and of block 4 + i.
#[inline(always)]
unsafe fn four_words(x: &[__m256i; 16], first: usize) -> [__m256i; 4] {
    let (a, b, c, d) = (x[first], x[first + 1], x[first + 2], x[first + 3]);
    // SAFETY: registers only.
    unsafe {
        let (ab_low, ab_high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
        let (cd_low, cd_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
        [
            _mm256_unpacklo_epi64(ab_low, cd_low),
            _mm256_unpackhi_epi64(ab_low, cd_low),
            _mm256_unpacklo_epi64(ab_high, cd_high),
            _mm256_unpackhi_epi64(ab_high, cd_high),
        ]
    }
}

#[cfg(feature = "sha2")]
impl super::sha2::Turning for __m256i {
    #[inline(always)]
    unsafe fn down32(self, bits: u32) -> Self {
        // SAFETY: registers only. With a constant count this is one instruction.
        unsafe { _mm256_srlv_epi32(self, Self::splat32(bits)) }
    }

    #[inline(always)]
    unsafe fn turned32(self, bits: u32) -> Self {
        // SAFETY: registers only. With a constant count these are two shifts.
        unsafe { self.down32(bits).or(_mm256_sllv_epi32(self, Self::splat32(32 - bits))) }
    }

    #[inline(always)]
    unsafe fn shifted64(self, bits: u32) -> Self {
        // SAFETY: registers only. With a constant count this is one instruction.
        unsafe { _mm256_srlv_epi64(self, Self::splat64(bits.into())) }
    }

    #[inline(always)]
    unsafe fn turned64(self, bits: u32) -> Self {
        // SAFETY: registers only. With a constant count these are two shifts.
        unsafe { self.shifted64(bits).or(_mm256_sllv_epi64(self, Self::splat64(u64::from(64 - bits)))) }
    }
}
