//! Master keys, and the keys that are derived from them (kernel, `fs/crypto/keysetup.c` and `keysetup_v1.c`).

use core::hash::Hasher;

use atrest_cipher::AesBlock;
use atrest_inside::{EncryptedInode, EncryptionFault, KeyName, Kind};
use atrest_secret::SecretBytes;
use sha2::{Digest, Sha512};
use siphasher::sip::SipHasher24;

use super::cipher::IvRule;
use super::hkdf::{Hkdf, Purpose};
use super::policy::{Context, KeyUse, NONCE_LEN};

/// Bytes that a master key has at least and at most.
pub const MASTER_KEY_LEN: core::ops::RangeInclusive<usize> = 16..=64;

/// A master key, in locked memory.
pub(super) struct MasterKey {
    raw: SecretBytes,
    hkdf: Hkdf,
}

impl MasterKey {
    pub(super) fn new(raw: SecretBytes) -> Self {
        let hkdf = Hkdf::extract(&raw);
        Self { raw, hkdf }
    }

    /// What policies of version 2 call it.
    pub(super) fn identifier(&self) -> KeyName {
        let mut identifier = [0; 16];
        self.hkdf.expand(Purpose::Identifier, &[], &mut identifier);
        KeyName::Identifier(identifier)
    }

    /// What the tools call it in policies of version 1, if nothing else was agreed on: the start of SHA-512 of SHA-512.
    pub(super) fn usual_descriptor(&self) -> KeyName {
        let hash = Sha512::digest(Sha512::digest(&*self.raw));
        // cannot fail: SHA-512 has 64 bytes.
        KeyName::Descriptor(hash.first_chunk().copied().unwrap_or_default())
    }

    /// The key for an inode of this context, which is of the mode that the inode's kind has, and the rule of its IVs.
    pub(super) fn inode_key(
        &self,
        context: &Context,
        inode: &EncryptedInode<'_>,
    ) -> Result<(SecretBytes, IvRule), EncryptionFault> {
        let (policy, nonce) = (&context.policy, &context.nonce);
        let needs = policy.least_key_len();
        if self.raw.len() < needs {
            return Err(EncryptionFault::KeyTooShort { len: self.raw.len(), needs });
        }
        let mode = if inode.kind == Kind::File { policy.contents } else { policy.names };
        let number = || u32::try_from(inode.number).map_err(|_| EncryptionFault::Run);
        let mut key = SecretBytes::zeroed(mode.key_len());
        let of_mode = [mode.number()];
        let uuid = &inode.filesystem.uuid[..];
        let rule = match (policy.key, policy.key_use) {
            (KeyName::Descriptor(_), KeyUse::Direct) => {
                let raw = self.raw.get(..key.len()).ok_or(EncryptionFault::Cipher)?;
                key.copy_from_slice(raw);
                IvRule::Nonce(*nonce)
            }
            (KeyName::Descriptor(_), _) => {
                self.under_nonce(nonce, &mut key)?;
                IvRule::Index
            }
            (KeyName::Identifier(_), KeyUse::PerFile) => {
                self.hkdf.expand(Purpose::FileKey, &[nonce], &mut key);
                IvRule::Index
            }
            (KeyName::Identifier(_), KeyUse::Direct) => {
                self.hkdf.expand(Purpose::DirectKey, &[&of_mode], &mut key);
                IvRule::Nonce(*nonce)
            }
            (KeyName::Identifier(_), KeyUse::InodeLblk64) => {
                self.hkdf.expand(Purpose::InodeLblk64Key, &[&of_mode, uuid], &mut key);
                IvRule::Inode(number()?)
            }
            (KeyName::Identifier(_), KeyUse::InodeLblk32) => {
                self.hkdf.expand(Purpose::InodeLblk32Key, &[&of_mode, uuid], &mut key);
                IvRule::HashedInode(self.inode_hash(inode.number))
            }
        };
        Ok((key, rule))
    }

    /// The key of the hash of names in a casefolded directory with this nonce.
    pub(super) fn name_hash_key(&self, nonce: &[u8; NONCE_LEN]) -> SecretBytes {
        let mut key = SecretBytes::zeroed(16);
        self.hkdf.expand(Purpose::NameHashKey, &[nonce], &mut key);
        key
    }

    /// The start of the master key, encrypted with AES-128 under the nonce: version 1's derivation.
    fn under_nonce(&self, nonce: &[u8; NONCE_LEN], key: &mut [u8]) -> Result<(), EncryptionFault> {
        let aes = AesBlock::new(nonce).map_err(|_| EncryptionFault::Cipher)?;
        let raw = self.raw.get(..key.len()).ok_or(EncryptionFault::Cipher)?;
        key.copy_from_slice(raw);
        for block in key.as_chunks_mut().0 {
            aes.encrypt(block);
        }
        Ok(())
    }

    fn inode_hash(&self, inode: u64) -> u32 {
        let mut key = SecretBytes::zeroed(16);
        self.hkdf.expand(Purpose::InodeHashKey, &[], &mut key);
        let hash = siphash(&key, &inode.to_le_bytes());
        // cannot fail: 32 bits are left.
        u32::try_from(hash & 0xffff_ffff).unwrap_or(0)
    }
}

/// SipHash-2-4 under a key of 16 bytes.
pub(super) fn siphash(key: &[u8], bytes: &[u8]) -> u64 {
    // cannot fail: HKDF was asked for as many bytes.
    let key = key.first_chunk().copied().unwrap_or_default();
    let mut hasher = SipHasher24::new_with_key(&key);
    hasher.write(bytes);
    hasher.finish()
}
