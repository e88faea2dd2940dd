//! Speck128 (Beaulieu and others, "The SIMON and SPECK families of lightweight block ciphers", IACR ePrint 2013/404), in
//! the byte order of the Linux kernel, which had it from version 4.17 to 4.19.
//!
//! It was withdrawn there for want of trust in its designers, and no one recommends it; it is here for volumes of that
//! time, and to compare. Additions, rotations and exclusive ors only, so constant-time; several blocks go side by side, so
//! that a compiler has lanes to fill.

use zeroize::Zeroize;

use crate::block::{Block, BlockCipher, LANES, in_batches};

/// Rounds with the longest key, of 256 bits; with 192 and 128 there are one and two fewer.
const MAX_ROUNDS: usize = 34;

/// A key schedule. Wiped on drop.
pub(crate) struct Speck {
    round_keys: [u64; MAX_ROUNDS],
    rounds: usize,
}

/// The two words of some blocks, lane by lane.
struct Words<const N: usize> {
    high: [u64; N],
    low: [u64; N],
}

impl Speck {
    /// Expands a key; `None` unless it has 16, 24 or 32 bytes.
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        let rounds = match key.len() {
            16 => 32,
            24 => 33,
            32 => 34,
            _ => return None,
        };
        let (low, rest) = key.as_chunks::<8>().0.split_first()?;
        let mut words = Words { high: [0; 1], low: [u64::from_le_bytes(*low)] };
        let mut others = [0; 3];
        for (word, bytes) in others.iter_mut().zip(rest) {
            *word = u64::from_le_bytes(*bytes);
        }
        let mut speck = Self { round_keys: [0; MAX_ROUNDS], rounds };
        for (round, key) in speck.round_keys.iter_mut().take(rounds).enumerate() {
            // The round function with the round's number for a key makes the next round key.
            *key = words.low[0];
            let other = &mut others[round % rest.len()];
            words.high[0] = *other;
            words.round(round as u64);
            *other = words.high[0];
        }
        others.zeroize();
        words.low.zeroize();
        words.high.zeroize();
        Some(speck)
    }

    fn round_keys(&self) -> &[u64] {
        &self.round_keys[..self.rounds]
    }

    fn encrypt_lanes<const N: usize>(&self, blocks: &mut [Block; N]) {
        let mut words = Words::load(blocks);
        for key in self.round_keys() {
            words.round(*key);
        }
        words.store(blocks);
    }

    fn decrypt_lanes<const N: usize>(&self, blocks: &mut [Block; N]) {
        let mut words = Words::load(blocks);
        for key in self.round_keys().iter().rev() {
            words.round_back(*key);
        }
        words.store(blocks);
    }
}

impl<const N: usize> Words<N> {
    #[inline(always)]
    fn load(blocks: &[Block; N]) -> Self {
        let blocks = blocks.map(u128::from_le_bytes);
        Self { high: blocks.map(|block| (block >> 64) as u64), low: blocks.map(|block| block as u64) }
    }

    #[inline(always)]
    fn store(&self, blocks: &mut [Block; N]) {
        for (block, (high, low)) in blocks.iter_mut().zip(self.high.iter().zip(&self.low)) {
            *block = (u128::from(*high) << 64 | u128::from(*low)).to_le_bytes();
        }
    }

    #[inline(always)]
    fn round(&mut self, key: u64) {
        for (high, low) in self.high.iter_mut().zip(&mut self.low) {
            *high = high.rotate_right(8).wrapping_add(*low) ^ key;
            *low = low.rotate_left(3) ^ *high;
        }
    }

    #[inline(always)]
    fn round_back(&mut self, key: u64) {
        for (high, low) in self.high.iter_mut().zip(&mut self.low) {
            *low = (*low ^ *high).rotate_right(3);
            *high = (*high ^ key).wrapping_sub(*low).rotate_left(8);
        }
    }
}

impl BlockCipher for Speck {
    fn is_constant_time(&self) -> bool {
        true
    }

    fn encrypt(&self, blocks: &mut [Block]) {
        in_batches::<LANES>(blocks, |batch| self.encrypt_lanes(batch), |block| self.encrypt_lanes(block));
    }

    fn decrypt(&self, blocks: &mut [Block]) {
        in_batches::<LANES>(blocks, |batch| self.decrypt_lanes(batch), |block| self.decrypt_lanes(block));
    }
}

impl Drop for Speck {
    fn drop(&mut self) {
        self.round_keys.zeroize();
    }
}
