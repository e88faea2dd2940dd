//! POLYVAL (RFC 8452, section 3), without a table, a branch or an index that depends on secrets.
//!
//! A carry-less product is made of integer products of numbers that have so few bits that the sums in one place never
//! reach the next place that counts. (The method of T. Pornin's "Constant-Time Mul"; he takes every fourth bit and half of
//! each product.)

mod multiplier;
#[cfg(thumb2)]
#[allow(unsafe_code)]
mod thumb2;
#[cfg(any(feature = "internals", target_pointer_width = "32", target_pointer_width = "16"))]
mod word32;
#[cfg(target_pointer_width = "64")]
mod word64;

use zeroize::Zeroize;

use self::multiplier::Multiplier;
#[cfg(not(target_pointer_width = "64"))]
use self::word32::Factor;
#[cfg(target_pointer_width = "64")]
use self::word64::Factor;
use crate::block::Block;
use crate::mode::hctr2::Polyval;

/// Blocks that a backend multiplies, at most, before it reduces their sum; none where no backend has a multiplier.
pub(crate) const POWERS: usize = if cfg!(target_arch = "x86_64") {
    32
} else if cfg!(target_arch = "aarch64") {
    8
} else {
    0
};

/// A key, and what is computed from it once. Wiped on drop.
pub(crate) struct PolyvalKey {
    /// The key's powers from the highest down to itself, as the function multiplies.
    #[allow(dead_code, reason = "only backends with a multiplier ask for it")]
    pub(crate) powers: [u128; POWERS],
    /// Whether such a backend may be asked.
    #[allow(dead_code, reason = "only backends with a multiplier ask for it")]
    pub(crate) multiplier: Option<Multiplier>,
    factor: Factor,
}

impl Polyval for PolyvalKey {
    const EMPTY: Self = Self { powers: [0; POWERS], multiplier: None, factor: Factor::EMPTY };

    const WANTS_IV_START: bool = POWERS != 0;

    fn set(&mut self, key: &Block) {
        let mut power = u128::from_le_bytes(*key);
        self.factor.set(power);
        self.multiplier = Multiplier::detect();
        for i in (0..POWERS).rev() {
            self.powers[i] = power;
            power = self.factor.times(power);
        }
        power.zeroize();
    }

    fn wipe(&mut self) {
        self.powers.zeroize();
        self.factor.wipe();
    }

    fn absorb(&self, state: u128, blocks: &[Block]) -> u128 {
        blocks.iter().fold(state, |state, block| self.factor.times(state ^ u128::from_le_bytes(*block)))
    }
}

impl Drop for PolyvalKey {
    fn drop(&mut self) {
        self.wipe();
    }
}

#[cfg(feature = "internals")]
pub(crate) mod tests {
    use super::*;

    fn keyed(key: &Block) -> PolyvalKey {
        let mut keyed = PolyvalKey::EMPTY;
        keyed.set(key);
        keyed
    }

    /// Source: RFC 8452, Appendix A.
    pub(crate) fn polyval_agrees_with_rfc_8452() {
        let key = keyed(&0x2562_9347_5892_4276_1d31_f826_ba4b_757bu128.to_be_bytes());
        let blocks =
            [0x4f4f_9566_8c83_dfb6_4017_62bb_2d01_a262u128, 0xd1a2_4ddd_2721_d006_bbe4_5f20_d3c9_f362]
                .map(u128::to_be_bytes);
        let state = key.absorb(0, &blocks);
        assert_eq!(state.to_le_bytes(), 0xf7a3_b47b_8461_19fa_e5b7_866c_f5e5_b77eu128.to_be_bytes());
    }

    #[cfg(target_pointer_width = "64")]
    pub(crate) fn words_of_either_size_give_the_same_products() {
        let (mut narrow, mut wide) = (word32::Factor::EMPTY, Factor::EMPTY);
        let mut a = 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978u128;
        for factor in [1, u128::MAX, 1 << 127, 0xffff_ffff, 0x8000_0000_7fff_ffff_0000_0001_ffff_fffeu128] {
            narrow.set(factor);
            wide.set(factor);
            for start in [a, 0, 1, u128::MAX, factor] {
                a = wide.times(start);
                assert_eq!(narrow.times(start), a, "{factor:x} {start:x}");
            }
        }
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    pub(crate) fn powers_multiply_as_the_key_does_many_times() {
        let key = keyed(&[0xa7; 16]);
        let [highest, ..] = key.powers;
        let mut blocks = [[0; 16]; POWERS];
        blocks[0] = 1u128.to_le_bytes();
        let by_key = key.absorb(0, &blocks);
        assert_eq!(keyed(&highest.to_le_bytes()).absorb(0, &blocks[..1]), by_key);
    }
}
