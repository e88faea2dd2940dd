//! The keyed cipher of one inode.

use atrest_codec::Reader;
use atrest_filetree::{EncryptedInode, EncryptionFault, InodeCipher, KeyName, Kind};
use atrest_secret::SecretBytes;

use super::cipher::{Contents, IvRule, Names, Way};
use super::keys::{MasterKey, siphash};
use super::name;
use super::policy::{Context, Policy};

/// What an inode has a cipher for: a file for its contents, a directory or a link for names.
enum Part {
    Contents(Contents, IvRule),
    Names(Names),
}

/// One inode's.
pub(super) struct FscryptInode {
    part: Part,
    policy: Policy,
    block_size: usize,
    name_hash_key: Option<SecretBytes>,
    /// Whether nothing but what it decrypts tells that the key is the right one.
    doubtful: bool,
}

impl FscryptInode {
    pub(super) fn new(
        key: &MasterKey,
        doubtful: bool,
        single_snapshot: bool,
        context: &Context,
        inode: &EncryptedInode<'_>,
    ) -> Result<Self, EncryptionFault> {
        let policy = context.policy;
        let (file_key, rule) = key.inode_key(context, inode)?;
        // cannot fail: blocks have at most 64 KiB.
        let block_size = usize::try_from(inode.filesystem.block_size).unwrap_or(usize::MAX);
        let part = if inode.kind == Kind::File {
            // cannot fail: data units are no longer than blocks.
            let unit = usize::try_from(policy.data_unit(inode.filesystem.block_size)).unwrap_or(usize::MAX);
            Part::Contents(Contents::new(policy.contents, &file_key, rule, unit, single_snapshot)?, rule)
        } else {
            Part::Names(Names::new(policy.names, &file_key, rule)?)
        };
        let hashes = inode.casefolded && matches!(policy.key, KeyName::Identifier(_));
        let name_hash_key = hashes.then(|| key.name_hash_key(&context.nonce));
        Ok(Self { part, policy, block_size, name_hash_key, doubtful })
    }

    fn contents(&self, way: Way, first: u64, units: &mut [u8]) -> Result<(), EncryptionFault> {
        let Part::Contents(cipher, rule) = &self.part else { return Err(EncryptionFault::Run) };
        let unit = cipher.data_unit();
        if !units.len().is_multiple_of(unit) {
            return Err(EncryptionFault::Run);
        }
        // cannot be divided by 0: a data unit has bytes.
        Contents::check(*rule, first, units.len().checked_div(unit).unwrap_or(0))?;
        cipher.apply(way, first, units)
    }

    fn name(&self, way: Way, bytes: &mut [u8]) -> Result<(), EncryptionFault> {
        match &self.part {
            Part::Names(names) => names.apply(way, bytes),
            Part::Contents(..) => Err(EncryptionFault::Cipher),
        }
    }

    /// Longest ciphertext of a link: beside it a block holds its length, and the kernel counts a NUL.
    fn max_link(&self) -> usize {
        // cannot be less: blocks have at least 1024 bytes.
        self.block_size.saturating_sub(3)
    }
}

impl InodeCipher for FscryptInode {
    fn data_unit(&self) -> usize {
        match &self.part {
            Part::Contents(contents, _) => contents.data_unit(),
            Part::Names(_) => self.block_size,
        }
    }

    fn decrypt_contents(&self, first: u64, units: &mut [u8]) -> Result<(), EncryptionFault> {
        self.contents(Way::Decrypt, first, units)
    }

    fn encrypt_contents(&self, first: u64, units: &mut [u8]) -> Result<(), EncryptionFault> {
        self.contents(Way::Encrypt, first, units)
    }

    fn decrypt_names(&self, stored: &[&[u8]]) -> Result<Vec<Vec<u8>>, EncryptionFault> {
        let padding = self.policy.padding;
        let wrong = EncryptionFault::Implausible(self.policy.key);
        let mut names = Vec::with_capacity(stored.len());
        for name in stored {
            name::check_len(name.len(), padding, name::MAX_NAME)?;
            let mut padded = name.to_vec();
            self.name(Way::Decrypt, &mut padded)?;
            let len = name::unpad_name(&padded, padding).map(<[u8]>::len).ok_or(wrong)?;
            padded.truncate(len);
            names.push(padded);
        }
        let with_padding = names.iter().zip(stored);
        let with_padding =
            // cannot be less: unpadding makes names shorter.
            with_padding.map(|(name, stored)| (&name[..], stored.len().saturating_sub(name.len())));
        if self.doubtful && !name::convincing(with_padding) {
            return Err(wrong);
        }
        Ok(names)
    }

    fn encrypt_name(&self, name: &[u8]) -> Result<Vec<u8>, EncryptionFault> {
        let mut padded = name::pad(name, self.policy.padding, name::MAX_NAME)?;
        self.name(Way::Encrypt, &mut padded)?;
        Ok(padded)
    }

    fn decrypt_link(&self, stored: &[u8]) -> Result<Vec<u8>, EncryptionFault> {
        let bad = EncryptionFault::CiphertextLength { len: stored.len() };
        let mut reader = Reader::new(stored);
        let len = usize::from(reader.le16().map_err(|_| bad)?);
        let padding = self.policy.padding;
        name::check_len(len, padding, self.max_link())?;
        let mut padded = reader.bytes(len).map_err(|_| bad)?.to_vec();
        reader.finish().map_err(|_| bad)?;
        self.name(Way::Decrypt, &mut padded)?;
        let wrong = EncryptionFault::Implausible(self.policy.key);
        let target = name::unpad(&padded, padding).ok_or(wrong)?;
        // cannot be less: unpadding makes targets shorter.
        let zeros = padded.len().saturating_sub(target.len());
        if self.doubtful && !name::convincing([(target, zeros)].into_iter()) {
            return Err(wrong);
        }
        Ok(target.to_vec())
    }

    fn encrypt_link(&self, target: &[u8]) -> Result<Vec<u8>, EncryptionFault> {
        let mut padded = name::pad(target, self.policy.padding, self.max_link())?;
        self.name(Way::Encrypt, &mut padded)?;
        let len = u16::try_from(padded.len());
        let len = len.map_err(|_| EncryptionFault::PlaintextLength { len: target.len() })?;
        let mut stored = len.to_le_bytes().to_vec();
        stored.append(&mut padded);
        Ok(stored)
    }

    fn name_hash(&self, folded: &[u8]) -> Option<(u32, u32)> {
        directory_hash(siphash(self.name_hash_key.as_deref()?, folded))
    }
}

/// What ext4 makes of a hash: its hashes are even, and the last of them stands for the end of the directory.
fn directory_hash(hash: u64) -> Option<(u32, u32)> {
    let hash = hash.to_le_bytes();
    let ([low, high], _) = hash.as_chunks::<4>() else { return None };
    let low = match u32::from_le_bytes(*low) & !1 {
        0xffff_fffe => 0xffff_fffc,
        low => low,
    };
    Some((low, u32::from_le_bytes(*high)))
}

#[cfg(test)]
mod tests {
    use atrest_filetree::{EncryptedFilesystem, Encryption, Opened};

    use super::*;
    use crate::fscrypt::{EncryptionMode, KeyUse, Keyring, Padding};

    #[test]
    fn a_stored_link_is_as_long_as_it_says() {
        let keyring = Keyring::new();
        let [key, _] = keyring.add(SecretBytes::copy_from(&[7; 64])).expect("a master key");
        let (contents, names) = (EncryptionMode::Aes256Xts, EncryptionMode::Aes256Cts);
        let (padding, key_use) = (Padding::Four, KeyUse::PerFile);
        let policy = Policy { contents, names, padding, key_use, log2_data_unit: None, key };
        let context = Context { policy, nonce: [1; 16] }.to_bytes();
        let filesystem = EncryptedFilesystem { uuid: [2; 16], block_size: 4096, stable_inodes: true };
        let (kind, casefolded) = (Kind::Link, false);
        let inode =
            EncryptedInode { number: 12, kind, casefolded, context: &context, filesystem: &filesystem };
        let Ok(Opened::Unlocked(cipher)) = keyring.open(&inode) else { panic!("the key is there") };

        let mut stored = cipher.encrypt_link(b"a target of 25 characters").expect("it fits");
        assert_eq!(cipher.decrypt_link(&stored).expect("as stored"), b"a target of 25 characters");
        stored.push(0);
        let whole = stored.len() - 1;
        for len in (0..whole).chain([whole + 1]) {
            let refused = cipher.decrypt_link(&stored[..len]);
            assert_eq!(refused, Err(EncryptionFault::CiphertextLength { len }));
        }
    }

    #[test]
    fn no_hash_of_a_name_is_odd_or_ends_the_directory() {
        for (hash, expected) in [
            (0x0000_0001_0000_0002, (2, 1)),
            (0x1234_5678_9abc_def1, (0x9abc_def0, 0x1234_5678)),
            (0xffff_fffe_ffff_fffd, (0xffff_fffc, 0xffff_fffe)),
            (0x0000_0000_ffff_fffe, (0xffff_fffc, 0)),
            (0x0000_0000_ffff_ffff, (0xffff_fffc, 0)),
        ] {
            assert_eq!(directory_hash(hash), Some(expected), "{hash:#x}");
        }
    }
}
