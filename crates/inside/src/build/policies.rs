//! Which policy holds where: every directory hands its own down, and no other may begin inside it, as in the kernel.

use std::sync::Arc;

use super::BuildError;
use super::source::Source;
use atrest_filetree::{
    EncryptedFilesystem, EncryptedInode, Encryption, EncryptionFault, InodeCipher, KeyName, Kind, Opened,
    TreePath,
};

/// A policy that is to hold in a new directory and below it.
#[derive(Clone)]
pub struct NewPolicy {
    /// Has the key.
    pub encryption: Arc<dyn Encryption>,
    /// A context of the policy. Its nonce is used for nothing: each inode gets its own.
    pub context: Vec<u8>,
    /// The filesystem must promise that its inodes keep their numbers.
    pub stable_inodes: bool,
}

/// Which directories are encrypted. The root of an ext4 can't be: `lost+found` must be found in it.
#[derive(Clone, Default)]
pub enum Encrypt {
    /// None.
    #[default]
    Nothing,
    /// Every directory in the root. Anything else in it is an error.
    TopLevel(Arc<NewPolicy>),
    /// These, as paths of the image, with everything below them.
    Below(Vec<(TreePath, Arc<NewPolicy>)>),
}

impl Encrypt {
    pub(super) fn needs_stable_inodes(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::TopLevel(policy) => policy.stable_inodes,
            Self::Below(list) => list.iter().any(|(_, policy)| policy.stable_inodes),
        }
    }
}

/// Why there is no cipher for a new inode.
pub(super) enum NoCipher {
    Fault(EncryptionFault),
    Locked(KeyName),
}

/// The encryption of a new inode: what is stored to say so, and its cipher.
pub(super) struct Created {
    pub(super) context: Vec<u8>,
    pub(super) cipher: Arc<dyn InodeCipher>,
}

impl NewPolicy {
    /// Gives a file, directory or link that is being made its encryption.
    pub(super) fn create(
        &self,
        number: u32,
        kind: Kind,
        filesystem: &EncryptedFilesystem,
    ) -> Result<Created, NoCipher> {
        let context = self.encryption.child_context(&self.context).map_err(NoCipher::Fault)?;
        let inode =
            EncryptedInode { number: number.into(), kind, casefolded: false, context: &context, filesystem };
        match self.encryption.open(&inode).map_err(NoCipher::Fault)? {
            Opened::Unlocked(cipher) => Ok(Created { context, cipher }),
            Opened::Locked(key) => Err(NoCipher::Locked(key)),
        }
    }
}

/// For each entry of a source, what it is encrypted with.
pub(super) struct Policies(Vec<Option<Arc<NewPolicy>>>);

impl Policies {
    pub(super) fn new(source: &Source, encrypt: &Encrypt) -> Result<Self, BuildError> {
        let mut held: Vec<Option<Arc<NewPolicy>>> = vec![None; source.entries.len()];
        for (entry, policy) in begins(source, encrypt)? {
            match held.get_mut(entry) {
                Some(place @ None) => *place = Some(policy),
                _ => return Err(BuildError::PolicyInPolicy { path: source.path_of(entry) }),
            }
        }
        // Directories come before what is in them.
        for (i, found) in source.entries.iter().enumerate().skip(1) {
            let inherited = held.get(found.parent).cloned().flatten();
            match held.get_mut(i) {
                Some(Some(_)) if inherited.is_some() => {
                    return Err(BuildError::PolicyInPolicy { path: source.path_of(i) });
                }
                Some(place @ None) => *place = inherited,
                _ => {}
            }
        }
        let policies = Self(held);
        for (directory, entry) in &source.more_names {
            let same = match (policies.of(*directory), policies.of(*entry)) {
                (None, None) => true,
                (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                _ => false,
            };
            if !same {
                return Err(BuildError::LinkedAcrossPolicies { path: source.path_of(*entry) });
            }
        }
        Ok(policies)
    }

    /// What holds for an entry. Devices, pipes and sockets have nothing to encrypt.
    pub(super) fn of(&self, entry: usize) -> Option<&Arc<NewPolicy>> {
        self.0.get(entry)?.as_ref()
    }
}

/// A directory, and the policy that begins there.
type Begin = (usize, Arc<NewPolicy>);

/// The directories at which policies begin.
fn begins(source: &Source, encrypt: &Encrypt) -> Result<Vec<Begin>, BuildError> {
    let kind = |entry: usize| source.entries.get(entry).map(|found| found.kind);
    match encrypt {
        Encrypt::Nothing => Ok(Vec::new()),
        Encrypt::TopLevel(policy) => {
            // cannot miss: the root is the first entry.
            let top = source.entries.first().map(|root| root.children.as_slice()).unwrap_or(&[]);
            top.iter()
                .map(|(_, entry)| match kind(*entry) {
                    Some(Kind::Directory) => Ok((*entry, policy.clone())),
                    _ => Err(BuildError::InTheClear { path: source.path_of(*entry) }),
                })
                .collect()
        }
        Encrypt::Below(list) => list
            .iter()
            .map(|(path, policy)| match source.find(path) {
                Some(entry) if entry != 0 && kind(entry) == Some(Kind::Directory) => {
                    Ok((entry, policy.clone()))
                }
                _ => Err(BuildError::NotADirectoryBelow { path: path.clone() }),
            })
            .collect(),
    }
}
