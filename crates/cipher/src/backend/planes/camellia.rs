//! Camellia (RFC 3713). All of it but one rotation is over bytes.

use core::arch::x86_64::*;

use super::{Planes, bytes_of, in_wide_batches, looked_up, transposed, words_of, xor3};
use crate::block::{Block, WIDE};
use crate::camellia::{BOX_OF, BOXES, Schedule};

impl Planes {
    /// Encrypts or decrypts blocks, as the schedule says, each on its own, but for a few of them, which are returned.
    pub(crate) fn camellia<'a>(self, schedule: &Schedule, blocks: &'a mut [Block]) -> &'a mut [Block] {
        // SAFETY: `self` proves that the CPU has the features.
        in_wide_batches(blocks, |blocks| unsafe { run(schedule, blocks) })
    }
}

/// The eight bytes of one half of each of 64 blocks, the highest first.
type Half = [__m512i; 8];

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni")]
fn run(schedule: &Schedule, blocks: &mut [Block; WIDE]) {
    let zero = _mm512_setzero_si512();
    let mut words = [[zero; 4]; 4];
    let at: *mut u8 = blocks.as_mut_ptr().cast();
    for group in 0..4 {
        let mut rows = [zero; 4];
        for row in 0..4 {
            // SAFETY: 16 registers are 64 blocks.
            rows[row] = unsafe { _mm512_loadu_si512(at.add(256 * group + 64 * row).cast()) };
        }
        let columns = transposed(rows);
        for word in 0..4 {
            words[word][group] = columns[word];
        }
    }
    let (mut left, mut right) = ([zero; 8], [zero; 8]);
    left[..4].copy_from_slice(&bytes_of(&words[0]));
    left[4..].copy_from_slice(&bytes_of(&words[1]));
    right[..4].copy_from_slice(&bytes_of(&words[2]));
    right[4..].copy_from_slice(&bytes_of(&words[3]));

    let (first, rest) = schedule.keys().split_at(2);
    add_key(&mut left, first[0]);
    add_key(&mut right, first[1]);
    let mut at_key = 0;
    loop {
        for round in 0..3 {
            round_into(&mut right, &left, rest[at_key + 2 * round]);
            round_into(&mut left, &right, rest[at_key + 2 * round + 1]);
        }
        let (one, other) = (rest[at_key + 6], rest[at_key + 7]);
        at_key += 8;
        if at_key == rest.len() {
            // The halves are exchanged.
            add_key(&mut right, one);
            add_key(&mut left, other);
            break;
        }
        layer(&mut left, one);
        inverse_layer(&mut right, other);
    }

    let words = [half_of(&right, 0), half_of(&right, 4), half_of(&left, 0), half_of(&left, 4)];
    for group in 0..4 {
        let rows = transposed([words[0][group], words[1][group], words[2][group], words[3][group]]);
        for row in 0..4 {
            // SAFETY: 16 registers are 64 blocks.
            unsafe { _mm512_storeu_si512(at.add(256 * group + 64 * row).cast(), rows[row]) };
        }
    }
}

/// Words of four bytes from number `at` on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni")]
fn half_of(half: &Half, at: usize) -> [__m512i; 4] {
    words_of([half[at], half[at + 1], half[at + 2], half[at + 3]])
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni")]
fn spread(key: u64, byte: usize) -> __m512i {
    _mm512_set1_epi8(key.to_be_bytes()[byte].cast_signed())
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni")]
fn add_key(half: &mut Half, key: u64) {
    for byte in 0..8 {
        half[byte] = _mm512_xor_si512(half[byte], spread(key, byte));
    }
}

/// The function F of one half, into the other.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni")]
fn round_into(into: &mut Half, from: &Half, key: u64) {
    let mut t = *from;
    for byte in 0..8 {
        t[byte] = looked_up(&BOXES[BOX_OF[byte]], _mm512_xor_si512(from[byte], spread(key, byte)));
    }
    let [t1, t2, t3, t4, t5, t6, t7, t8] = t;
    // What several of the sums have.
    let t78 = _mm512_xor_si512(t7, t8);
    let t56 = _mm512_xor_si512(t5, t6);
    into[0] = xor3(into[0], xor3(t1, t3, t4), _mm512_xor_si512(t6, t78));
    into[1] = xor3(into[1], xor3(t1, t2, t4), _mm512_xor_si512(t5, t78));
    into[2] = xor3(into[2], xor3(t1, t2, t3), _mm512_xor_si512(t56, t8));
    into[3] = xor3(into[3], xor3(t2, t3, t4), _mm512_xor_si512(t56, t7));
    into[4] = xor3(into[4], xor3(t1, t2, t6), t78);
    into[5] = xor3(into[5], xor3(t2, t3, t5), t78);
    into[6] = xor3(into[6], xor3(t3, t4, t8), t56);
    into[7] = xor3(into[7], xor3(t1, t4, t7), t56);
}

/// Four bytes, the highest first, ANDed with those of a key and turned by a bit to the left.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni")]
fn masked_and_turned(half: &Half, key: u64) -> [__m512i; 4] {
    let one = _mm512_set1_epi8(1);
    let mut masked = [one; 4];
    for byte in 0..4 {
        masked[byte] = _mm512_and_si512(half[byte], spread(key, byte));
    }
    let mut turned = masked;
    for byte in 0..4 {
        // The lowest bit comes from the byte below, and that of the lowest byte from the highest.
        let low = _mm512_and_si512(_mm512_srli_epi16::<7>(masked[(byte + 1) % 4]), one);
        turned[byte] = _mm512_or_si512(_mm512_add_epi8(masked[byte], masked[byte]), low);
    }
    turned
}

/// The function FL (section 2.4.2).
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni")]
fn layer(half: &mut Half, key: u64) {
    let turned = masked_and_turned(half, key);
    for byte in 0..4 {
        half[4 + byte] = _mm512_xor_si512(half[4 + byte], turned[byte]);
        let or = _mm512_or_si512(half[4 + byte], spread(key, 4 + byte));
        half[byte] = _mm512_xor_si512(half[byte], or);
    }
}

/// Its inverse (section 2.4.3).
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,gfni")]
fn inverse_layer(half: &mut Half, key: u64) {
    for byte in 0..4 {
        let or = _mm512_or_si512(half[4 + byte], spread(key, 4 + byte));
        half[byte] = _mm512_xor_si512(half[byte], or);
    }
    let turned = masked_and_turned(half, key);
    for byte in 0..4 {
        half[4 + byte] = _mm512_xor_si512(half[4 + byte], turned[byte]);
    }
}
