//! POLYVAL (RFC 8452, section 3), without a table, a branch or an index that depends on secrets.
//!
//! A carry-less product is made of integer products of numbers that have only every fifth bit: at most 13 of them meet
//! in one place, so that sums stay below 32 and never reach the next place that counts. (The method of T. Pornin's
//! "Constant-Time Mul"; he takes every fourth bit and half of each product.)

use zeroize::Zeroize;

use crate::backend::Multiplier;
use crate::block::Block;

/// Blocks that a backend multiplies before it reduces their sum.
pub(crate) const POWERS: usize = 8;

/// A key, and what is computed from it once. Wiped on drop.
pub(crate) struct PolyvalKey {
    /// The key's powers from the highest down to itself, as the function multiplies.
    #[allow(dead_code, reason = "only backends with a multiplier ask for it")]
    pub(crate) powers: [u128; POWERS],
    /// Whether such a backend may be asked.
    #[allow(dead_code, reason = "only backends with a multiplier ask for it")]
    pub(crate) multiplier: Option<Multiplier>,
    low: Sparse,
    high: Sparse,
    middle: Sparse,
}

/// A 64-bit polynomial, split by the place of its bits modulo 5.
type Sparse = [u64; 5];

impl PolyvalKey {
    pub(crate) fn new(key: &Block) -> Self {
        let key = u128::from_le_bytes(*key);
        let (low, high) = (key as u64, (key >> 64) as u64);
        let (low, high, middle) = (sparse(low), sparse(high), sparse(low ^ high));
        let mut expanded =
            Self { powers: [key; POWERS], multiplier: Multiplier::detect(), low, high, middle };
        let mut power = key;
        for i in (0..POWERS - 1).rev() {
            power = expanded.times(power);
            expanded.powers[i] = power;
        }
        power.zeroize();
        expanded
    }

    /// The state after more blocks.
    pub(crate) fn absorb(&self, state: u128, blocks: &[Block]) -> u128 {
        blocks.iter().fold(state, |state, block| self.times(state ^ u128::from_le_bytes(*block)))
    }

    /// `a` times the key times x^-128.
    fn times(&self, a: u128) -> u128 {
        let (a_low, a_high) = (a as u64, (a >> 64) as u64);
        let low = product(&sparse(a_low), &self.low);
        let high = product(&sparse(a_high), &self.high);
        let middle = product(&sparse(a_low ^ a_high), &self.middle) ^ low ^ high;
        reduce(low ^ middle << 64, high ^ middle >> 64)
    }
}

impl Drop for PolyvalKey {
    fn drop(&mut self) {
        self.powers.zeroize();
        self.low.zeroize();
        self.high.zeroize();
        self.middle.zeroize();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Source: RFC 8452, Appendix A.
    #[test]
    fn polyval_agrees_with_rfc_8452() {
        let key = PolyvalKey::new(&0x2562_9347_5892_4276_1d31_f826_ba4b_757bu128.to_be_bytes());
        let blocks =
            [0x4f4f_9566_8c83_dfb6_4017_62bb_2d01_a262u128, 0xd1a2_4ddd_2721_d006_bbe4_5f20_d3c9_f362]
                .map(u128::to_be_bytes);
        let state = key.absorb(0, &blocks);
        assert_eq!(state.to_le_bytes(), 0xf7a3_b47b_8461_19fa_e5b7_866c_f5e5_b77eu128.to_be_bytes());
    }

    #[test]
    fn powers_multiply_as_the_key_does_many_times() {
        let key = PolyvalKey::new(&[0xa7; 16]);
        let [highest, ..] = key.powers;
        let mut blocks = [[0; 16]; POWERS];
        blocks[0] = 1u128.to_le_bytes();
        let by_key = key.absorb(0, &blocks);
        assert_eq!(PolyvalKey::new(&highest.to_le_bytes()).absorb(0, &blocks[..1]), by_key);
    }
}
