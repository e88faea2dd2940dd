//! Hashes of blocks, with their salt.

use atrest_format::verity::HashType;
use atrest_kdf::{Hash, digest};

/// A hash of a block, or the root hash. It is no secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest {
    bytes: [u8; Hash::MAX_OUTPUT_LEN],
    len: usize,
}

impl Digest {
    /// A hash that somebody has said; `None` if no hash is as long.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut all = [0; Hash::MAX_OUTPUT_LEN];
        all.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self { bytes: all, len: bytes.len() })
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Hashes blocks as one tree wants it.
#[derive(Clone, Debug)]
pub struct Hasher {
    hash: Hash,
    hash_type: HashType,
    salt: Vec<u8>,
}

impl Hasher {
    pub fn new(hash: Hash, hash_type: HashType, salt: &[u8]) -> Self {
        Self { hash, hash_type, salt: salt.into() }
    }

    /// Bytes in a digest.
    pub fn len(&self) -> usize {
        self.hash.output_len()
    }

    pub fn digest(&self, block: &[u8]) -> Digest {
        let parts = match self.hash_type {
            HashType::ChromeOs => [block, &self.salt],
            HashType::Normal => [&self.salt, block],
        };
        let mut bytes = [0; Hash::MAX_OUTPUT_LEN];
        let len = digest(self.hash, &parts, &mut bytes);
        Digest { bytes, len }
    }
}
