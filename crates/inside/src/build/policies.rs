//! Which policy holds where: every directory hands its own down, and no other may begin inside it, as in the kernel.

use std::sync::Arc;

use super::encryption::NewEncryption;
use super::source::Source;
use super::{BuildError, Encrypt};
use crate::tree::Kind;

/// For each entry of a source, what it is encrypted with.
pub(super) struct Policies(Vec<Option<Arc<dyn NewEncryption>>>);

impl Policies {
    pub(super) fn new(source: &Source, encrypt: &Encrypt) -> Result<Self, BuildError> {
        let mut held: Vec<Option<Arc<dyn NewEncryption>>> = vec![None; source.entries.len()];
        for (entry, encryption) in begins(source, encrypt)? {
            match held.get_mut(entry) {
                Some(place @ None) => *place = Some(encryption),
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
    pub(super) fn of(&self, entry: usize) -> Option<&Arc<dyn NewEncryption>> {
        self.0.get(entry)?.as_ref()
    }
}

/// A directory, and the policy that begins there.
type Begin = (usize, Arc<dyn NewEncryption>);

/// The directories at which policies begin.
fn begins(source: &Source, encrypt: &Encrypt) -> Result<Vec<Begin>, BuildError> {
    let kind = |entry: usize| source.entries.get(entry).map(|found| found.kind);
    match encrypt {
        Encrypt::Nothing => Ok(Vec::new()),
        Encrypt::TopLevel(encryption) => {
            let top = source.entries.first().map(|root| root.children.as_slice()).unwrap_or(&[]);
            top.iter()
                .map(|(_, entry)| match kind(*entry) {
                    Some(Kind::Directory) => Ok((*entry, encryption.clone())),
                    _ => Err(BuildError::InTheClear { path: source.path_of(*entry) }),
                })
                .collect()
        }
        Encrypt::Below(list) => list
            .iter()
            .map(|(path, encryption)| match source.find(path) {
                Some(entry) if entry != 0 && kind(entry) == Some(Kind::Directory) => {
                    Ok((entry, encryption.clone()))
                }
                _ => Err(BuildError::NotADirectoryBelow { path: path.clone() }),
            })
            .collect(),
    }
}
