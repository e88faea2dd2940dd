//! ChaCha and XChaCha with 12 or 20 rounds (RFC 8439, 2; draft-irtf-cfrg-xchacha, 2), one block at a time, for any CPU.

use atrest_secret::SecretArray;
use zeroize::Zeroize;

use crate::block::Block;

/// "expand 32-byte k".
pub(crate) const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// Bytes in a block of keystream.
pub(crate) const BLOCK: usize = 64;

/// A key of ChaCha or XChaCha. Wiped on drop.
pub struct StreamKey {
    pub(crate) words: [u32; 8],
    pub(crate) rounds: ChaChaRounds,
}

/// How many rounds there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChaChaRounds {
    Twelve,
    Twenty,
}

impl ChaChaRounds {
    /// Half as many: a column round and a diagonal round each.
    pub(crate) fn doubles(self) -> usize {
        match self {
            Self::Twelve => 6,
            Self::Twenty => 10,
        }
    }
}

impl StreamKey {
    pub(crate) const EMPTY: Self = Self { words: [0; 8], rounds: ChaChaRounds::Twelve };

    pub(crate) fn new(key: &[u8; 32], rounds: ChaChaRounds) -> Self {
        let mut new = Self::EMPTY;
        new.set(key, rounds);
        new
    }

    pub(crate) fn set(&mut self, key: &[u8; 32], rounds: ChaChaRounds) {
        let (halves, _) = key.as_chunks();
        for (words, half) in self.words.as_chunks_mut().0.iter_mut().zip(halves) {
            *words = self::words(half);
        }
        self.rounds = rounds;
    }

    pub(crate) fn wipe(&mut self) {
        self.words.zeroize();
    }

    /// The keystream under a nonce of 24 bytes: `nonce`, then `rest`.
    pub(crate) fn keystream(&self, nonce: &Block, rest: u64) -> Keystream {
        let mut state = [0; 16];
        state[..4].copy_from_slice(&CONSTANTS);
        state[4..12].copy_from_slice(&self.words);
        state[12..].copy_from_slice(&words(nonce));
        permute(&mut state, self.rounds.doubles());
        // HChaCha's subkey is what the state's first and last row became.
        state.copy_within(..4, 4);
        state.copy_within(12.., 8);
        state[..4].copy_from_slice(&CONSTANTS);
        state[12..].copy_from_slice(&[0, 0, rest as u32, (rest >> 32) as u32]);
        Keystream { state, rounds: self.rounds }
    }
}

impl StreamKey {
    /// ChaCha's own keystream, from its first block on, under a nonce of 8 bytes.
    pub(crate) fn keystream_at(&self, nonce: &[u8; 8]) -> Keystream {
        let mut state = [0; 16];
        state[..4].copy_from_slice(&CONSTANTS);
        state[4..12].copy_from_slice(&self.words);
        let nonce = u64::from_le_bytes(*nonce);
        state[14..].copy_from_slice(&[nonce as u32, (nonce >> 32) as u32]);
        Keystream { state, rounds: self.rounds }
    }
}

impl StreamKey {
    /// The keystream of RFC 8439, from its block 0 on. It may have less than 2^32 blocks.
    pub(crate) fn keystream_under(&self, nonce: &[u8; 12]) -> Keystream {
        let mut state = [0; 16];
        state[..4].copy_from_slice(&CONSTANTS);
        state[4..12].copy_from_slice(&self.words);
        for (word, bytes) in state[13..].iter_mut().zip(nonce.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        Keystream { state, rounds: self.rounds }
    }
}

impl Drop for StreamKey {
    fn drop(&mut self) {
        self.wipe();
    }
}

/// A keystream at some block. Wiped on drop.
pub(crate) struct Keystream {
    state: [u32; 16],
    rounds: ChaChaRounds,
}

impl Keystream {
    /// The next block.
    pub(crate) fn next(&mut self, out: &mut [u8; BLOCK]) {
        let mut permuted = self.state;
        permute(&mut permuted, self.rounds.doubles());
        for ((out, word), start) in out.as_chunks_mut().0.iter_mut().zip(&permuted).zip(&self.state) {
            *out = word.wrapping_add(*start).to_le_bytes();
        }
        self.count();
    }

    /// Xors the keystream to `data`, whose last block may be part of one.
    pub(crate) fn apply(&mut self, data: &mut [u8]) {
        let (blocks, rest) = data.as_chunks_mut::<BLOCK>();
        for block in blocks {
            let mut permuted = self.state;
            permute(&mut permuted, self.rounds.doubles());
            for ((data, word), start) in block.as_chunks_mut().0.iter_mut().zip(&permuted).zip(&self.state) {
                *data = (u32::from_le_bytes(*data) ^ word.wrapping_add(*start)).to_le_bytes();
            }
            self.count();
        }
        if !rest.is_empty() {
            let mut block = SecretArray::<BLOCK>::zeroed();
            self.next(&mut block);
            for (data, key) in rest.iter_mut().zip(block.iter()) {
                *data ^= key;
            }
        }
    }

    fn count(&mut self) {
        // The counter is 64 bits wide, as in Bernstein's ChaCha.
        let (low, carry) = self.state[12].overflowing_add(1);
        self.state[12] = low;
        self.state[13] = self.state[13].wrapping_add(carry.into());
    }
}

impl Drop for Keystream {
    fn drop(&mut self) {
        self.state.zeroize();
    }
}

#[inline(always)]
fn words(bytes: &Block) -> [u32; 4] {
    let value = u128::from_le_bytes(*bytes);
    [value as u32, (value >> 32) as u32, (value >> 64) as u32, (value >> 96) as u32]
}

/// So many double rounds (RFC 8439, 2.3).
fn permute(state: &mut [u32; 16], doubles: usize) {
    let mut x = *state;
    for _ in 0..doubles {
        quarter::<0, 4, 8, 12>(&mut x);
        quarter::<1, 5, 9, 13>(&mut x);
        quarter::<2, 6, 10, 14>(&mut x);
        quarter::<3, 7, 11, 15>(&mut x);
        quarter::<0, 5, 10, 15>(&mut x);
        quarter::<1, 6, 11, 12>(&mut x);
        quarter::<2, 7, 8, 13>(&mut x);
        quarter::<3, 4, 9, 14>(&mut x);
    }
    *state = x;
}

#[inline(always)]
fn quarter<const A: usize, const B: usize, const C: usize, const D: usize>(x: &mut [u32; 16]) {
    x[A] = x[A].wrapping_add(x[B]);
    x[D] = (x[D] ^ x[A]).rotate_left(16);
    x[C] = x[C].wrapping_add(x[D]);
    x[B] = (x[B] ^ x[C]).rotate_left(12);
    x[A] = x[A].wrapping_add(x[B]);
    x[D] = (x[D] ^ x[A]).rotate_left(8);
    x[C] = x[C].wrapping_add(x[D]);
    x[B] = (x[B] ^ x[C]).rotate_left(7);
}

#[cfg(feature = "internals")]
pub(crate) mod tests {
    use super::*;

    /// Source: RFC 8439, 2.3.2; its counter and nonce are our counter of 64 bits and `rest`.
    pub(crate) fn a_block_of_chacha20_is_that_of_rfc_8439() {
        let key: [u8; 32] = core::array::from_fn(|i| i as u8);
        let mut state = [0; 16];
        state[..4].copy_from_slice(&CONSTANTS);
        state[4..12].copy_from_slice(&StreamKey::new(&key, ChaChaRounds::Twenty).words);
        state[12..].copy_from_slice(&[1, 0x0900_0000, 0x4a00_0000, 0]);
        let mut block = [0; BLOCK];
        Keystream { state, rounds: ChaChaRounds::Twenty }.next(&mut block);
        let published = 0x10f1_e7e4_d13b_5915_500f_dd1f_a320_71c4_u128.to_be_bytes();
        assert_eq!(block[..16], published);
        let published = 0xb512_9cd1_de16_4eb9_cbd0_83e8_a250_3c4e_u128.to_be_bytes();
        assert_eq!(block[48..], published);
    }

    /// Source: draft-irtf-cfrg-xchacha-03, 2.2.1.
    pub(crate) fn hchacha20_is_that_of_the_xchacha_draft() {
        let key: [u8; 32] = core::array::from_fn(|i| i as u8);
        let nonce = 0x0000_0009_0000_004a_0000_0000_3141_5927_u128.to_be_bytes();
        let stream = StreamKey::new(&key, ChaChaRounds::Twenty).keystream(&nonce, 0);
        let published = [
            0x423b_4182,
            0xfe7b_b227,
            0x5042_0ed3,
            0x737d_878a,
            0xd5e4_f9a0,
            0x53a8_748a,
            0x13c4_2ec1,
            0xdcec_d326,
        ];
        assert_eq!(stream.state[4..12], published);
    }
}
