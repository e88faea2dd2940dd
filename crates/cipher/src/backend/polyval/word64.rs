//! The product in words of 64 bits.
//!
//! A carry-less product is made of integer products of numbers that have only every fifth bit: at most 13 of them meet
//! in one place, so that sums stay below 32 and never reach the next place that counts.

use zeroize::Zeroize;

/// A 64-bit polynomial, split by the place of its bits modulo 5.
type Sparse = [u64; 5];

/// A factor, split up once: its halves and their sum. Wiped on drop.
pub(super) struct Factor {
    low: Sparse,
    high: Sparse,
    middle: Sparse,
}

impl Factor {
    pub(super) const EMPTY: Self = Self { low: [0; 5], high: [0; 5], middle: [0; 5] };

    pub(super) fn set(&mut self, a: u128) {
        let (low, high) = (a as u64, (a >> 64) as u64);
        (self.low, self.high, self.middle) = (sparse(low), sparse(high), sparse(low ^ high));
    }

    pub(super) fn wipe(&mut self) {
        self.low.zeroize();
        self.high.zeroize();
        self.middle.zeroize();
    }

    /// POLYVAL's product.
    #[inline(always)]
    pub(super) fn times(&self, a: u128) -> u128 {
        let (a_low, a_high) = (a as u64, (a >> 64) as u64);
        let low = product(&sparse(a_low), &self.low);
        let high = product(&sparse(a_high), &self.high);
        let middle = product(&sparse(a_low ^ a_high), &self.middle) ^ low ^ high;
        reduce(low ^ middle << 64, high ^ middle >> 64)
    }
}

impl Drop for Factor {
    fn drop(&mut self) {
        self.wipe();
    }
}

/// Every fifth bit from bit `first` on.
const fn mask(first: u32) -> u128 {
    let mut mask = 0;
    let mut bit = first;
    while bit < 128 {
        mask |= 1 << bit;
        bit += 5;
    }
    mask
}

const MASKS: [u128; 5] = [mask(0), mask(1), mask(2), mask(3), mask(4)];

#[inline(always)]
fn sparse(a: u64) -> Sparse {
    MASKS.map(|mask| a & mask as u64)
}

/// Carry-less.
#[inline(always)]
fn product(a: &Sparse, b: &Sparse) -> u128 {
    let mut product = 0;
    for (place, mask) in MASKS.iter().enumerate() {
        let mut sum = 0;
        for (i, a) in a.iter().enumerate() {
            sum ^= u128::from(*a) * u128::from(b[(place + 5 - i) % 5]);
        }
        product |= sum & mask;
    }
    product
}

/// A 256-bit product times x^-128, modulo x^128 + x^127 + x^126 + x^121 + 1: its low half is shifted out, 64 bits at a
/// time, by adding multiples of the modulus.
#[inline(always)]
fn reduce(low: u128, high: u128) -> u128 {
    let fold = |a: u128| {
        let out = u128::from(a as u64);
        a >> 64 ^ out << 63 ^ out << 62 ^ out << 57 ^ (out << 64)
    };
    high ^ fold(fold(low))
}
