//! RIPEMD-160 (Dobbertin, Bosselaers, Preneel: "RIPEMD-160: A Strengthened Version of RIPEMD", 1996, appendix A).

use super::words::{Lanes, Words, beside, chains};
use super::{BLOCK, KeyBlocks};

/// RIPEMD-160. The 192 bytes of a header are ten of its output blocks.
pub enum Ripemd160 {}

beside!(Ripemd160, ripemd::Ripemd160, 5, 10);

const INITIAL: [u32; 5] = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0];
/// Constants of the rounds, of the left line and of the right.
const CONSTANTS: [[u32; 5]; 2] = [
    [0, 0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xa953fd4e],
    [0x50a28be6, 0x5c4dd124, 0x6d703ef3, 0x7a6d76e9, 0],
];
/// Which word of the message a step takes.
#[rustfmt::skip]
const ORDER: [[[u8; 16]; 5]; 2] = [[
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [7, 4, 13, 1, 10, 6, 15, 3, 12, 0, 9, 5, 2, 14, 11, 8],
    [3, 10, 14, 4, 9, 15, 8, 1, 2, 7, 0, 6, 13, 11, 5, 12],
    [1, 9, 11, 10, 0, 8, 12, 4, 13, 3, 7, 15, 14, 5, 6, 2],
    [4, 0, 5, 9, 7, 12, 2, 10, 14, 1, 3, 8, 11, 6, 15, 13],
], [
    [5, 14, 7, 0, 9, 2, 11, 4, 13, 6, 15, 8, 1, 10, 3, 12],
    [6, 11, 3, 7, 0, 13, 5, 10, 14, 15, 8, 12, 4, 9, 1, 2],
    [15, 5, 1, 3, 7, 14, 6, 9, 11, 8, 12, 2, 10, 0, 4, 13],
    [8, 6, 4, 1, 3, 11, 15, 0, 5, 12, 2, 13, 9, 7, 10, 14],
    [12, 15, 10, 4, 1, 5, 8, 7, 6, 2, 13, 14, 0, 3, 9, 11],
]];
/// By how many bits a step turns.
#[rustfmt::skip]
const TURNS: [[[u8; 16]; 5]; 2] = [[
    [11, 14, 15, 12, 5, 8, 7, 9, 11, 13, 14, 15, 6, 7, 9, 8],
    [7, 6, 8, 13, 11, 9, 7, 15, 7, 12, 15, 9, 11, 7, 13, 12],
    [11, 13, 6, 7, 14, 9, 13, 15, 14, 8, 13, 6, 5, 12, 7, 5],
    [11, 12, 14, 15, 14, 15, 9, 8, 9, 14, 5, 6, 8, 6, 5, 12],
    [9, 15, 5, 11, 6, 8, 13, 12, 5, 12, 13, 14, 11, 8, 5, 6],
], [
    [8, 9, 9, 11, 13, 15, 15, 5, 7, 7, 8, 11, 14, 14, 12, 6],
    [9, 13, 15, 7, 12, 8, 9, 11, 7, 7, 12, 7, 6, 15, 13, 11],
    [9, 7, 15, 11, 8, 6, 6, 14, 12, 13, 5, 14, 13, 13, 7, 5],
    [15, 5, 8, 11, 14, 14, 6, 14, 6, 9, 12, 9, 12, 5, 15, 8],
    [8, 5, 12, 9, 12, 5, 14, 6, 8, 13, 6, 5, 15, 13, 11, 11],
]];

impl Words<5> for Ripemd160 {
    #[inline(always)]
    unsafe fn first<V: Lanes>(block: &[V; 16]) -> [V; 5] {
        // SAFETY: the features are the caller's promise.
        unsafe {
            let mut start = [V::splat(0); 5];
            for (start, word) in start.iter_mut().zip(INITIAL) {
                *start = V::splat(word);
            }
            compressed(&start, block)
        }
    }

    #[inline(always)]
    unsafe fn last<V: Lanes>(state: &[V; 5], digest: &[V; 5]) -> [V; 5] {
        // SAFETY: the features are the caller's promise.
        unsafe {
            let mut message = [V::splat(0); 16];
            message[..5].copy_from_slice(digest);
            message[5] = V::splat(0x80);
            message[14] = V::splat((64 + 20) * 8);
            compressed(state, &message)
        }
    }
}

#[inline(always)]
unsafe fn compressed<V: Lanes>(start: &[V; 5], message: &[V; 16]) -> [V; 5] {
    // SAFETY: the features are the caller's promise.
    unsafe {
        let mut lines = [*start, *start];
        round::<V, 0>(&mut lines, message);
        round::<V, 1>(&mut lines, message);
        round::<V, 2>(&mut lines, message);
        round::<V, 3>(&mut lines, message);
        round::<V, 4>(&mut lines, message);
        let [[a, b, c, d, e], [aa, bb, cc, dd, ee]] = lines;
        let [h0, h1, h2, h3, h4] = *start;
        [h1.add(c).add(dd), h2.add(d).add(ee), h3.add(e).add(aa), h4.add(a).add(bb), h0.add(b).add(cc)]
    }
}

/// Sixteen steps of both lines.
#[inline(always)]
unsafe fn round<V: Lanes, const ROUND: usize>(lines: &mut [[V; 5]; 2], message: &[V; 16]) {
    for step in 0..16 {
        for (line, state) in lines.iter_mut().enumerate() {
            let [a, b, c, d, e] = *state;
            // SAFETY: the features are the caller's promise.
            unsafe {
                let mixed = match if line == 0 { ROUND } else { 4 - ROUND } {
                    0 => b.xor(c).xor(d),
                    1 => b.choose(c, d),
                    2 => b.or_not_xor(c, d),
                    3 => d.choose(b, c),
                    _ => c.or_not_xor(d, b),
                };
                let word = message[usize::from(ORDER[line][ROUND][step])];
                let word = word.add(V::splat(CONSTANTS[line][ROUND]));
                let sum = a.add(word).add(mixed);
                let turned = sum.turned(u32::from(TURNS[line][ROUND][step]));
                *state = [e, turned.add(e), b, c.turned(10), d];
            }
        }
    }
}
