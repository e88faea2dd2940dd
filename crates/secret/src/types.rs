//! What a secret is for.

use core::fmt;

use crate::{Random, RandomError, SecretBytes};

/// The key that encrypts a volume's data. Every keyslot holds a wrapped copy of it.
pub struct VolumeKey(SecretBytes);

impl VolumeKey {
    /// Longest key of any supported cipher, in bytes (64 sub-keys of 32 bytes and an IV seed, as dm-crypt takes them).
    pub const MAX_LEN: usize = 2048 + 64;

    /// A fresh key of `len` bytes.
    pub fn generate(len: usize, random: &mut dyn Random) -> Result<Self, RandomError> {
        let mut key = SecretBytes::zeroed(len);
        random.fill(&mut key)?;
        Ok(Self(key))
    }

    /// Takes over key bytes.
    pub fn new(bytes: SecretBytes) -> Self {
        Self(bytes)
    }

    /// Copies key bytes into locked memory. The caller wipes its own copy.
    pub fn copy_from(bytes: &[u8]) -> Self {
        Self(SecretBytes::copy_from(bytes))
    }

    /// The key itself.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether no byte differs from zero, as in a key that nobody has drawn or filled in. Looks at all of them, whatever they are.
    pub fn is_zeros(&self) -> bool {
        self.0.iter().fold(0, |all, byte| all | byte) == 0
    }
}

impl PartialEq for VolumeKey {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for VolumeKey {}

impl fmt::Debug for VolumeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VolumeKey(..)")
    }
}

/// What a person types or a key file holds: any bytes, also none.
pub struct Passphrase(SecretBytes);

impl Passphrase {
    /// Takes over the bytes.
    pub fn new(bytes: SecretBytes) -> Self {
        Self(bytes)
    }

    /// Copies the bytes into locked memory. The caller wipes its own copy.
    pub fn copy_from(bytes: &[u8]) -> Self {
        Self(SecretBytes::copy_from(bytes))
    }

    /// The bytes themselves.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq for Passphrase {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Passphrase {}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(..)")
    }
}
