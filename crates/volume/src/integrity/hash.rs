//! The hashes that tags and journals are made with, by the kernel's names.

use core::fmt;
use core::str::FromStr;

use atrest_codec::{crc32, crc32c};
use atrest_kdf as kdf;
use atrest_secret::Locked;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use super::xxhash::xxh64;

/// Bytes of the longest digest.
pub const MAX_DIGEST: usize = 64;
/// Longest key, as with `integritysetup`.
const MAX_KEY: usize = 4096;

/// A hash, by `integritysetup`'s name: `crc32c`, `crc32`, `xxhash64`, `sha1`, `sha256`, `sha512`, `blake2b-256`, `blake2s-256`,
/// `hmac-sha1`, `hmac-sha256`, `hmac-sha512`. The kernel's `hmac(sha256)` is understood, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashSpec {
    function: Function,
    keyed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Crc32c,
    Crc32,
    Xxhash64,
    Sha1,
    Sha256,
    Sha512,
    Blake2b256,
    Blake2s256,
}

/// The name is not one of a hash that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashSpecError;

/// Why a key does not go with a hash.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashKeyError {
    /// The hash has a key, and none was given.
    Missing,
    /// The hash has none.
    Unused,
    /// The key has no byte, or more than 4096.
    Length(usize),
}

/// A hash with its key, where it has one.
pub struct Hash {
    spec: HashSpec,
    key: Option<Locked<Keyed>>,
}

enum Keyed {
    Sha1(Hmac<Sha1>),
    Sha256(Hmac<Sha256>),
    Sha512(Hmac<Sha512>),
}

const NAMES: [(&str, Function); 8] = [
    ("crc32c", Function::Crc32c),
    ("crc32", Function::Crc32),
    ("xxhash64", Function::Xxhash64),
    ("sha1", Function::Sha1),
    ("sha256", Function::Sha256),
    ("sha512", Function::Sha512),
    ("blake2b-256", Function::Blake2b256),
    ("blake2s-256", Function::Blake2s256),
];

impl HashSpec {
    /// Bytes of the digest.
    pub fn digest_len(self) -> usize {
        match self.function {
            Function::Crc32c | Function::Crc32 => 4,
            Function::Xxhash64 => 8,
            Function::Sha1 => 20,
            Function::Sha256 | Function::Blake2b256 | Function::Blake2s256 => 32,
            Function::Sha512 => 64,
        }
    }

    /// Whether it has a key.
    pub fn is_keyed(self) -> bool {
        self.keyed
    }

    /// The kernel's name: `sha256`, `hmac(sha256)`.
    pub fn kernel_name(self) -> String {
        let name = self.name();
        if self.keyed { format!("hmac({name})") } else { name.into() }
    }

    fn name(self) -> &'static str {
        // cannot miss: every function has a name.
        NAMES.iter().find(|(_, function)| *function == self.function).map_or("", |(name, _)| name)
    }
}

impl FromStr for HashSpec {
    type Err = HashSpecError;

    fn from_str(name: &str) -> Result<Self, HashSpecError> {
        let inner = name.strip_prefix("hmac(").and_then(|rest| rest.strip_suffix(')'));
        let inner = inner.or_else(|| name.strip_prefix("hmac-"));
        let (word, keyed) = inner.map_or((name, false), |inner| (inner, true));
        let found = NAMES.iter().find(|(known, _)| *known == word);
        let (_, function) = *found.ok_or(HashSpecError)?;
        let has_hmac = matches!(function, Function::Sha1 | Function::Sha256 | Function::Sha512);
        if keyed && !has_hmac {
            return Err(HashSpecError);
        }
        Ok(Self { function, keyed })
    }
}

impl Hash {
    /// Takes the key that goes with the hash.
    ///
    /// # Errors
    /// [`HashKeyError`] if a key is missing or is one too many, or has a length that no program takes.
    pub fn new(spec: HashSpec, key: Option<&[u8]>) -> Result<Self, HashKeyError> {
        let key = match (spec.keyed, key) {
            (false, None) => None,
            (false, Some(_)) => return Err(HashKeyError::Unused),
            (true, None) => return Err(HashKeyError::Missing),
            (true, Some(key)) if key.is_empty() || key.len() > MAX_KEY => {
                return Err(HashKeyError::Length(key.len()));
            }
            (true, Some(key)) => {
                let length = |_| HashKeyError::Length(key.len());
                Some(Locked::new(match spec.function {
                    Function::Sha1 => Keyed::Sha1(Hmac::new_from_slice(key).map_err(length)?),
                    Function::Sha512 => Keyed::Sha512(Hmac::new_from_slice(key).map_err(length)?),
                    _ => Keyed::Sha256(Hmac::new_from_slice(key).map_err(length)?),
                }))
            }
        };
        Ok(Self { spec, key })
    }

    /// The hash's name.
    pub fn spec(&self) -> HashSpec {
        self.spec
    }

    /// Hashes the pieces as one text, and puts the digest into `out`: cut off, or filled up with zeros.
    pub fn digest(&self, pieces: &[&[u8]], out: &mut [u8]) {
        let mut digest = [0; MAX_DIGEST];
        match (self.key.as_deref(), self.spec.function) {
            (Some(Keyed::Sha1(keyed)), _) => put(&mac(keyed, pieces), &mut digest),
            (Some(Keyed::Sha256(keyed)), _) => put(&mac(keyed, pieces), &mut digest),
            (Some(Keyed::Sha512(keyed)), _) => put(&mac(keyed, pieces), &mut digest),
            (None, Function::Sha1) => put(&hash::<Sha1>(pieces), &mut digest),
            (None, Function::Sha256) => put(&hash::<Sha256>(pieces), &mut digest),
            (None, Function::Sha512) => put(&hash::<Sha512>(pieces), &mut digest),
            (None, Function::Blake2b256) => {
                kdf::digest(kdf::Hash::Blake2b256, pieces, &mut digest);
            }
            (None, Function::Blake2s256) => {
                kdf::digest(kdf::Hash::Blake2s256, pieces, &mut digest);
            }
            (None, Function::Xxhash64) => put(&xxh64(pieces).to_le_bytes(), &mut digest),
            (None, Function::Crc32c) => {
                put(&(!pieces.iter().fold(!0, |sum, piece| crc32c(sum, piece))).to_le_bytes(), &mut digest);
            }
            // The kernel's hash of that name begins with 0, and is not inverted.
            (None, Function::Crc32) => {
                put(&pieces.iter().fold(0, |sum, piece| crc32(sum, piece)).to_le_bytes(), &mut digest);
            }
        }
        out.fill(0);
        out.iter_mut().zip(digest).for_each(|(place, byte)| *place = byte);
    }
}

fn put(bytes: &[u8], digest: &mut [u8; MAX_DIGEST]) {
    digest.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
}

fn hash<D: Digest>(pieces: &[&[u8]]) -> sha2::digest::Output<D> {
    let mut state = D::new();
    pieces.iter().for_each(|piece| state.update(piece));
    state.finalize()
}

fn mac<M: Mac + Clone>(keyed: &M, pieces: &[&[u8]]) -> sha2::digest::Output<M> {
    let mut state = keyed.clone();
    pieces.iter().for_each(|piece| state.update(piece));
    state.finalize().into_bytes()
}

impl fmt::Display for HashSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.keyed { "hmac-" } else { "" }, self.name())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({})", self.spec)
    }
}

impl fmt::Display for HashSpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = NAMES.map(|(name, _)| name).join(", ");
        write!(f, "the hash is unknown: there are {names}, hmac-sha1, hmac-sha256, hmac-sha512")
    }
}

impl fmt::Display for HashKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the hash has a key, which is missing"),
            Self::Unused => f.write_str("the hash has no key, and one was given"),
            Self::Length(len) => write!(f, "a key of a hash has 1 to {MAX_KEY} bytes, not {len}"),
        }
    }
}

impl core::error::Error for HashSpecError {}
impl core::error::Error for HashKeyError {}
