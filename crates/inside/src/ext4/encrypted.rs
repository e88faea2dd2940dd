//! Encrypted inodes: where the context and the ciphertext lie, and what is shown of them without a key.

use std::sync::Arc;

use super::dir::Stored;
use super::inode::{Inode, flag};
use super::{ExtTree, nokey, xattr};
use atrest_filetree::{
    EncryptedInode, EncryptionFault, InodeCipher, KeyName, Kind, Opened, TreeError, is_valid_name,
};

use crate::fault::Damage;

/// The attribute that holds the context (kernel, `fs/ext4/xattr.h`).
const CONTEXT: (u8, &[u8]) = (xattr::namespace::ENCRYPTION, b"c");

/// What an encrypted inode can be read with.
pub(super) enum Cipher {
    Unlocked(Arc<dyn InodeCipher>),
    /// The key is not here; or nothing is, not even what can name it.
    Locked(Option<KeyName>),
}

impl ExtTree {
    /// The cipher of an encrypted inode.
    pub(super) fn cipher(&self, inode: &Inode) -> Result<Cipher, TreeError> {
        let Some(encryption) = &self.encryption else { return Ok(Cipher::Locked(None)) };
        let context = self.context(inode)?;
        let asked = EncryptedInode {
            number: inode.number.into(),
            kind: inode.kind,
            casefolded: inode.flags & flag::CASEFOLD != 0,
            context: &context,
            filesystem: &self.sb.encrypted_filesystem(),
        };
        Ok(match encryption.open(&asked).map_err(|fault| failed(inode, fault))? {
            Opened::Unlocked(cipher) => Cipher::Unlocked(cipher),
            Opened::Locked(name) => Cipher::Locked(Some(name)),
        })
    }

    fn context(&self, inode: &Inode) -> Result<Vec<u8>, TreeError> {
        let found = xattr::get(&self.sb, &self.blocks, inode, CONTEXT)?;
        found.ok_or_else(|| failed(inode, EncryptionFault::MissingContext))
    }

    /// Fails where a directory has what does not belong into it: policies apply to all below them.
    pub(super) fn check_policy(&self, dir: &Inode, child: &Inode) -> Result<(), TreeError> {
        let has_policy = matches!(child.kind, Kind::File | Kind::Directory | Kind::Link);
        let Some(encryption) = &self.encryption else { return Ok(()) };
        if !dir.is_encrypted() || !has_policy {
            return Ok(());
        }
        let parent = dir.number.into();
        if !child.is_encrypted() {
            return Err(failed(child, EncryptionFault::Unencrypted { parent }));
        }
        if encryption.same_policy(&self.context(dir)?, &self.context(child)?) {
            return Ok(());
        }
        // A context that is none says so itself.
        self.cipher(dir)?;
        self.cipher(child)?;
        Err(failed(child, EncryptionFault::MixedPolicy { parent }))
    }

    /// The names of a directory as they are shown, from those that are stored.
    pub(super) fn show_names(&self, dir: &Inode, mut entries: Vec<Stored>) -> Result<Vec<Stored>, TreeError> {
        match self.cipher(dir)? {
            Cipher::Unlocked(cipher) => {
                let stored: Vec<&[u8]> = entries.iter().map(|entry| &entry.name[..]).collect();
                let names = cipher.decrypt_names(&stored).map_err(|fault| failed(dir, fault))?;
                if names.len() != entries.len() {
                    return Err(failed(dir, EncryptionFault::Cipher));
                }
                for (entry, name) in entries.iter_mut().zip(names) {
                    if !is_valid_name(&name) {
                        return Err(Damage::Name { inode: dir.number.into() }.into());
                    }
                    entry.name = name;
                }
            }
            Cipher::Locked(_) => {
                let hash = self.name_hash(dir)?;
                for entry in &mut entries {
                    let own = || hash.and_then(|hash| hash.of(&entry.name));
                    let hash = entry.hash.or_else(own).unwrap_or((0, 0));
                    entry.name = nokey::name(hash, &entry.name);
                }
            }
        }
        Ok(entries)
    }

    /// The target of a link, from all bytes that are stored for it. Without the key it is what the kernel says it is then.
    pub(super) fn link_target(&self, inode: &Inode, stored: &[u8]) -> Result<Vec<u8>, TreeError> {
        match self.cipher(inode)? {
            Cipher::Unlocked(cipher) => cipher.decrypt_link(stored).map_err(|fault| failed(inode, fault)),
            Cipher::Locked(_) => {
                let (len, rest) = stored.split_first_chunk().unwrap_or((&[0; 2], &[]));
                let len = usize::from(u16::from_le_bytes(*len));
                let bad = EncryptionFault::CiphertextLength { len };
                let stored = rest.get(..len).filter(|stored| stored.len() >= 16);
                Ok(nokey::name((0, 0), stored.ok_or_else(|| failed(inode, bad))?))
            }
        }
    }

    /// The cipher of a file whose contents are asked for.
    pub(super) fn contents_cipher(&self, inode: &Inode) -> Result<Option<Arc<dyn InodeCipher>>, TreeError> {
        if !inode.is_encrypted() {
            return Ok(None);
        }
        // Nobody encrypts what lies in the inode itself.
        if inode.flags & flag::INLINE_DATA != 0 {
            return Err(Damage::Inode(inode.number.into()).into());
        }
        let cipher = self.unlocked(inode)?;
        let (unit, block) = (cipher.data_unit() as u64, u64::from(self.sb.block_size));
        if unit == 0 || unit > block || block.checked_rem(unit) != Some(0) {
            return Err(failed(inode, EncryptionFault::Run));
        }
        Ok(Some(cipher))
    }

    /// The cipher of an encrypted inode whose key must be here.
    pub(super) fn unlocked(&self, inode: &Inode) -> Result<Arc<dyn InodeCipher>, TreeError> {
        let number = inode.number.into();
        match self.cipher(inode)? {
            Cipher::Locked(None) => Err(TreeError::Encrypted { inode: number }),
            Cipher::Locked(Some(key)) => Err(TreeError::Locked { inode: number, key }),
            Cipher::Unlocked(cipher) => Ok(cipher),
        }
    }

    /// Reads and decrypts from byte `at` of a file on, whose block `block` that is in, from byte `within` of it. All of `buf`.
    pub(super) fn read_decrypted(
        &self,
        (inode, cipher): (&Inode, &dyn InodeCipher),
        (block, within): (u64, u64),
        at: u64,
        buf: &mut [u8],
    ) -> Result<(), TreeError> {
        let unit = cipher.data_unit();
        let unit64 = unit as u64;
        let decrypt = |at: u64, units: &mut [u8]| {
            // cannot divide by zero: `contents_cipher` refuses a unit without bytes.
            let first = at.checked_div(unit64).unwrap_or(0);
            cipher.decrypt_contents(first, units).map_err(|fault| failed(inode, fault))
        };
        let (mut done, mut bounce) = (0_usize, Vec::new());
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            // cannot overflow: all is a part of a file. The unit has bytes and is a part of a block.
            let (from, inner) = (at.saturating_add(done as u64), within.saturating_add(done as u64));
            let skip = usize::try_from(from.checked_rem(unit64).unwrap_or(0)).unwrap_or(0);
            let whole = rest.len().saturating_sub(rest.len().checked_rem(unit).unwrap_or(0));
            let step = if skip == 0 && whole > 0 {
                // cannot miss: it is no longer than what is left.
                let units = rest.get_mut(..whole).unwrap_or(&mut []);
                self.blocks.read_run(block, inner, units)?;
                decrypt(from, units)?;
                whole
            } else {
                // The first or last unit in part: all of it is there, as blocks are.
                bounce.resize(unit, 0);
                // cannot overflow: blocks are whole units, so that a unit begins in the block in which it ends.
                let start = inner.saturating_sub(skip as u64);
                self.blocks.read_run(block, start, &mut bounce)?;
                // cannot overflow: a unit begins before its bytes.
                decrypt(from.saturating_sub(skip as u64), &mut bounce)?;
                let part = bounce.get(skip..).unwrap_or(&[]);
                let len = part.len().min(rest.len());
                rest.iter_mut().zip(part).for_each(|(to, from)| *to = *from);
                len
            };
            // cannot overflow: a step is a part of the buffer.
            done = done.saturating_add(step.max(1));
        }
        Ok(())
    }

    /// Whether names are looked up in a directory without regard to case: only plain ones can be.
    pub(super) fn folds(&self, dir: &Inode) -> Result<bool, TreeError> {
        let casefolded = dir.flags & flag::CASEFOLD != 0;
        Ok(casefolded && (!dir.is_encrypted() || matches!(self.cipher(dir)?, Cipher::Unlocked(_))))
    }
}

pub(super) fn failed(inode: &Inode, fault: EncryptionFault) -> TreeError {
    TreeError::Encryption { inode: inode.number.into(), fault }
}
