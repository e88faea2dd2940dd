//! Plain mode's own derivation: one unsalted hash run over the passphrase, stretched to the key by prefixes of `A`.
//!
//! It follows cryptsetup's documentation of plain mode (cryptsetup(8), "NOTES ON PASSPHRASE PROCESSING FOR PLAIN
//! MODE"): round n hashes n letters `A` followed by the passphrase, and the digests are strung together until the key
//! is full. There is no salt and no cost; plain mode stands and falls with the passphrase.

use core::fmt;
use core::str::FromStr;

use crate::{Hash, HashError, digest};

/// How plain mode makes a key out of a passphrase: `ripemd160`, `sha256:16`, `plain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainHash {
    hash: Option<Hash>,
    len: Option<usize>,
}

/// Why a passphrase can't be turned into a plain-mode key.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainHashError {
    /// The hash is not known.
    UnknownHash,
    /// The hash is one that this build was made without.
    NotBuilt(HashError),
    /// What follows the colon is not a number of bytes, or is zero.
    BadLength,
    /// The hash length after the colon is longer than the key.
    LongerThanKey {
        /// Bytes after the colon.
        hash: usize,
        /// Bytes in the key.
        key: usize,
    },
    /// `plain:N` needs a passphrase of at least N bytes.
    PassphraseTooShort {
        /// Bytes in the passphrase.
        len: usize,
        /// Bytes needed.
        needs: usize,
    },
}

impl PlainHash {
    /// No hash at all: the passphrase is the key, cut or padded with zeros.
    pub const NONE: PlainHash = PlainHash { hash: None, len: None };

    /// A hash that fills the whole key.
    pub const fn new(hash: Hash) -> Self {
        Self { hash: Some(hash), len: None }
    }

    /// Fills `key`. With a length after the colon, only that many bytes come from the passphrase and the rest are zero.
    ///
    /// # Errors
    /// [`PlainHashError::LongerThanKey`] if the length after the colon exceeds the key's,
    /// [`PlainHashError::PassphraseTooShort`] if `plain` with a length is given a shorter passphrase. Without
    /// a length, any passphrase gives a key.
    pub fn derive(&self, passphrase: &[u8], key: &mut [u8]) -> Result<(), PlainHashError> {
        let len = self.len.unwrap_or(key.len());
        if len > key.len() {
            return Err(PlainHashError::LongerThanKey { hash: len, key: key.len() });
        }
        key.fill(0);
        let (derived, _) = key.split_at_mut(len);
        match self.hash {
            Some(hash) => atrest_secret::with_wiped_stack(|| stretch(hash, passphrase, derived)),
            None => {
                if self.len.is_some() && passphrase.len() < len {
                    return Err(PlainHashError::PassphraseTooShort { len: passphrase.len(), needs: len });
                }
                for (to, from) in derived.iter_mut().zip(passphrase) {
                    *to = *from;
                }
            }
        }
        Ok(())
    }
}

fn stretch(hash: Hash, passphrase: &[u8], key: &mut [u8]) {
    // Keys are at most a few kilobytes and digests at least 16 bytes, so few rounds are ever needed; the prefix is
    // fed in pieces so that no length of key is out of reach.
    const PREFIX: [u8; 64] = [b'A'; 64];
    for (round, chunk) in key.chunks_mut(hash.output_len()).enumerate() {
        if round <= PREFIX.len() {
            digest(hash, &[&PREFIX[..round], passphrase], chunk);
        } else {
            crate::hash::with_hash!(hash, H => {
                use ::digest::Digest;
                let mut state = <H as crate::fixed::Digests>::Digest::new();
                for _ in 0..round {
                    Digest::update(&mut state, b"A");
                }
                Digest::update(&mut state, passphrase);
                let mut full = state.finalize();
                chunk.copy_from_slice(&full[..chunk.len()]);
                atrest_secret::wipe(&mut full);
            });
        }
    }
}

impl FromStr for PlainHash {
    type Err = PlainHashError;

    fn from_str(text: &str) -> Result<Self, PlainHashError> {
        let (name, len) = match text.split_once(':') {
            None => (text, None),
            Some((name, len)) => match len.parse() {
                Ok(len) if len > 0 => (name, Some(len)),
                _ => return Err(PlainHashError::BadLength),
            },
        };
        let hash = match name {
            "plain" => None,
            name => Some(Hash::named(name).map_err(|error| match error {
                HashError::Unknown => PlainHashError::UnknownHash,
                not_built => PlainHashError::NotBuilt(not_built),
            })?),
        };
        Ok(Self { hash, len })
    }
}

impl fmt::Display for PlainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.hash.map_or("plain", Hash::name))?;
        match self.len {
            Some(len) => write!(f, ":{len}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for PlainHashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlainHashError::UnknownHash => f.write_str("the hash is not known"),
            PlainHashError::NotBuilt(error) => error.fmt(f),
            PlainHashError::BadLength => {
                f.write_str("the hash length after the colon must be a number of bytes above zero")
            }
            PlainHashError::LongerThanKey { hash, key } => {
                write!(f, "the hash length of {hash} bytes exceeds the key of {key} bytes")
            }
            PlainHashError::PassphraseTooShort { len, needs } => {
                write!(f, "the passphrase has {len} bytes, but {needs} are needed when it is not hashed")
            }
        }
    }
}

impl core::error::Error for PlainHashError {}
