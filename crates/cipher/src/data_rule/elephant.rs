//! BitLocker's diffuser: a sector key, and additions that spread a change over the sector (N. Ferguson, "AES-CBC +
//! Elephant diffuser", Microsoft, 2006, section 4).

use zeroize::Zeroize;

use super::{UNITS_AT_A_TIME, byte_offset};
use crate::block::{Block, BlockCipher, xor};
use crate::run::Position;

/// The cipher that makes sector keys, under a key of its own.
pub(crate) struct Elephant<C>(C);

/// A word as it lies on the media, little-endian.
type Word = [u8; 4];

/// Diffuser A adds to a word what the words 2 and 5 before it say, the latter rotated by its position mod 4.
const A: Diffuser = Diffuser { cycles: 5, forward: false, rotations: [9, 0, 13, 0] };

/// Diffuser B does so with the words 2 and 5 after it.
const B: Diffuser = Diffuser { cycles: 3, forward: true, rotations: [0, 10, 0, 25] };

impl<C: BlockCipher> Elephant<C> {
    /// With the cipher keyed with the second half of the key.
    pub(crate) fn new(cipher: C) -> Self {
        Self(cipher)
    }

    /// What comes before encryption. At most [`UNITS_AT_A_TIME`] units.
    pub(crate) fn encrypt(&self, position: Position, units: &mut [Block]) {
        self.for_units(position, units, |key, unit| {
            add_key(key, unit);
            let words = unit.as_flattened_mut().as_chunks_mut().0;
            A.undo(words);
            B.undo(words);
        });
    }

    /// What comes after decryption. At most [`UNITS_AT_A_TIME`] units.
    pub(crate) fn decrypt(&self, position: Position, units: &mut [Block]) {
        self.for_units(position, units, |key, unit| {
            let words = unit.as_flattened_mut().as_chunks_mut().0;
            B.apply(words);
            A.apply(words);
            add_key(key, unit);
        });
    }

    /// Calls `each` with every unit and its sector key, which is the encrypted byte offset, then the same with the
    /// last byte set to 128.
    fn for_units(&self, position: Position, units: &mut [Block], each: impl Fn(&[Block; 2], &mut [Block])) {
        let mut keys = [[[0; 16]; 2]; UNITS_AT_A_TIME];
        for (i, key) in keys.iter_mut().enumerate() {
            *key = [byte_offset(position.after(i)); 2];
            key[1][15] = 0x80;
        }
        self.0.encrypt(keys.as_flattened_mut());
        for (unit, key) in units.chunks_mut(position.unit_blocks).zip(&keys) {
            each(key, unit);
        }
        keys.as_flattened_mut().as_flattened_mut().zeroize();
    }
}

fn add_key(key: &[Block; 2], unit: &mut [Block]) {
    for (i, block) in unit.iter_mut().enumerate() {
        *block = xor(block, &key[i % 2]);
    }
}

struct Diffuser {
    cycles: usize,
    forward: bool,
    rotations: [u32; 4],
}

impl Diffuser {
    /// As in decryption, which the paper calls the diffuser's own direction.
    fn apply(&self, words: &mut [Word]) {
        for _ in 0..self.cycles {
            for i in 0..words.len() {
                words[i] = u32::from_le_bytes(words[i]).wrapping_add(self.term(words, i)).to_le_bytes();
            }
        }
    }

    fn undo(&self, words: &mut [Word]) {
        for _ in 0..self.cycles {
            for i in (0..words.len()).rev() {
                words[i] = u32::from_le_bytes(words[i]).wrapping_sub(self.term(words, i)).to_le_bytes();
            }
        }
    }

    /// What is added to word `i`.
    #[inline(always)]
    fn term(&self, words: &[Word], i: usize) -> u32 {
        let at = |distance: usize| {
            let n = words.len();
            let index = if self.forward { i + distance } else { i + n - distance };
            u32::from_le_bytes(words[if index < n { index } else { index - n }])
        };
        at(2) ^ at(5).rotate_left(self.rotations[i % 4])
    }
}
