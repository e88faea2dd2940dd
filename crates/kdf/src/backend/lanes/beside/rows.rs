//! A state of 64 bytes in one register: S-boxes of 256 bytes in four registers (AVX-512 VBMI), and linear maps of bytes as matrices of bits (GFNI). Nothing
//! is looked up in memory, so that the time says nothing of the key.

use core::arch::x86_64::*;

use super::BLOCK;
use crate::backend::cpu::Cpu;

/// Output blocks that take turns: 192 bytes are three.
pub(super) const WIDTH: usize = 3;

/// Proof that the CPU has AVX-512 F, BW and VBMI, and GFNI, and that the system saves the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows(());

impl Rows {
    pub(super) fn detected() -> Option<Self> {
        Cpu::ask().bytes.then_some(Self(()))
    }
}

/// The matrix of a linear map of bytes as GFNI takes it: its last byte says which bits of the input make the lowest bit of the output (Intel SDM, GF2P8AFFINEQB).
/// `images` are what the map makes of each single bit, the lowest first.
pub(super) const fn matrix(images: [u8; 8]) -> u64 {
    let mut rows = [0u8; 8];
    let mut bit = 0;
    while bit < 8 {
        let mut row = 0;
        while row < 8 {
            rows[7 - row] |= (images[bit] >> row & 1) << bit;
            row += 1;
        }
        bit += 1;
    }
    u64::from_le_bytes(rows)
}

/// An S-box in registers.
#[derive(Clone, Copy)]
pub(super) struct Box256([__m512i; 4]);

impl Box256 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
    pub(super) fn new(table: &[u8; 256]) -> Self {
        let mut quarters = [_mm512_setzero_si512(); 4];
        for (quarter, bytes) in quarters.iter_mut().zip(table.as_chunks::<BLOCK>().0) {
            *quarter = load(bytes);
        }
        Self(quarters)
    }

    /// Each byte through the box.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
    pub(super) fn of(self, bytes: __m512i) -> __m512i {
        let [a, b, c, d] = self.0;
        let low = _mm512_permutex2var_epi8(a, bytes, b);
        let high = _mm512_permutex2var_epi8(c, bytes, d);
        _mm512_mask_blend_epi8(_mm512_movepi8_mask(bytes), low, high)
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
pub(super) fn load(bytes: &[u8; BLOCK]) -> __m512i {
    // SAFETY: as many bytes are there.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
pub(super) fn store(register: __m512i, bytes: &mut [u8; BLOCK]) {
    // SAFETY: there is room for as many bytes.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), register) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
pub(super) fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0x96>(a, b, c)
}

/// Implements [`Beside`](super::Beside) for a hash with a `chains` for a number of blocks.
macro_rules! beside {
    ($name:ident, $digest:ty) => {
        impl $crate::backend::lanes::beside::Beside for $name {
            type Digest = $digest;
            const WIDTH: usize = $crate::backend::lanes::beside::rows::WIDTH;
            type Proof = $crate::backend::lanes::beside::rows::Rows;

            fn detected() -> impl Iterator<Item = Self::Proof> {
                Self::Proof::detected().into_iter()
            }

            fn iterate(
                _: Self::Proof,
                key: &KeyBlocks,
                u: &mut [[u8; BLOCK]],
                t: &mut [[u8; BLOCK]],
                count: u32,
            ) {
                let (u_threes, u_rest) = u.as_chunks_mut::<3>();
                let (t_threes, t_rest) = t.as_chunks_mut::<3>();
                for (u, t) in u_threes.iter_mut().zip(t_threes) {
                    // SAFETY: the proof was built by detection of the features that the function is compiled for.
                    unsafe { chains::<3>(key, u, t, count) };
                }
                for (u, t) in u_rest.as_chunks_mut::<1>().0.iter_mut().zip(t_rest.as_chunks_mut::<1>().0) {
                    // SAFETY: the proof was built by detection of the features that the function is compiled for.
                    unsafe { chains::<1>(key, u, t, count) };
                }
            }
        }
    };
}

pub(super) use beside;
