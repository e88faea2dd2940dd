//! Serpent (Anderson, Biham and Knudsen: "Serpent: A Proposal for the Advanced Encryption Standard", 1998), for keys of 16 to 32 bytes,
//! bit-sliced: word i of a block holds bit i of 32 nibbles. The same code takes one block in four words, or as many as a vector register
//! has lanes in four registers. No table is read, and nothing branches on a secret.

mod boxes;

use boxes::{restored, substituted};
use zeroize::Zeroize;

use crate::block::Block;

const ROUNDS: usize = 32;

/// A word of 32 bits, or as many of them as there are lanes.
pub(crate) trait Word: Copy {
    fn splat(value: u32) -> Self;
    fn xor(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn not(self) -> Self;
    /// What is in `self` and not in `other`.
    fn and_not(self, other: Self) -> Self;
    /// `UP` bits to the left. Zeros come in.
    fn up<const UP: i32>(self) -> Self;
    /// Turned by `UP` bits to the left; `DOWN` is 32 less `UP`.
    fn turned<const UP: i32, const DOWN: i32>(self) -> Self;
}

impl Word for u32 {
    #[inline(always)]
    fn splat(value: u32) -> Self {
        value
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        self & other
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        self | other
    }

    #[inline(always)]
    fn not(self) -> Self {
        !self
    }

    #[inline(always)]
    fn and_not(self, other: Self) -> Self {
        self & !other
    }

    #[inline(always)]
    fn up<const UP: i32>(self) -> Self {
        self << UP
    }

    #[inline(always)]
    fn turned<const UP: i32, const DOWN: i32>(self) -> Self {
        self.rotate_left(UP.cast_unsigned())
    }
}

/// The keys of the rounds. Wiped on drop.
pub(crate) struct Keys([[u32; 4]; ROUNDS + 1]);

impl Keys {
    /// Expands a key of 16 to 32 bytes; `None` for other lengths.
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        if !(16..=32).contains(&key.len()) {
            return None;
        }
        let mut padded = [0; 32];
        padded[..key.len()].copy_from_slice(key);
        if let Some(end) = padded.get_mut(key.len()) {
            *end = 1;
        }
        // The last eight words, the oldest first.
        let mut last: [u32; 8] = core::array::from_fn(|i| {
            u32::from_le_bytes([padded[4 * i], padded[4 * i + 1], padded[4 * i + 2], padded[4 * i + 3]])
        });
        padded.zeroize();
        let mut keys = [[0; 4]; ROUNDS + 1];
        for (round, key) in keys.iter_mut().enumerate() {
            for (i, word) in key.iter_mut().enumerate() {
                // The golden ratio, and the word's number.
                let new = last[0] ^ last[3] ^ last[5] ^ last[7] ^ 0x9e37_79b9 ^ (4 * round + i) as u32;
                *word = new.rotate_left(11);
                last.rotate_left(1);
                last[7] = *word;
            }
            // The boxes go backwards, from number 3 on.
            *key = match round % 8 {
                0 => substituted::<_, 3>(*key),
                1 => substituted::<_, 2>(*key),
                2 => substituted::<_, 1>(*key),
                3 => substituted::<_, 0>(*key),
                4 => substituted::<_, 7>(*key),
                5 => substituted::<_, 6>(*key),
                6 => substituted::<_, 5>(*key),
                _ => substituted::<_, 4>(*key),
            };
        }
        last.zeroize();
        Some(Self(keys))
    }

    /// Encrypts a block in each lane.
    #[inline(always)]
    pub(crate) fn encrypted<W: Word>(&self, mut x: [W; 4]) -> [W; 4] {
        for eight in 0..ROUNDS / 8 {
            let first = 8 * eight;
            x = linear(substituted::<W, 0>(self.mixed(first, x)));
            x = linear(substituted::<W, 1>(self.mixed(first + 1, x)));
            x = linear(substituted::<W, 2>(self.mixed(first + 2, x)));
            x = linear(substituted::<W, 3>(self.mixed(first + 3, x)));
            x = linear(substituted::<W, 4>(self.mixed(first + 4, x)));
            x = linear(substituted::<W, 5>(self.mixed(first + 5, x)));
            x = linear(substituted::<W, 6>(self.mixed(first + 6, x)));
            x = substituted::<W, 7>(self.mixed(first + 7, x));
            // Instead of the linear transformation the last round has one more key.
            if eight < ROUNDS / 8 - 1 {
                x = linear(x);
            }
        }
        self.mixed(ROUNDS, x)
    }

    /// Decrypts a block in each lane.
    #[inline(always)]
    pub(crate) fn decrypted<W: Word>(&self, x: [W; 4]) -> [W; 4] {
        let mut x = self.mixed(ROUNDS, x);
        for eight in (0..ROUNDS / 8).rev() {
            let first = 8 * eight;
            if eight < ROUNDS / 8 - 1 {
                x = unlinear(x);
            }
            x = self.mixed(first + 7, restored::<W, 7>(x));
            x = self.mixed(first + 6, restored::<W, 6>(unlinear(x)));
            x = self.mixed(first + 5, restored::<W, 5>(unlinear(x)));
            x = self.mixed(first + 4, restored::<W, 4>(unlinear(x)));
            x = self.mixed(first + 3, restored::<W, 3>(unlinear(x)));
            x = self.mixed(first + 2, restored::<W, 2>(unlinear(x)));
            x = self.mixed(first + 1, restored::<W, 1>(unlinear(x)));
            x = self.mixed(first, restored::<W, 0>(unlinear(x)));
        }
        x
    }

    // Without a closure: it would not be compiled for the instructions of whoever calls this.
    #[inline(always)]
    fn mixed<W: Word>(&self, round: usize, [x0, x1, x2, x3]: [W; 4]) -> [W; 4] {
        let [k0, k1, k2, k3] = self.0[round];
        [x0.xor(W::splat(k0)), x1.xor(W::splat(k1)), x2.xor(W::splat(k2)), x3.xor(W::splat(k3))]
    }

    /// Encrypts one block.
    pub(crate) fn encrypt(&self, block: &mut Block) {
        *block = bytes(self.encrypted(words(block)));
    }

    /// Decrypts one block.
    pub(crate) fn decrypt(&self, block: &mut Block) {
        *block = bytes(self.decrypted(words(block)));
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// The linear transformation.
#[inline(always)]
fn linear<W: Word>([x0, x1, x2, x3]: [W; 4]) -> [W; 4] {
    let (x0, x2) = (x0.turned::<13, 19>(), x2.turned::<3, 29>());
    let x1 = x1.xor(x0).xor(x2).turned::<1, 31>();
    let x3 = x3.xor(x2).xor(x0.up::<3>()).turned::<7, 25>();
    let x0 = x0.xor(x1).xor(x3).turned::<5, 27>();
    let x2 = x2.xor(x3).xor(x1.up::<7>()).turned::<22, 10>();
    [x0, x1, x2, x3]
}

/// The linear transformation, undone.
#[inline(always)]
fn unlinear<W: Word>([x0, x1, x2, x3]: [W; 4]) -> [W; 4] {
    let x2 = x2.turned::<10, 22>().xor(x3).xor(x1.up::<7>());
    let x0 = x0.turned::<27, 5>().xor(x1).xor(x3);
    let x3 = x3.turned::<25, 7>().xor(x2).xor(x0.up::<3>());
    let x1 = x1.turned::<31, 1>().xor(x0).xor(x2);
    [x0.turned::<19, 13>(), x1, x2.turned::<29, 3>(), x3]
}

fn words(block: &Block) -> [u32; 4] {
    core::array::from_fn(|i| {
        u32::from_le_bytes([block[4 * i], block[4 * i + 1], block[4 * i + 2], block[4 * i + 3]])
    })
}

fn bytes(words: [u32; 4]) -> Block {
    core::array::from_fn(|i| words[i / 4].to_le_bytes()[i % 4])
}
