//! BitLocker's derivations: what makes a key of a password or a recovery password (libbde, "BitLocker Drive Encryption format").
//!
//! The cost is fixed: 2^20 hashes of 88 bytes, about a third of a second.

use atrest_secret::{SecretArray, wipe, with_wiped_stack};
use sha2::block_api::compress256;
use sha2::{Digest, Sha256};

use crate::{Hash, KdfError, Progress, digest, limit};

/// Hashes in a derivation.
pub const ROUNDS: u64 = 1 << 20;

/// Initial state of SHA-256 (FIPS 180-4, 5.3.3).
const INITIAL: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// What is hashed, in two blocks of SHA-256: the last hash (32 bytes), the first one (32), the salt (16), the number of the round
/// (u64, little endian), and the padding of 88 bytes.
struct Rounds {
    blocks: [[u8; 64]; 2],
    done: u64,
}

impl Rounds {
    fn new(initial: &[u8; 32], salt: &[u8; 16]) -> Self {
        let mut blocks = [[0; 64]; 2];
        blocks[0][32..].copy_from_slice(initial);
        blocks[1][..16].copy_from_slice(salt);
        blocks[1][24] = 0x80;
        blocks[1][56..].copy_from_slice(&(88_u64 * 8).to_be_bytes());
        Self { blocks, done: 0 }
    }

    fn step(&mut self, rounds: u32) -> Progress {
        for _ in 0..u64::from(rounds).min(ROUNDS - self.done) {
            self.blocks[1][16..24].copy_from_slice(&self.done.to_le_bytes());
            let mut state = INITIAL;
            compress256(&mut state, &self.blocks);
            for (bytes, word) in self.blocks[0].chunks_exact_mut(4).zip(state) {
                bytes.copy_from_slice(&word.to_be_bytes());
            }
            self.done += 1;
        }
        match ROUNDS - self.done {
            0 => Progress::Done,
            left => Progress::Unfinished { left },
        }
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        self.blocks.iter_mut().for_each(|block| wipe(block));
    }
}

/// Derives a key of 32 bytes from a hash ([`of_password`], [`of_recovery`]) and the salt of a protector.
///
/// # Errors
/// [`KdfError::TooMuchWork`] or [`KdfError::Cancelled`] by the [`WorkLimit`](crate::WorkLimit) of the caller.
pub fn stretch(initial: &[u8; 32], salt: &[u8; 16]) -> Result<SecretArray<32>, KdfError> {
    with_wiped_stack(|| {
        let mut rounds = Rounds::new(initial, salt);
        limit::in_steps(|count| rounds.step(count))?;
        let mut key = SecretArray::zeroed();
        key.copy_from_slice(&rounds.blocks[0][..32]);
        Ok(key)
    })
}

/// What a password is stretched from: SHA-256, twice, of its UTF-16LE. `None` for bytes that are no UTF-8.
pub fn of_password(password: &[u8]) -> Option<SecretArray<32>> {
    // Which characters a password has, its decoding tells; nobody can measure it from afar.
    let text = core::str::from_utf8(password).ok()?;
    with_wiped_stack(|| {
        let mut hash = Sha256::new();
        for unit in text.encode_utf16() {
            hash.update(unit.to_le_bytes());
        }
        let mut once = SecretArray::<32>::zeroed();
        once.copy_from_slice(&hash.finalize());
        Some(hashed(&*once))
    })
}

/// What a recovery password is stretched from: SHA-256 of its key.
pub fn of_recovery(key: &[u8; 16]) -> SecretArray<32> {
    hashed(key)
}

fn hashed(bytes: &[u8]) -> SecretArray<32> {
    let mut out = SecretArray::zeroed();
    digest(Hash::Sha256, &[bytes], &mut *out);
    out
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::WorkLimit;

    /// The description, word for word, with the hash of a library over the whole structure.
    fn reference(initial: &[u8; 32], salt: &[u8; 16], rounds: u64) -> [u8; 32] {
        let mut last = [0; 32];
        for count in 0..rounds {
            let mut hash = Sha256::new();
            for part in [&last[..], initial, salt, &count.to_le_bytes()] {
                hash.update(part);
            }
            last = hash.finalize().into();
        }
        last
    }

    #[test]
    fn rounds_hash_the_structure_of_88_bytes_however_they_are_divided() {
        let (initial, salt) = ([7; 32], [9; 16]);
        let mut rounds = Rounds::new(&initial, &salt);
        assert_eq!(rounds.step(3), Progress::Unfinished { left: ROUNDS - 3 });
        rounds.step(1000);
        assert_eq!(rounds.blocks[0][..32], reference(&initial, &salt, 1003));
        rounds.done = ROUNDS - 1;
        assert_eq!(rounds.step(5), Progress::Done);
    }

    #[test]
    fn a_password_is_its_utf_16_hashed_twice() {
        let twice = |bytes: &[u8]| Sha256::digest(Sha256::digest(bytes));
        assert_eq!(of_password(b"ab").expect("UTF-8")[..], twice(b"a\0b\0")[..]);
        let wide = "\u{e4}\u{1f511}";
        assert_eq!(of_password(wide.as_bytes()).expect("UTF-8")[..], twice(b"\xe4\0\x3d\xd8\x11\xdd")[..]);
        assert!(of_password(b"\xff").is_none());
        assert_eq!(of_recovery(&[3; 16])[..], Sha256::digest([3; 16])[..]);
    }

    #[test]
    fn a_limit_of_work_ends_it() {
        let limit = WorkLimit { time: Duration::ZERO, ..WorkLimit::default() };
        let slow = limit.during(|| {
            (0..100).map(|_| stretch(&[0; 32], &[0; 16]).map(|_| ())).find(Result::is_err).expect("too much")
        });
        assert!(matches!(slow, Err(KdfError::TooMuchWork { .. })), "{slow:?}");
    }
}
