//! The product in words of 32 bits, for CPUs that multiply 32 bits by 32 in constant time.
//!
//! Three levels of halves (Karatsuba): nine products of words, each of which is 16 integer products of numbers that have
//! only every fourth bit: at most eight of them meet in one place, so that sums stay below 16.

use zeroize::Zeroize;

/// What is multiplied of either factor: its four words, then sums of them.
type Terms<T> = [T; 9];

/// A word, split by the place of its bits modulo 4.
type Sparse = [u32; 4];

/// A factor, split up once. Wiped on drop.
pub(super) struct Factor(Terms<Sparse>);

impl Factor {
    pub(super) const EMPTY: Self = Self([[0; 4]; 9]);

    pub(super) fn set(&mut self, a: u128) {
        self.0 = terms(a).map(sparse);
    }

    pub(super) fn wipe(&mut self) {
        self.0.zeroize();
    }

    /// POLYVAL's product.
    #[inline(always)]
    pub(super) fn times(&self, a: u128) -> u128 {
        let mut products = [0; 9];
        for ((product, a), b) in products.iter_mut().zip(terms(a)).zip(&self.0) {
            *product = multiplied(a, b);
        }
        // Words 0, 1 and their sum; 2, 3 and their sum; the sums of 0 and 2, of 1 and 3, and of all.
        let joined = |low: u64, high: u64, both: u64| {
            let middle = u128::from(low ^ high ^ both);
            u128::from(low) ^ u128::from(high) << 64 ^ middle << 32
        };
        let [p0, p1, p2, p3, p4, p5, p6, p7, p8] = products;
        let (low, high) = (joined(p0, p1, p2), joined(p3, p4, p5));
        let middle = low ^ high ^ joined(p6, p7, p8);
        reduce(low ^ middle << 64, high ^ middle >> 64)
    }
}

impl Drop for Factor {
    fn drop(&mut self) {
        self.wipe();
    }
}

#[inline(always)]
fn terms(a: u128) -> Terms<u32> {
    let [a0, a1, a2, a3] = words(a);
    let (even, odd) = (a0 ^ a2, a1 ^ a3);
    [a0, a1, a0 ^ a1, a2, a3, a2 ^ a3, even, odd, even ^ odd]
}

#[inline(always)]
fn sparse(a: u32) -> Sparse {
    [a & 0x1111_1111, a & 0x2222_2222, a & 0x4444_4444, a & 0x8888_8888]
}

#[cfg(thumb2)]
use super::thumb2::product_of_words as multiplied;

/// Carry-less.
#[cfg(not(thumb2))]
#[inline(always)]
fn multiplied(a: u32, [b0, b1, b2, b3]: &Sparse) -> u64 {
    const PLACES: u64 = 0x1111_1111_1111_1111;
    let [a0, a1, a2, a3] = sparse(a);
    let times = |a: u32, b: &u32| u64::from(a).wrapping_mul(u64::from(*b));
    let p0 = times(a0, b0) ^ times(a1, b3) ^ times(a2, b2) ^ times(a3, b1);
    let p1 = times(a0, b1) ^ times(a1, b0) ^ times(a2, b3) ^ times(a3, b2);
    let p2 = times(a0, b2) ^ times(a1, b1) ^ times(a2, b0) ^ times(a3, b3);
    let p3 = times(a0, b3) ^ times(a1, b2) ^ times(a2, b1) ^ times(a3, b0);
    (p0 & PLACES) | (p1 & PLACES << 1) | (p2 & PLACES << 2) | (p3 & PLACES << 3)
}

/// A 256-bit product times x^-128, modulo x^128 + x^127 + x^126 + x^121 + 1: each word of its low half is shifted out by
/// adding a multiple of the modulus.
#[inline(always)]
fn reduce(low: u128, high: u128) -> u128 {
    let [w0, w1, w2, mut w3] = words(low);
    let [mut w4, mut w5, mut w6, mut w7] = words(high);
    let out = |word: u32, beside: &mut u32, above: &mut u32| {
        *beside ^= word << 31 ^ word << 30 ^ word << 25;
        *above ^= word ^ word >> 1 ^ word >> 2 ^ word >> 7;
    };
    // In this order: the first may still add to the last.
    out(w0, &mut w3, &mut w4);
    out(w1, &mut w4, &mut w5);
    out(w2, &mut w5, &mut w6);
    out(w3, &mut w6, &mut w7);
    u128::from(w4) | u128::from(w5) << 32 | u128::from(w6) << 64 | u128::from(w7) << 96
}

#[inline(always)]
fn words(a: u128) -> [u32; 4] {
    [a as u32, (a >> 32) as u32, (a >> 64) as u32, (a >> 96) as u32]
}
