//! BLAKE2s with 32 bytes of output (RFC 7693), unkeyed: the key is HMAC's.

use super::words::{Lanes, Words, beside, chains};
use super::{BLOCK, KeyBlocks};

/// BLAKE2s-256. The 192 bytes of a header are six of its output blocks.
pub enum Blake2s256 {}

beside!(Blake2s256, blake2::Blake2s256, 8, 6);

/// RFC 7693, section 2.6: those of SHA-256.
const INITIAL: [u32; 8] =
    [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];
/// Section 2.7.
const ORDER: [[u8; 16]; 10] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];

impl Words<8> for Blake2s256 {
    #[inline(always)]
    unsafe fn first<V: Lanes>(block: &[V; 16]) -> [V; 8] {
        // SAFETY: the features are the caller's promise.
        unsafe {
            let mut start = [V::splat(0); 8];
            for (start, word) in start.iter_mut().zip(INITIAL) {
                *start = V::splat(word);
            }
            // The parameter block: fan-out and depth of 1, no key, 32 bytes of output.
            start[0] = V::splat(INITIAL[0] ^ 0x0101_0020);
            compressed(&start, block, 64, 0)
        }
    }

    #[inline(always)]
    unsafe fn last<V: Lanes>(state: &[V; 8], digest: &[V; 8]) -> [V; 8] {
        // SAFETY: the features are the caller's promise.
        unsafe {
            let mut message = [V::splat(0); 16];
            message[..8].copy_from_slice(digest);
            compressed(state, &message, 64 + 32, u32::MAX)
        }
    }
}

/// The function F (section 3.2). `end` is all ones for the last block.
#[inline(always)]
unsafe fn compressed<V: Lanes>(start: &[V; 8], message: &[V; 16], bytes: u32, end: u32) -> [V; 8] {
    // SAFETY: the features are the caller's promise.
    unsafe {
        let mut v = [V::splat(0); 16];
        v[..8].copy_from_slice(start);
        for (v, word) in v[8..].iter_mut().zip(INITIAL) {
            *v = V::splat(word);
        }
        v[12] = V::splat(INITIAL[4] ^ bytes);
        v[14] = V::splat(INITIAL[6] ^ end);
        for order in &ORDER {
            mixed(&mut v, [0, 4, 8, 12], order, message, 0);
            mixed(&mut v, [1, 5, 9, 13], order, message, 2);
            mixed(&mut v, [2, 6, 10, 14], order, message, 4);
            mixed(&mut v, [3, 7, 11, 15], order, message, 6);
            mixed(&mut v, [0, 5, 10, 15], order, message, 8);
            mixed(&mut v, [1, 6, 11, 12], order, message, 10);
            mixed(&mut v, [2, 7, 8, 13], order, message, 12);
            mixed(&mut v, [3, 4, 9, 14], order, message, 14);
        }
        let mut result = *start;
        for i in 0..8 {
            result[i] = result[i].xor(v[i]).xor(v[i + 8]);
        }
        result
    }
}

/// The function G (section 3.1).
#[inline(always)]
unsafe fn mixed<V: Lanes>(
    v: &mut [V; 16],
    [a, b, c, d]: [usize; 4],
    order: &[u8; 16],
    message: &[V; 16],
    at: usize,
) {
    // SAFETY: the features are the caller's promise.
    unsafe {
        v[a] = v[a].add(v[b]).add(message[usize::from(order[at])]);
        v[d] = v[d].xor(v[a]).turned(16);
        v[c] = v[c].add(v[d]);
        v[b] = v[b].xor(v[c]).turned(20);
        v[a] = v[a].add(v[b]).add(message[usize::from(order[at + 1])]);
        v[d] = v[d].xor(v[a]).turned(24);
        v[c] = v[c].add(v[d]);
        v[b] = v[b].xor(v[c]).turned(25);
    }
}
