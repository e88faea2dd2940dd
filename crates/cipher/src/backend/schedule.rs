//! The AES key schedule (FIPS 197, 5.2), for every backend to lay out as it likes.

use zeroize::{Zeroize, Zeroizing};

use crate::block::Block;

/// Number of rounds of a key.
#[derive(Clone, Copy)]
pub(crate) enum Rounds {
    Ten,
    Twelve,
    Fourteen,
}

impl Rounds {
    /// For a key of that many bytes.
    pub(crate) fn for_key(bytes: usize) -> Option<Self> {
        match bytes {
            16 => Some(Self::Ten),
            24 => Some(Self::Twelve),
            32 => Some(Self::Fourteen),
            _ => None,
        }
    }

    pub(crate) fn count(self) -> usize {
        match self {
            Self::Ten => 10,
            Self::Twelve => 12,
            Self::Fourteen => 14,
        }
    }
}

/// Round keys as bytes, as many as there are rounds and one more. Wiped on drop.
#[repr(C, align(16))]
pub(crate) struct Schedule(pub(crate) [Block; 15]);

impl Schedule {
    pub(crate) const fn zeroed() -> Self {
        Self([[0; 16]; 15])
    }
}

impl Drop for Schedule {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Expands a key of the length that `rounds` says. `sub_word` is the S-box on each byte of a word, in constant time.
#[inline(always)]
pub(crate) fn expand(key: &[u8], rounds: Rounds, schedule: &mut Schedule, sub_word: impl Fn(u32) -> u32) {
    let rounds = rounds.count();
    let key_words = rounds - 6;
    let mut words = Zeroizing::new([0u32; 60]);
    for (word, bytes) in words.iter_mut().zip(key.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let mut round_constant = 1u32;
    for i in key_words..4 * (rounds + 1) {
        let mut word = words[i - 1];
        if i % key_words == 0 {
            word = sub_word(word.rotate_right(8)) ^ round_constant;
            round_constant = (round_constant << 1) ^ (0x11b * (round_constant >> 7));
        } else if key_words == 8 && i % 8 == 4 {
            word = sub_word(word);
        }
        words[i] = words[i - key_words] ^ word;
    }
    for (key, words) in schedule.0.iter_mut().zip(words.as_chunks::<4>().0).take(rounds + 1) {
        for (bytes, word) in key.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
    }
}
