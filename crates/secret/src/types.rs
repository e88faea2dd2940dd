//! What a secret is for.

use core::fmt;

use crate::{Random, RandomError, SecretBytes};

/// The key that encrypts a volume's data. Every keyslot holds a wrapped copy of it.
pub struct VolumeKey(SecretBytes);

impl VolumeKey {
    /// Longest key of any supported cipher, in bytes (64 sub-keys of 32 bytes and an IV seed, as dm-crypt takes them).
    pub const MAX_LEN: usize = 2048 + 64;

    /// A fresh key of `len` bytes.
    ///
    /// # Errors
    /// [`RandomError`] if `random` fails. No key is made then.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OsRandom;

    struct Broken;

    impl Random for Broken {
        fn fill(&mut self, _: &mut [u8]) -> Result<(), RandomError> {
            Err(RandomError)
        }
    }

    #[test]
    fn every_generated_key_is_another_one_and_none_comes_of_a_broken_source() {
        let generate = |len| VolumeKey::generate(len, &mut OsRandom).expect("random bytes");
        let (a, b) = (generate(64), generate(64));
        assert!(a != b && !a.is_zeros() && !b.is_zeros());
        // All of it is drawn.
        assert!(a.expose().chunks(8).zip(b.expose().chunks(8)).all(|(a, b)| a != b));
        assert_eq!((a.len(), generate(0).len(), generate(0).is_empty()), (64, 0, true));
        assert_eq!(VolumeKey::generate(64, &mut Broken), Err(RandomError));
    }

    #[test]
    fn a_key_is_told_from_every_other_by_each_of_its_bytes() {
        let key = VolumeKey::copy_from(&[0; 32]);
        assert!(key.is_zeros() && !key.is_empty());
        for at in 0..32 {
            let mut bytes = [0; 32];
            bytes[at] = 0x80;
            let other = VolumeKey::new(SecretBytes::copy_from(&bytes));
            assert!(!other.is_zeros() && other != key, "byte {at}");
            assert_eq!(other.expose(), bytes);
        }
        assert!(!VolumeKey::copy_from(&[0x80; 32]).is_zeros(), "equal bytes do not cancel out");
        assert_eq!(key, VolumeKey::copy_from(&[0; 32]));
        assert_ne!(key, VolumeKey::copy_from(&[0; 31]));
        let passphrase = Passphrase::copy_from(b"one");
        assert_eq!(passphrase.expose(), b"one");
        assert_eq!(passphrase, Passphrase::new(SecretBytes::copy_from(b"one")));
        assert_ne!(passphrase, Passphrase::copy_from(b"two"));
    }
}
