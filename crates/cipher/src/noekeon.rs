//! NOEKEON with the key used as it is ("direct-key mode"; Daemen, Peeters, Van Assche and Rijmen, "Nessie Proposal:
//! NOEKEON", 2000). No kernel has it; it is here to compare.
//!
//! Rotations and Boolean operations only, so constant-time; several blocks go side by side, so that a compiler has lanes
//! to fill. Related keys break its direct-key mode (Knudsen and Raddum, 2001), which does not matter to random keys.

use zeroize::Zeroize;

use crate::block::{Block, BlockCipher, LANES, in_batches};

/// The constant of each round, and of the half round at the end: powers of x modulo x^8 + x^4 + x^3 + x + 1, from x^7 on.
const CONSTANTS: [u32; 17] = {
    let mut constants = [0x80; 17];
    let mut round = 1;
    while round < constants.len() {
        let previous = constants[round - 1];
        constants[round] = ((previous << 1) ^ ((previous >> 7) * 0x1b)) & 0xff;
        round += 1;
    }
    constants
};

/// The working keys. Wiped on drop.
pub(crate) struct Noekeon {
    encrypt: [u32; 4],
    decrypt: [u32; 4],
}

/// The four words of some blocks, lane by lane.
struct Words<const N: usize>([[u32; N]; 4]);

impl Noekeon {
    /// Takes a key; `None` unless it has 16 bytes.
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        let mut words = Words::load(&[*key.as_array::<16>()?]);
        let encrypt = words.0.map(|[word]| word);
        words.theta(&[0; 4]);
        let decrypt = words.0.map(|[word]| word);
        words.0.zeroize();
        Some(Self { encrypt, decrypt })
    }

    fn encrypt_lanes<const N: usize>(&self, blocks: &mut [Block; N]) {
        let mut words = Words::load(blocks);
        let [rounds @ .., last] = &CONSTANTS;
        for constant in rounds {
            words.add(*constant);
            words.theta(&self.encrypt);
            words.confuse();
        }
        words.add(*last);
        words.theta(&self.encrypt);
        words.store(blocks);
    }

    fn decrypt_lanes<const N: usize>(&self, blocks: &mut [Block; N]) {
        let mut words = Words::load(blocks);
        let [first, rounds @ ..] = &CONSTANTS;
        for constant in rounds.iter().rev() {
            words.theta(&self.decrypt);
            words.add(*constant);
            words.confuse();
        }
        words.theta(&self.decrypt);
        words.add(*first);
        words.store(blocks);
    }
}

impl<const N: usize> Words<N> {
    #[inline(always)]
    fn load(blocks: &[Block; N]) -> Self {
        let words: [[u32; 4]; N] = blocks.map(|block| {
            let block = u128::from_be_bytes(block);
            [(block >> 96) as u32, (block >> 64) as u32, (block >> 32) as u32, block as u32]
        });
        Self(core::array::from_fn(|row| core::array::from_fn(|lane| words[lane][row])))
    }

    #[inline(always)]
    fn store(&self, blocks: &mut [Block; N]) {
        for (lane, block) in blocks.iter_mut().enumerate() {
            let words = self.0.iter().fold(0, |block, row| block << 32 | u128::from(row[lane]));
            *block = words.to_be_bytes();
        }
    }

    /// Adds a round constant.
    #[inline(always)]
    fn add(&mut self, constant: u32) {
        for word in &mut self.0[0] {
            *word ^= constant;
        }
    }

    /// Adds the working key, and mixes.
    #[inline(always)]
    fn theta(&mut self, key: &[u32; 4]) {
        let [a, b, c, d] = &mut self.0;
        for lane in 0..N {
            let odd = spread(a[lane] ^ c[lane]);
            a[lane] ^= key[0];
            b[lane] ^= odd ^ key[1];
            c[lane] ^= key[2];
            d[lane] ^= odd ^ key[3];
            let even = spread(b[lane] ^ d[lane]);
            a[lane] ^= even;
            c[lane] ^= even;
        }
    }

    /// Rotates, applies the S-box (gamma) to each column of four bits, and rotates back.
    #[inline(always)]
    fn confuse(&mut self) {
        let [a, b, c, d] = &mut self.0;
        for lane in 0..N {
            let (mut w, mut x) = (a[lane], b[lane].rotate_left(1));
            let (mut y, mut z) = (c[lane].rotate_left(5), d[lane].rotate_left(2));
            x ^= !z & !y;
            w ^= y & x;
            (w, z) = (z, w);
            y ^= w ^ x ^ z;
            x ^= !z & !y;
            w ^= y & x;
            (a[lane], b[lane]) = (w, x.rotate_right(1));
            (c[lane], d[lane]) = (y.rotate_right(5), z.rotate_right(2));
        }
    }
}

#[inline(always)]
fn spread(word: u32) -> u32 {
    word ^ word.rotate_left(8) ^ word.rotate_right(8)
}

impl BlockCipher for Noekeon {
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

impl Drop for Noekeon {
    fn drop(&mut self) {
        self.encrypt.zeroize();
        self.decrypt.zeroize();
    }
}
