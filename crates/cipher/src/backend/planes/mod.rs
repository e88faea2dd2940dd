//! Ciphers whose S-boxes take bytes, on 64 blocks at once: each register has one byte of every block. An S-box is four registers (AVX-512 VBMI), and linear maps
//! of bytes are matrices of bits (GFNI). Nothing is looked up in memory.
#![allow(clippy::needless_range_loop, reason = "constant bounds over several arrays at once, to be unrolled")]

#[cfg(feature = "camellia")]
mod camellia;
#[cfg(feature = "twofish")]
mod twofish;

use core::arch::x86_64::*;

use super::cpu::Cpu;
use super::masks::Masks;
use super::vectors::VectorChoice;
use crate::block::{Block, WIDE};

/// Proof that the CPU has AVX-512 F, BW, DQ, VL and VBMI, and GFNI, and that the system saves the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Planes(());

impl Planes {
    /// Asks the CPU.
    pub(crate) fn detect() -> Option<Self> {
        Cpu::ask().has_avx512_bytes().then_some(Self(()))
    }
}

/// What a cipher has where it takes 64 blocks at once: proofs that the CPU can, and what it reads.
pub(crate) struct Wide<T> {
    pub(crate) planes: Planes,
    pub(crate) masks: Masks,
    pub(crate) tables: T,
}

impl<T> Wide<T> {
    /// With the tables that `make` makes, where the choice has the instructions; `None` without them, or if there are no tables for such a key.
    pub(crate) fn new(vectors: VectorChoice, make: impl FnOnce() -> Option<T>) -> Option<Self> {
        let planes = vectors.has_avx512().then(Planes::detect).flatten()?;
        Some(Self { planes, masks: Masks::detect()?, tables: make()? })
    }
}

/// From how many blocks on 64 at once are faster than those alone.
const WORTH_IT: usize = 4;

/// Hands over 64 blocks at a time. Those that are left are filled up with zeros, or given back if they are few.
#[inline(always)]
fn in_wide_batches(blocks: &mut [Block], batch: impl Fn(&mut [Block; WIDE])) -> &mut [Block] {
    let (batches, rest) = blocks.as_chunks_mut();
    for blocks in batches {
        batch(blocks);
    }
    if rest.len() < WORTH_IT {
        return rest;
    }
    let mut whole = [[0; 16]; WIDE];
    whole[..rest.len()].copy_from_slice(rest);
    batch(&mut whole);
    rest.copy_from_slice(&whole[..rest.len()]);
    &mut []
}

/// One word of each of 64 blocks.
type Words = [__m512i; 4];

/// The matrix of the multiplication by a constant, as GFNI takes it: its last byte says which bits of the input make the lowest bit of the output (Intel SDM,
/// GF2P8AFFINEQB). `field` is the polynomial without its highest term.
#[cfg(feature = "twofish")]
const fn multiplication(by: u8, field: u8) -> i64 {
    let mut rows = [0u8; 8];
    let (mut image, mut bit) = (by, 0);
    while bit < 8 {
        let mut row = 0;
        while row < 8 {
            rows[7 - row] |= (image >> row & 1) << bit;
            row += 1;
        }
        image = if image & 0x80 == 0 { image << 1 } else { image << 1 ^ field };
        bit += 1;
    }
    i64::from_le_bytes(rows)
}

/// Each byte through a table, which is read whole.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni")]
fn looked_up(table: &[u8; 256], bytes: __m512i) -> __m512i {
    let at = table.as_ptr();
    // SAFETY: four quarters of 64 bytes are the table.
    let [a, b, c, d] = unsafe {
        [
            _mm512_loadu_si512(at.cast()),
            _mm512_loadu_si512(at.add(64).cast()),
            _mm512_loadu_si512(at.add(128).cast()),
            _mm512_loadu_si512(at.add(192).cast()),
        ]
    };
    let low = _mm512_permutex2var_epi8(a, bytes, b);
    let high = _mm512_permutex2var_epi8(c, bytes, d);
    _mm512_mask_blend_epi8(_mm512_movepi8_mask(bytes), low, high)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni")]
fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0x96>(a, b, c)
}

/// In each quarter of 128 bits: lane i of register j to lane j of register i, for lanes of 32 bits. Done twice, it is undone.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni")]
fn transposed([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
    let (ab_high, cd_high) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
    [
        _mm512_unpacklo_epi64(ab, cd),
        _mm512_unpackhi_epi64(ab, cd),
        _mm512_unpacklo_epi64(ab_high, cd_high),
        _mm512_unpackhi_epi64(ab_high, cd_high),
    ]
}

/// The four bytes of each word, each in a register. Which lane has which word is the same in all of them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni")]
fn bytes_of(words: &Words) -> [__m512i; 4] {
    transposed([turned(words[0]), turned(words[1]), turned(words[2]), turned(words[3])])
}

/// Undoes [`bytes_of`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni")]
fn words_of(bytes: [__m512i; 4]) -> Words {
    let [a, b, c, d] = transposed(bytes);
    [turned(a), turned(b), turned(c), turned(d)]
}

/// In each quarter of 128 bits, byte i of word j to byte j of word i. Done twice, it is undone.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni")]
fn turned(register: __m512i) -> __m512i {
    let order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_shuffle_epi8(register, _mm512_broadcast_i32x4(order))
}
