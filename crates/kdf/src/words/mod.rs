//! Passphrases of words: 11 bits each, made by a random source, typed in any way that leaves no doubt.
//!
//! The words are the English list of BIP 39 (`english.txt` is its file byte for byte, from that proposal's reference
//! implementation, github.com/trezor/python-mnemonic, MIT licence; SHA-256
//! `2f5eed53a4727b4bf8880d8f3f199efc90e58503646d9ff8eff3a2ed3b24dbda`). Its first four letters tell each word from all
//! others. A passphrase made here is not a wallet's: it has no checksum word.
//!
//! The normal form is what a keyslot is made of: the whole words in lower case with one space between two of them and
//! nothing around them.
//!
//! Which word was drawn or typed decides neither a branch nor an address: the whole list is gone through each time. The
//! lengths of what was typed and of what comes of it do show.

use core::fmt;

use atrest_secret::{Random, RandomError, wipe};

/// How many words the list has.
pub const LIST_LEN: usize = 2048;
/// Bits of entropy in a word that was drawn by [`generate`].
pub const BITS_PER_WORD: usize = 11;
/// Letters of the longest word.
pub const MAX_LETTERS: usize = 8;
/// Letters that tell a word from all others.
pub const TELLING_LETTERS: usize = 4;

/// A word, filled up with zeros.
type Letters = [u8; MAX_LETTERS];

static LIST: [Letters; LIST_LEN] = list(include_bytes!("english.txt"));

const fn list(text: &[u8]) -> [Letters; LIST_LEN] {
    let mut list = [[0; MAX_LETTERS]; LIST_LEN];
    let (mut at, mut word) = (0, 0);
    while word < LIST_LEN {
        let mut letter = 0;
        while text[at] != b'\n' {
            list[word][letter] = text[at];
            (at, letter) = (at + 1, letter + 1);
        }
        (at, word) = (at + 1, word + 1);
    }
    assert!(at == text.len(), "the list has 2048 words");
    list
}

/// Why typed words have no normal form.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum WordsError {
    /// There is no word at all.
    NoWords,
    /// A word is not in the list, and does not begin with the first four letters of one that goes on like it.
    Unknown {
        /// Which one, counted from 1.
        position: usize,
        /// Words of the list that are spelled alike, nearest first. They say much about a secret: show them to nobody
        /// but the person who typed.
        near: [Option<&'static str>; 3],
    },
    /// The buffer is too small.
    NoRoom,
}

/// Without the words that are alike, which belong in no log.
impl fmt::Debug for WordsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WordsError::NoWords => f.write_str("NoWords"),
            WordsError::Unknown { position, .. } => write!(f, "Unknown {{ position: {position}, .. }}"),
            WordsError::NoRoom => f.write_str("NoRoom"),
        }
    }
}

impl fmt::Display for WordsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WordsError::NoWords => f.write_str("there are no words"),
            WordsError::Unknown { position, .. } => write!(f, "word {position} is not in the list of words"),
            WordsError::NoRoom => f.write_str("the words do not fit the room for them"),
        }
    }
}

impl core::error::Error for WordsError {}

/// Most bytes that `count` words take in the normal form.
pub const fn max_len(count: usize) -> usize {
    count * (MAX_LETTERS + 1)
}

/// Draws `count` words and writes them in the normal form to the start of `out`, which has room for
/// [`max_len`]`(count)` bytes. Returns how many bytes they are.
///
/// # Errors
/// [`RandomError`] if `random` fails. `out` is wiped then.
///
/// # Panics
///
/// If `out` is shorter than that.
pub fn generate(random: &mut dyn Random, count: usize, out: &mut [u8]) -> Result<usize, RandomError> {
    assert!(out.len() >= max_len(count), "no room for {count} words");
    let mut len = 0;
    for _ in 0..count {
        let mut drawn = [0u8; 2];
        if let Err(error) = random.fill(&mut drawn) {
            wipe(out);
            return Err(error);
        }
        // 2048 divides 65536, so each word is as likely as any other.
        let number = u16::from_le_bytes(drawn) % LIST_LEN as u16;
        let mut word = [0; MAX_LETTERS];
        for (index, letters) in LIST.iter().enumerate() {
            add_if(equal(number, index as u16), letters, &mut word);
        }
        len += append(&word, out, len);
        wipe(&mut word);
        wipe(&mut drawn);
    }
    Ok(len)
}

/// Writes the normal form of what was typed to the start of `out`, and returns how many bytes it has and of how many
/// words. On failure `out` is wiped.
///
/// Words are told apart by white space of any kind and length. Upper and lower case are the same. A word may be cut after
/// its fourth letter or any later one. [`max_len`]`(typed.len() / 4 + 1)` bytes are always enough room.
///
/// # Errors
/// [`WordsError::NoWords`] if there is nothing but white space, [`WordsError::Unknown`] for the first word
/// that is not in the list, and [`WordsError::NoRoom`] if `out` is too small.
pub fn normalise(typed: &[u8], out: &mut [u8]) -> Result<(usize, usize), WordsError> {
    let mut len = 0;
    let mut count = 0;
    for token in typed.split(|byte| byte.is_ascii_whitespace()).filter(|token| !token.is_empty()) {
        count += 1;
        let mut word = whole(token);
        let result = if word[0] == 0 {
            Err(WordsError::Unknown { position: count, near: near(token) })
        } else if len + 1 + MAX_LETTERS > out.len() {
            Err(WordsError::NoRoom)
        } else {
            Ok(append(&word, out, len))
        };
        wipe(&mut word);
        match result {
            Ok(more) => len += more,
            Err(error) => {
                wipe(out);
                return Err(error);
            }
        }
    }
    if count == 0 {
        wipe(out);
        return Err(WordsError::NoWords);
    }
    Ok((len, count))
}

/// The word of the list that `token` is or abbreviates; zeros if there is none.
fn whole(token: &[u8]) -> Letters {
    let mut word = [0; MAX_LETTERS];
    if token.len() > MAX_LETTERS {
        return word;
    }
    let mut typed = [0; MAX_LETTERS];
    for (typed, byte) in typed.iter_mut().zip(token) {
        *typed = byte.to_ascii_lowercase();
    }
    for letters in &LIST {
        // Alike in all letters that were typed, and at the end of the word unless four were.
        let mut differs = 0;
        for (i, (typed, letter)) in typed.iter().zip(letters).enumerate() {
            let counts = i < token.len() || token.len() < TELLING_LETTERS;
            differs |= if counts { typed ^ letter } else { 0 };
        }
        add_if(equal(differs.into(), 0), letters, &mut word);
    }
    wipe(&mut typed);
    word
}

/// All ones if the numbers are equal, zero if not.
fn equal(a: u16, b: u16) -> u8 {
    let differs = u32::from(a ^ b);
    // The subtraction wraps for 0 alone.
    core::hint::black_box((differs.wrapping_sub(1) >> 24) as u8)
}

fn add_if(mask: u8, letters: &Letters, word: &mut Letters) {
    for (to, letter) in word.iter_mut().zip(letters) {
        *to |= letter & mask;
    }
}

/// Writes the word behind the first `len` bytes of `out`, after a space if there are any, and returns how many bytes that
/// makes more.
fn append(word: &Letters, out: &mut [u8], len: usize) -> usize {
    let space = usize::from(len > 0);
    let letters = word.iter().filter(|letter| **letter != 0).count();
    if space == 1 {
        out[len] = b' ';
    }
    out[len + space..len + space + letters].copy_from_slice(&word[..letters]);
    space + letters
}

/// The words that are spelled most like `token`: at most two letters inserted, left out, changed or swapped with their
/// neighbour. This is for a word that is none, so it need not hide what it is.
fn near(token: &[u8]) -> [Option<&'static str>; 3] {
    let mut near = [None; 3];
    let mut found = 0;
    if token.len() > MAX_LETTERS + 2 {
        return near;
    }
    for wanted in 1..=2 {
        for letters in &LIST {
            let len = letters.iter().filter(|letter| **letter != 0).count();
            if found < near.len() && distance(token, &letters[..len]) == wanted {
                near[found] = core::str::from_utf8(&letters[..len]).ok();
                found += 1;
            }
        }
    }
    near
}

/// The restricted Damerau-Levenshtein distance, in three rows. Both are short.
fn distance(a: &[u8], b: &[u8]) -> u8 {
    const WIDTH: usize = MAX_LETTERS + 1;
    let mut rows = [[0u8; WIDTH]; 3];
    for (j, cell) in rows[1].iter_mut().enumerate() {
        *cell = j as u8;
    }
    for (i, letter) in a.iter().enumerate() {
        let letter = letter.to_ascii_lowercase();
        let [older, above, row] = &mut rows;
        row[0] = i as u8 + 1;
        for (j, other) in b.iter().enumerate() {
            let changed = above[j] + u8::from(letter != *other);
            let mut best = changed.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && letter == b[j - 1] && a[i - 1].to_ascii_lowercase() == *other {
                best = best.min(older[j - 1] + 1);
            }
            row[j + 1] = best;
        }
        rows.rotate_left(1);
    }
    let result = rows[1][b.len()];
    wipe(rows.as_flattened_mut());
    result
}
