//! The keyring: master keys that come and go while filesystems are open.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use atrest_filetree::{EncryptedInode, Encryption, EncryptionFault, InodeCipher, KeyName, Opened};
use atrest_secret::{OsRandom, Random, SecretBytes};
use core::fmt;

use super::inode::FscryptInode;
use super::keys::{MASTER_KEY_LEN, MasterKey};
use super::policy::{Context, NONCE_LEN};

/// Ciphers of inodes that are kept expanded.
const KEPT: usize = 64;

/// Master keys, and the ciphers that were made of them lately.
///
/// [`Keyring::remove`] forgets both at once: what was opened before can't be read any more, but by whoever is doing so at the
/// moment.
#[derive(Default)]
pub struct Keyring {
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    keys: HashMap<KeyName, Held>,
    generation: u64,
    single_snapshot: bool,
    /// By inode, filesystem and context, the oldest first.
    ciphers: Vec<(CipherName, Arc<FscryptInode>)>,
}

impl State {
    /// Keeps a cipher, unless keys have come or gone since it was begun.
    fn keep(&mut self, generation: u64, name: CipherName, cipher: &Arc<FscryptInode>) {
        if self.generation != generation {
            return;
        }
        if self.ciphers.len() >= KEPT {
            self.ciphers.remove(0);
        }
        self.ciphers.push((name, cipher.clone()));
    }
}

#[derive(PartialEq, Eq)]
struct CipherName {
    inode: u64,
    uuid: [u8; 16],
    context: Vec<u8>,
}

#[derive(Clone)]
struct Held {
    key: Arc<MasterKey>,
    /// The name was given along with the key, and the key does not tell that it is right.
    doubtful: bool,
}

/// A key that can't be a master key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLength {
    /// Its bytes.
    pub len: usize,
}

impl fmt::Display for KeyLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a master key of fscrypt has {} to {} bytes, not {}",
            MASTER_KEY_LEN.start(),
            MASTER_KEY_LEN.end(),
            self.len
        )
    }
}

impl core::error::Error for KeyLength {}

impl Keyring {
    /// Without keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a master key of 16 to 64 bytes under the two names that it gives itself, and returns them: the identifier
    /// of policies of version 2, and the descriptor that tools choose for version 1.
    ///
    /// # Errors
    /// [`KeyLength`] unless the key has 16 to 64 bytes.
    pub fn add(&self, key: SecretBytes) -> Result<[KeyName; 2], KeyLength> {
        let key = master_key(key)?;
        let names = [key.identifier(), key.usual_descriptor()];
        self.change(|keys| {
            for name in names {
                keys.insert(name, Held { key: key.clone(), doubtful: false });
            }
        });
        Ok(names)
    }

    /// Adds a master key for policies of version 1 that call it `descriptor`.
    ///
    /// Nothing in the format tells whether it is the right one, so what it decrypts is looked at:
    /// [`EncryptionFault::Implausible`].
    ///
    /// # Errors
    /// [`KeyLength`] unless the key has 16 to 64 bytes.
    pub fn add_descriptor(&self, descriptor: [u8; 8], key: SecretBytes) -> Result<(), KeyLength> {
        let key = master_key(key)?;
        let name = KeyName::Descriptor(descriptor);
        let doubtful = key.usual_descriptor() != name;
        self.change(|keys| keys.insert(name, Held { key, doubtful }));
        Ok(())
    }

    /// Lets modes encrypt that keep contents secret from somebody who sees one snapshot of the medium only
    /// ([`EncryptionMode::is_single_snapshot`](super::EncryptionMode::is_single_snapshot)). Says that nobody sees it twice: no backups, no
    /// synchronization, no flash that keeps what was overwritten.
    pub fn acknowledge_single_snapshot(&self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.generation = state.generation.wrapping_add(1);
        state.ciphers.clear();
        state.single_snapshot = true;
    }

    /// Forgets the key of this name, under its other name too if it has one. Whether there was one.
    pub fn remove(&self, name: &KeyName) -> bool {
        self.change(|keys| {
            let Some(gone) = keys.remove(name) else { return false };
            keys.retain(|_, held| !Arc::ptr_eq(&held.key, &gone.key));
            true
        })
    }

    /// Names of all keys.
    pub fn names(&self) -> Vec<KeyName> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<_> = state.keys.keys().copied().collect();
        names.sort_unstable();
        names
    }

    /// Whether there is a key of this name.
    pub fn has(&self, name: &KeyName) -> bool {
        self.state.read().unwrap_or_else(PoisonError::into_inner).keys.contains_key(name)
    }

    fn change<R>(&self, change: impl FnOnce(&mut HashMap<KeyName, Held>) -> R) -> R {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.generation = state.generation.wrapping_add(1);
        state.ciphers.clear();
        change(&mut state.keys)
    }
}

fn master_key(key: SecretBytes) -> Result<Arc<MasterKey>, KeyLength> {
    if !MASTER_KEY_LEN.contains(&key.len()) {
        return Err(KeyLength { len: key.len() });
    }
    Ok(Arc::new(MasterKey::new(key)))
}

impl Encryption for Keyring {
    fn generation(&self) -> u64 {
        self.state.read().unwrap_or_else(PoisonError::into_inner).generation
    }

    fn open(&self, inode: &EncryptedInode<'_>) -> Result<Opened, EncryptionFault> {
        let context = Context::parse(inode.context)?;
        context.policy.check_for(inode.filesystem)?;
        if inode.casefolded && matches!(context.policy.key, KeyName::Descriptor(_)) {
            return Err(EncryptionFault::Casefolded);
        }
        let name =
            CipherName { inode: inode.number, uuid: inode.filesystem.uuid, context: inode.context.to_vec() };
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let Some(held) = state.keys.get(&context.policy.key).cloned() else {
            return Ok(Opened::Locked(context.policy.key));
        };
        if let Some((_, cipher)) = state.ciphers.iter().find(|(known, _)| *known == name) {
            return Ok(Opened::Unlocked(cipher.clone() as Arc<dyn InodeCipher>));
        }
        let (generation, single_snapshot) = (state.generation, state.single_snapshot);
        drop(state);
        let cipher = Arc::new(FscryptInode::new(&held.key, held.doubtful, single_snapshot, &context, inode)?);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.keep(generation, name, &cipher);
        Ok(Opened::Unlocked(cipher))
    }

    fn same_policy(&self, context: &[u8], other: &[u8]) -> bool {
        let policy = |bytes| Context::parse(bytes).map(|context| context.policy);
        matches!((policy(context), policy(other)), (Ok(a), Ok(b)) if a == b)
    }

    fn child_context(&self, parent: &[u8]) -> Result<Vec<u8>, EncryptionFault> {
        let mut context = Context::parse(parent)?;
        let mut nonce = [0; NONCE_LEN];
        OsRandom.fill(&mut nonce).map_err(|_| EncryptionFault::Random)?;
        context.nonce = nonce;
        Ok(context.to_bytes())
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("keys", &self.names()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fscrypt::{EncryptionMode, KeyUse, Padding, Policy};
    use atrest_filetree::{EncryptedFilesystem, Kind};

    #[test]
    fn a_cipher_that_was_begun_before_its_key_was_removed_is_not_kept() {
        let keyring = Keyring::new();
        let [key, _] = keyring
            .add(SecretBytes::copy_from(&std::array::from_fn::<u8, 64, _>(|at| at as u8)))
            .expect("a master key");
        let (contents, names) = (EncryptionMode::Aes256Xts, EncryptionMode::Aes256Cts);
        let (padding, key_use) = (Padding::Four, KeyUse::PerFile);
        let policy = Policy { contents, names, padding, key_use, log2_data_unit: None, key };
        let context = Context { policy, nonce: [7; NONCE_LEN] };
        let filesystem = EncryptedFilesystem { uuid: [1; 16], block_size: 4096, stable_inodes: true };
        let bytes = context.to_bytes();
        let (number, kind) = (12, Kind::File);
        let inode =
            EncryptedInode { number, kind, casefolded: false, context: &bytes, filesystem: &filesystem };
        let master = keyring.state.read().expect("not poisoned").keys[&key].key.clone();
        let begun = keyring.generation();
        let cipher = Arc::new(FscryptInode::new(&master, false, false, &context, &inode).expect("a cipher"));
        let name = || CipherName { inode: number, uuid: filesystem.uuid, context: bytes.clone() };
        let kept = |generation| {
            let mut state = keyring.state.write().expect("not poisoned");
            state.keep(generation, name(), &cipher);
            state.ciphers.len()
        };
        assert_eq!(kept(begun), 1);
        assert!(keyring.remove(&key));
        assert_eq!(kept(begun), 0, "the key is gone");
        assert_eq!(kept(keyring.generation()), 1);
    }
}
