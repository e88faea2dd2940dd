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
#[allow(dead_code, reason = "only hardware's backends want it whole")]
pub(crate) struct Schedule(pub(crate) [Block; 15]);

impl Schedule {
    #[allow(dead_code, reason = "only hardware's backends want it whole")]
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
#[allow(dead_code, reason = "only hardware's backends want it whole")]
pub(crate) fn expand(key: &[u8], rounds: Rounds, schedule: &mut Schedule, sub_word: impl Fn(u32) -> u32) {
    for_round_keys(key, rounds, sub_word, |round, key| {
        if let Some(to) = schedule.0.get_mut(round) {
            *to = *key;
        }
    });
}

/// The round keys one after the other, with their numbers: needs little memory beside what keeps them.
#[inline(always)]
pub(crate) fn for_round_keys(
    key: &[u8],
    rounds: Rounds,
    sub_word: impl Fn(u32) -> u32,
    mut each: impl FnMut(usize, &Block),
) {
    let rounds = rounds.count();
    let key_words = rounds - 6;
    // The latest words, as many as the key has.
    let mut words = Zeroizing::new([0u32; 8]);
    let key = key.as_chunks().0;
    let mut round_key = Zeroizing::new([0; 16]);
    let mut round_constant = 1u32;
    let mut word = 0u32;
    let mut at = 0;
    for i in 0..4 * (rounds + 1) {
        if let (true, Some(bytes)) = (i < key_words, key.get(i)) {
            words[at % 8] = u32::from_le_bytes(*bytes);
        } else {
            if at == 0 {
                word = sub_word(word.rotate_right(8)) ^ round_constant;
                round_constant = (round_constant << 1) ^ (0x11b * (round_constant >> 7));
            } else if key_words == 8 && at == 4 {
                word = sub_word(word);
            }
            words[at % 8] ^= word;
        }
        word = words[at % 8];
        round_key.as_chunks_mut().0[i % 4] = word.to_le_bytes();
        if i % 4 == 3 {
            each(i / 4, &round_key);
        }
        at = if at + 1 == key_words { 0 } else { at + 1 };
    }
}
