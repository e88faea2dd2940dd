//! Twofish. The S-boxes of the key with their last permutation are four tables of 256 bytes; the matrix is over bytes, too. Sums are over words of 32 bits, so that
//! words become bytes and back in each round.

use core::arch::x86_64::*;

use super::{
    Planes, Words, bytes_of, in_wide_batches, looked_up, multiplication, transposed, words_of, xor3,
};
use crate::block::{Block, Direction, WIDE};
use crate::twofish::{ROUNDS, Subkeys, Tables};

/// Multiplication by the two constants of the matrix, modulo x^8 + x^6 + x^5 + x^3 + 1.
const BY_5B: i64 = multiplication(0x5b, 0x69);
const BY_EF: i64 = multiplication(0xef, 0x69);

impl Planes {
    /// Encrypts or decrypts blocks, each on its own, but for a few of them, which are returned.
    pub(crate) fn twofish<'a>(
        self,
        (subkeys, tables): (&Subkeys, &Tables),
        direction: Direction,
        blocks: &'a mut [Block],
    ) -> &'a mut [Block] {
        // SAFETY: `self` proves that the CPU has the features.
        in_wide_batches(blocks, |blocks| unsafe { run(subkeys, tables, direction, blocks) })
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni")]
fn run(subkeys: &Subkeys, tables: &Tables, direction: Direction, blocks: &mut [Block; WIDE]) {
    let zero = _mm512_setzero_si512();
    let [mut a, mut b, mut c, mut d] = [[zero; 4]; 4];
    let at: *mut u8 = blocks.as_mut_ptr().cast();
    for group in 0..4 {
        let mut rows = [zero; 4];
        for row in 0..4 {
            // SAFETY: 16 registers are 64 blocks.
            rows[row] = unsafe { _mm512_loadu_si512(at.add(256 * group + 64 * row).cast()) };
        }
        [a[group], b[group], c[group], d[group]] = transposed(rows);
    }
    match direction {
        Direction::Encrypt => {
            whiten([&mut a, &mut b, &mut c, &mut d], &subkeys[..4]);
            for round in 0..ROUNDS / 2 {
                let keys = &subkeys[8 + 4 * round..][..4];
                encrypt_round(tables, &keys[..2], (&a, &b), (&mut c, &mut d));
                encrypt_round(tables, &keys[2..], (&c, &d), (&mut a, &mut b));
            }
            whiten([&mut c, &mut d, &mut a, &mut b], &subkeys[4..8]);
        }
        Direction::Decrypt => {
            whiten([&mut a, &mut b, &mut c, &mut d], &subkeys[4..8]);
            for round in (0..ROUNDS / 2).rev() {
                let keys = &subkeys[8 + 4 * round..][..4];
                decrypt_round(tables, &keys[2..], (&a, &b), (&mut c, &mut d));
                decrypt_round(tables, &keys[..2], (&c, &d), (&mut a, &mut b));
            }
            whiten([&mut c, &mut d, &mut a, &mut b], &subkeys[..4]);
        }
    }
    // The halves are exchanged once more than there are rounds.
    for group in 0..4 {
        let rows = transposed([c[group], d[group], a[group], b[group]]);
        for row in 0..4 {
            // SAFETY: 16 registers are 64 blocks.
            unsafe { _mm512_storeu_si512(at.add(256 * group + 64 * row).cast(), rows[row]) };
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni")]
fn whiten(words: [&mut Words; 4], keys: &[u32]) {
    for (words, key) in words.into_iter().zip(keys) {
        let key = _mm512_set1_epi32(key.cast_signed());
        for group in 0..4 {
            words[group] = _mm512_xor_si512(words[group], key);
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni")]
fn encrypt_round(tables: &Tables, keys: &[u32], (a, b): (&Words, &Words), (c, d): (&mut Words, &mut Words)) {
    let (f0, f1) = mixed(tables, keys, a, b);
    for group in 0..4 {
        c[group] = _mm512_ror_epi32::<1>(_mm512_xor_si512(c[group], f0[group]));
        d[group] = _mm512_xor_si512(_mm512_rol_epi32::<1>(d[group]), f1[group]);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni")]
fn decrypt_round(tables: &Tables, keys: &[u32], (a, b): (&Words, &Words), (c, d): (&mut Words, &mut Words)) {
    let (f0, f1) = mixed(tables, keys, a, b);
    for group in 0..4 {
        c[group] = _mm512_xor_si512(_mm512_rol_epi32::<1>(c[group]), f0[group]);
        d[group] = _mm512_ror_epi32::<1>(_mm512_xor_si512(d[group], f1[group]));
    }
}

/// The function F: what a round mixes into the other half.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni")]
fn mixed(tables: &Tables, keys: &[u32], a: &Words, b: &Words) -> (Words, Words) {
    let bytes = bytes_of(a);
    let left = words_of(by_matrix([
        looked_up(&tables[0], bytes[0]),
        looked_up(&tables[1], bytes[1]),
        looked_up(&tables[2], bytes[2]),
        looked_up(&tables[3], bytes[3]),
    ]));
    // The second word is turned by a byte before.
    let bytes = bytes_of(b);
    let right = words_of(by_matrix([
        looked_up(&tables[0], bytes[3]),
        looked_up(&tables[1], bytes[0]),
        looked_up(&tables[2], bytes[1]),
        looked_up(&tables[3], bytes[2]),
    ]));
    let first = _mm512_set1_epi32(keys[0].cast_signed());
    let second = _mm512_set1_epi32(keys[1].cast_signed());
    let (mut f0, mut f1) = (left, right);
    for group in 0..4 {
        let sum = _mm512_add_epi32(left[group], right[group]);
        f0[group] = _mm512_add_epi32(sum, first);
        f1[group] = _mm512_add_epi32(_mm512_add_epi32(sum, right[group]), second);
    }
    (f0, f1)
}

/// The matrix of maximum distance (section 4.3.2).
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni")]
fn by_matrix([x0, x1, x2, x3]: [__m512i; 4]) -> [__m512i; 4] {
    let (m5b, mef) = (_mm512_set1_epi64(BY_5B), _mm512_set1_epi64(BY_EF));
    let (e0, e1) = (_mm512_gf2p8affine_epi64_epi8::<0>(x0, mef), _mm512_gf2p8affine_epi64_epi8::<0>(x1, mef));
    let (e2, e3) = (_mm512_gf2p8affine_epi64_epi8::<0>(x2, mef), _mm512_gf2p8affine_epi64_epi8::<0>(x3, mef));
    let (b0, b1) = (_mm512_gf2p8affine_epi64_epi8::<0>(x0, m5b), _mm512_gf2p8affine_epi64_epi8::<0>(x1, m5b));
    let (b2, b3) = (_mm512_gf2p8affine_epi64_epi8::<0>(x2, m5b), _mm512_gf2p8affine_epi64_epi8::<0>(x3, m5b));
    [
        _mm512_xor_si512(xor3(x0, e1, b2), b3),
        _mm512_xor_si512(xor3(b0, e1, e2), x3),
        _mm512_xor_si512(xor3(e0, b1, x2), e3),
        _mm512_xor_si512(xor3(e0, x1, e2), b3),
    ]
}
