//! A word of eight blocks in a register of SSE2, which every x86-64 CPU has.

use core::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_loadu_si128, _mm_or_si128, _mm_set1_epi8, _mm_set1_epi16, _mm_shuffle_epi32,
    _mm_shufflehi_epi16, _mm_shufflelo_epi16, _mm_slli_epi32, _mm_slli_epi64, _mm_srli_epi32, _mm_srli_epi64,
    _mm_storeu_si128, _mm_xor_si128,
};
use core::ops::{BitAnd, BitXor};

use zeroize::Zeroize;

use super::word::{Planes, Sliced, Word, transposed};
use crate::block::Block;

/// A bit's position is column, row, block, from high to low: the order in which bytes lie in a block.
#[derive(Clone, Copy)]
pub(in crate::backend) struct Lanes(__m128i);

impl BitXor for Lanes {
    type Output = Self;

    #[inline(always)]
    fn bitxor(self, other: Self) -> Self {
        // SAFETY: SSE2 is part of x86-64.
        Self(unsafe { _mm_xor_si128(self.0, other.0) })
    }
}

impl BitAnd for Lanes {
    type Output = Self;

    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        // SAFETY: SSE2 is part of x86-64.
        Self(unsafe { _mm_and_si128(self.0, other.0) })
    }
}

impl Lanes {
    /// To every column the one `COLUMNS` to the right.
    #[inline(always)]
    fn turned(self, columns: u32) -> Self {
        // SAFETY: SSE2 is part of x86-64.
        Self(unsafe {
            match columns % 4 {
                0 => self.0,
                1 => _mm_shuffle_epi32(self.0, 0b00_11_10_01),
                2 => _mm_shuffle_epi32(self.0, 0b01_00_11_10),
                _ => _mm_shuffle_epi32(self.0, 0b10_01_00_11),
            }
        })
    }
}

impl Word for Lanes {
    // SAFETY: both have 16 bytes, of which any value will do.
    const ZERO: Self = Self(unsafe { core::mem::transmute::<[u8; 16], __m128i>([0; 16]) });

    #[inline(always)]
    fn bytes(byte: u8) -> Self {
        // SAFETY: SSE2 is part of x86-64.
        Self(unsafe { _mm_set1_epi8(byte.cast_signed()) })
    }

    #[inline(always)]
    fn up<const BITS: i32>(self) -> Self {
        // SAFETY: SSE2 is part of x86-64.
        Self(unsafe { _mm_slli_epi64::<BITS>(self.0) })
    }

    #[inline(always)]
    fn down<const BITS: i32>(self) -> Self {
        // SAFETY: SSE2 is part of x86-64.
        Self(unsafe { _mm_srli_epi64::<BITS>(self.0) })
    }

    #[inline(always)]
    fn taken_from_below<const ROWS: u32, const N: u32>(self) -> Self {
        let Self(turned) = self.turned(ROWS * N);
        // SAFETY: SSE2 is part of x86-64.
        Self(unsafe {
            match ROWS % 4 {
                0 => turned,
                1 => _mm_or_si128(_mm_srli_epi32::<8>(turned), _mm_slli_epi32::<24>(turned)),
                2 => _mm_shufflehi_epi16(_mm_shufflelo_epi16(turned, 0b10_11_00_01), 0b10_11_00_01),
                _ => _mm_or_si128(_mm_srli_epi32::<24>(turned), _mm_slli_epi32::<8>(turned)),
            }
        })
    }

    #[inline(always)]
    fn odd_rows_turned_by_two(self) -> Self {
        // SAFETY: SSE2 is part of x86-64.
        let even = Self(unsafe { _mm_set1_epi16(0xff) });
        let turned = self.turned(2);
        turned ^ ((self ^ turned) & even)
    }

    fn wipe(planes: &mut Planes<Self>) {
        for plane in planes {
            plane.0.zeroize();
        }
    }
}

impl Sliced<8> for Lanes {
    #[inline(always)]
    fn pack(blocks: &[Block; 8]) -> Planes<Self> {
        // SAFETY: SSE2 is part of x86-64; each load is of a 16-byte block, at any alignment.
        transposed(core::array::from_fn(|i| Self(unsafe { _mm_loadu_si128(blocks[i].as_ptr().cast()) })))
    }

    #[inline(always)]
    fn unpack(planes: &Planes<Self>) -> [Block; 8] {
        let words = transposed(*planes);
        let mut blocks = [[0; 16]; 8];
        for (block, word) in blocks.iter_mut().zip(&words) {
            // SAFETY: SSE2 is part of x86-64; the store is of a 16-byte block, at any alignment.
            unsafe { _mm_storeu_si128(block.as_mut_ptr().cast(), word.0) };
        }
        blocks
    }
}
