//! The anti-forensic splitter of LUKS (C. Fruhwirth, "TKS1", section 2.4; LUKS On-Disk Format 1.2.3, section 2.4).
//!
//! A key is spread over `stripes` stripes of its own length so that it is lost when any part of them is. It works
//! where overwriting reaches the media; flash with wear levelling keeps old copies, and the splitter gives nothing there.

use core::fmt;
use core::marker::PhantomData;

use atrest_kdf::fixed::{self, FixedHash};
use atrest_kdf::{Hash, digest};
use atrest_secret::{Random, RandomError, wipe, with_wiped_stack};

/// Why a key could not be split or merged.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfError {
    /// There must be at least one stripe, and the key must not be empty.
    NothingToSplit,
    /// The buffer for the stripes is too short.
    BufferLen {
        /// Bytes it has.
        has: usize,
        /// Bytes it must have.
        needs: usize,
    },
    /// Not all stripes have come.
    StripesMissing {
        /// Those that have not.
        left: u32,
    },
    /// Key length times stripes does not fit the machine's addresses.
    TooLarge,
    /// The random source failed.
    Random(RandomError),
}

/// Spreads `key` over the first `key.len() * stripes` bytes of `out`. The rest of `out` is left as it is.
///
/// # Errors
/// [`AfError::NothingToSplit`] for an empty key or 0 stripes, [`AfError::BufferLen`] if `out` is shorter than
/// [`split_len`] says, [`AfError::TooLarge`] if that length does not fit a `usize`. [`AfError::Random`] if
/// `random` fails: the key is in no part of `out` then.
pub fn split(
    hash: Hash,
    key: &[u8],
    stripes: u32,
    random: &mut dyn Random,
    out: &mut [u8],
) -> Result<(), AfError> {
    let needs = split_len(key.len(), stripes)?;
    let has = out.len();
    let out = out.get_mut(..needs).ok_or(AfError::BufferLen { has, needs })?;
    // The last stripe serves as the accumulator: all others are random, and it makes up the difference.
    // cannot be less: split_len has multiplied the key's length.
    let (others, last) = out.split_at_mut(needs.saturating_sub(key.len()));
    last.fill(0);
    with_wiped_stack(|| {
        for stripe in others.chunks_exact_mut(key.len()) {
            if let Err(error) = random.fill(stripe) {
                wipe(last);
                return Err(AfError::Random(error));
            }
            xor(last, stripe);
            diffuse(&hash, last);
        }
        xor(last, key);
        Ok(())
    })
}

/// Merges the first `key.len() * stripes` bytes of `split` into `key`. Whether the key is right, only its digest tells.
///
/// # Errors
/// [`AfError::NothingToSplit`] for an empty key or 0 stripes, [`AfError::BufferLen`] if `split` is shorter
/// than [`split_len`] says, [`AfError::TooLarge`] if that length does not fit a `usize`.
pub fn merge(hash: Hash, split: &[u8], stripes: u32, key: &mut [u8]) -> Result<(), AfError> {
    let needs = split_len(key.len(), stripes)?;
    let split = split.get(..needs).ok_or(AfError::BufferLen { has: split.len(), needs })?;
    with_wiped_stack(|| {
        let mut merge = Merge::new(hash, stripes, key)?;
        merge.push(split);
        merge.finish()
    })
}

/// Merges stripes as they come, in pieces of any length: keeps nothing of them but the key that they become.
///
/// One that is dropped before the last stripe leaves zeros.
pub(crate) struct Merge<'k, H> {
    hash: H,
    key: &'k mut [u8],
    /// Bytes that have come of the present stripe.
    at: usize,
    /// Stripes that have not come whole.
    left: u32,
}

impl<'k, H: AfHash> Merge<'k, H> {
    pub(crate) fn new(hash: H, stripes: u32, key: &'k mut [u8]) -> Result<Self, AfError> {
        split_len(key.len(), stripes)?;
        key.fill(0);
        Ok(Self { hash, key, at: 0, left: stripes })
    }

    /// Takes the next bytes. What lies behind the last stripe, in the last sector of an area, is let go.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let mut bytes = bytes;
        while self.left > 0 && !bytes.is_empty() {
            // cannot be out of range: a stripe that is whole sets `at` back to 0.
            let place = self.key.get_mut(self.at..).unwrap_or_default();
            let (now, later) = bytes.split_at(place.len().min(bytes.len()));
            xor(place, now);
            bytes = later;
            // cannot overflow: `now` is no longer than the rest of the key.
            self.at = self.at.saturating_add(now.len());
            if self.at == self.key.len() {
                self.at = 0;
                // cannot be less: the loop ends at 0.
                self.left = self.left.saturating_sub(1);
                // The last stripe makes up the difference to the key itself.
                if self.left > 0 {
                    diffuse(&self.hash, self.key);
                }
            }
        }
    }

    /// The key is there, if all stripes have come.
    pub(crate) fn finish(self) -> Result<(), AfError> {
        if self.left == 0 { Ok(()) } else { Err(AfError::StripesMissing { left: self.left }) }
    }
}

impl<H> Drop for Merge<'_, H> {
    fn drop(&mut self) {
        if self.left > 0 {
            wipe(self.key);
        }
    }
}

/// Bytes that a key of `key_len` bytes takes in `stripes` stripes.
///
/// # Errors
/// [`AfError::NothingToSplit`] if either is 0, [`AfError::TooLarge`] if the product does not fit a `usize`.
pub fn split_len(key_len: usize, stripes: u32) -> Result<usize, AfError> {
    if key_len == 0 || stripes == 0 {
        return Err(AfError::NothingToSplit);
    }
    usize::try_from(stripes).ok().and_then(|n| n.checked_mul(key_len)).ok_or(AfError::TooLarge)
}

/// The hash of a splitter: any, chosen at run time, or one that is named by type, so that a program contains no other.
pub(crate) trait AfHash {
    /// Bytes of output.
    fn output_len(&self) -> usize;

    /// Hashes the concatenation of `parts`.
    fn digest(&self, parts: &[&[u8]], out: &mut [u8]);
}

impl AfHash for Hash {
    fn output_len(&self) -> usize {
        Hash::output_len(*self)
    }

    fn digest(&self, parts: &[&[u8]], out: &mut [u8]) {
        digest(*self, parts, out);
    }
}

/// Stands for the hash of that type.
pub(crate) struct Fixed<H>(pub(crate) PhantomData<H>);

impl<H: FixedHash> AfHash for Fixed<H> {
    fn output_len(&self) -> usize {
        H::HASH.output_len()
    }

    fn digest(&self, parts: &[&[u8]], out: &mut [u8]) {
        fixed::digest::<H>(parts, out);
    }
}

/// Replaces each digest-sized block by the hash of its number (big-endian, 32 bits) and itself; the last, shorter
/// block by as much of the digest as it can hold.
fn diffuse(hash: &impl AfHash, block: &mut [u8]) {
    let mut hashed = [0; Hash::MAX_OUTPUT_LEN];
    for (piece, number) in block.chunks_mut(hash.output_len()).zip(0u32..) {
        hash.digest(&[&number.to_be_bytes(), piece], &mut hashed);
        for (to, from) in piece.iter_mut().zip(hashed) {
            *to = from;
        }
    }
    wipe(&mut hashed);
}

fn xor(to: &mut [u8], with: &[u8]) {
    for (to, with) in to.iter_mut().zip(with) {
        *to ^= with;
    }
}

impl fmt::Display for AfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AfError::NothingToSplit => f.write_str("a key to split needs at least one byte and one stripe"),
            AfError::BufferLen { has, needs } => {
                write!(f, "the anti-forensic stripes take {needs} bytes, but there are {has}")
            }
            AfError::StripesMissing { left } => write!(f, "{left} anti-forensic stripes are missing"),
            AfError::TooLarge => f.write_str("the anti-forensic stripes are too long for this machine"),
            AfError::Random(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for AfError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_that_end_early_leave_zeros_where_the_key_would_be() {
        let mut key = [0xA5; 32];
        // A stripe and a part of the next one.
        let begun = |key: &mut [u8; 32]| {
            let mut merge = Merge::new(Hash::Sha256, 4, key).expect("a buffer");
            merge.push(&[7; 40]);
            assert_ne!(merge.key, [0; 32], "something has come");
            merge.finish()
        };
        assert!(matches!(begun(&mut key), Err(AfError::StripesMissing { left: 3 })));
        assert_eq!(key, [0; 32]);
    }
}
