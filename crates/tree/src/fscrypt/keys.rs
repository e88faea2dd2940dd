//! Master keys, and the keys that are derived from them (kernel, `fs/crypto/keysetup.c` and `keysetup_v1.c`).

use core::hash::Hasher;

use atrest_cipher::AesBlock;
use atrest_filetree::{EncryptedInode, EncryptionFault, KeyName, Kind};
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

#[cfg(test)]
mod tests {
    use atrest_filetree::EncryptedFilesystem;

    use super::super::{EncryptionMode as Mode, Padding, Policy};
    use super::*;

    const NONCE: [u8; NONCE_LEN] = *b"defghijklmnopqrs";

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn master() -> MasterKey {
        let bytes: Vec<u8> = (0..64_u8).map(|i| i.wrapping_mul(11).wrapping_add(5)).collect();
        MasterKey::new(SecretBytes::copy_from(&bytes))
    }

    fn key_of(
        key: KeyName,
        key_use: KeyUse,
        (contents, names): (Mode, Mode),
        kind: Kind,
        number: u64,
    ) -> Result<(String, IvRule), EncryptionFault> {
        let policy = Policy { contents, names, padding: Padding::Four, key_use, log2_data_unit: None, key };
        let uuid = std::array::from_fn(|i| 200 + i as u8);
        let filesystem = EncryptedFilesystem { uuid, block_size: 4096, stable_inodes: true };
        let inode = EncryptedInode { number, kind, casefolded: false, context: &[], filesystem: &filesystem };
        let derived = master().inode_key(&Context { policy, nonce: NONCE }, &inode);
        derived.map(|(key, rule)| (hex(&key), rule))
    }

    /// Computed with Python: `hmac` and `hashlib` (RFC 5869), SipHash-2-4 after its paper, AES of `cryptography` (OpenSSL).
    #[test]
    fn every_use_of_a_master_key_gives_the_key_and_the_ivs_that_it_should() {
        let (v1, v2) = (KeyName::Descriptor([1; 8]), KeyName::Identifier([1; 16]));
        let (xts, adiantum) = ((Mode::Aes256Xts, Mode::Aes256Cts), (Mode::Adiantum, Mode::Adiantum));
        let file = "fa3f3d68502876ba8727417f64d3014abb78f6bd884095b9f7227238a7e7ada1\
                    962c3b869b3513ca8221390791518174a147a111dca79c3b784b13ae8773cfa4";
        let direct = "13c595f89f513d536f27327564e04b1e26ad989a485c1b03fa378c405b6d564e";
        let lblk64 = "34f3c5ba186a45eecfcb3895d8b0015f0e887d93c8ad754c0ee98377c330abcd\
                      1ff00499284c4e4042115dbd2a1b26adcfd59ac9a1d85cc32c81a6fc72f74b8e";
        let lblk64_names = "971e6ba599ca7383636f4ecde650b39c64fc5e4aab8a18db79282d378c196b1b";
        let lblk32 = "a0a0fde03ca53c0a23d824995572ba76c3c54b678bf62bd1522e577bb9362681\
                      c02d82ca5e09d4c0064fb0ee2d582238795e43c3634cfa62ce4d972f3e43d9a4";
        let old = "9f492aa18e0527ffadfdbd01ee3f5cc1fac61313a46e2953437d0b83314bc9ba\
                   b7b5f1de6fec129aaceb3a92c1211181f53d35dd9cefbd758c008268817f9345";
        let raw = hex(&master().raw[..32]);
        let nonce = IvRule::Nonce(NONCE);
        use KeyUse::{Direct, InodeLblk32, InodeLblk64, PerFile};
        for (key, key_use, modes, kind, number, expected, rule) in [
            (v2, PerFile, xts, Kind::File, 12, file, IvRule::Index),
            (v2, PerFile, xts, Kind::Directory, 12, &file[..64], IvRule::Index),
            (v2, PerFile, xts, Kind::Link, 12, &file[..64], IvRule::Index),
            (v2, Direct, adiantum, Kind::File, 12, direct, nonce),
            (v2, Direct, adiantum, Kind::Directory, 12, direct, nonce),
            (v2, InodeLblk64, xts, Kind::File, 12, lblk64, IvRule::Inode(12)),
            (v2, InodeLblk64, xts, Kind::Link, 13, lblk64_names, IvRule::Inode(13)),
            (v2, InodeLblk32, xts, Kind::File, 12, lblk32, IvRule::HashedInode(0x562e_df15)),
            (v2, InodeLblk32, xts, Kind::File, (1 << 33) + 5, lblk32, IvRule::HashedInode(0xcbc4_f6eb)),
            (v1, PerFile, xts, Kind::File, 12, old, IvRule::Index),
            (v1, PerFile, xts, Kind::Directory, 12, &old[..64], IvRule::Index),
            (v1, Direct, adiantum, Kind::File, 12, &raw, nonce),
        ] {
            let derived = key_of(key, key_use, modes, kind, number);
            assert_eq!(derived, Ok((expected.to_owned(), rule)), "{key:?} {key_use:?} {kind:?}");
        }
        // Two inodes with the same low half would have the same IVs.
        let large = key_of(v2, InodeLblk64, xts, Kind::File, (1 << 32) + 12);
        assert_eq!(large, Err(EncryptionFault::Run));
    }

    #[test]
    fn a_master_key_has_the_names_that_tools_give_it() {
        let key = master();
        let identifier = 0x0318_101d_0ee7_849c_6f63_c970_0484_7e4e_u128.to_be_bytes();
        assert_eq!(key.identifier(), KeyName::Identifier(identifier));
        let descriptor = 0x2b67_4d0a_bd93_29c7_u64.to_be_bytes();
        assert_eq!(key.usual_descriptor(), KeyName::Descriptor(descriptor));
    }
}
