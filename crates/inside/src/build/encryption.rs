//! What a builder asks of an encryption: a policy with its key, behind a trait, since this room knows of no key.

use std::sync::Arc;

use crate::error::TreeError;
use crate::tree::Kind;

/// Encrypts what is made below one directory.
pub trait NewEncryption: Send + Sync {
    /// Whether the filesystem must promise that no inode's number ever changes.
    fn needs_stable_inodes(&self) -> bool {
        false
    }

    /// Gives a new file, directory or link its encryption.
    fn create(&self, inode: &NewInode) -> Result<Created, TreeError>;
}

/// An inode that is about to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewInode {
    /// Its number.
    pub number: u32,
    /// What it is: a file, a directory or a link.
    pub kind: Kind,
    /// The filesystem's UUID.
    pub filesystem: [u8; 16],
    /// Bytes in the filesystem's blocks.
    pub block_size: u32,
}

/// The encryption of a new inode.
pub struct Created {
    /// The value of the attribute that says how it is encrypted.
    pub context: Vec<u8>,
    /// Encrypts what it holds.
    pub cipher: Arc<dyn NewCipher>,
}

/// Encrypts what one inode holds.
pub trait NewCipher: Send + Sync {
    /// Encrypts whole blocks of the file from `block` on.
    fn encrypt_contents(&self, block: u64, data: &mut [u8]) -> Result<(), TreeError>;

    /// Encrypts a name in the directory, padded to at most `limit` bytes.
    fn encrypt_name(&self, name: &[u8]) -> Result<Vec<u8>, TreeError>;

    /// Encrypts the link's target, padded to at most `limit` bytes; fails with [`TreeError::UnsupportedName`] if it is longer.
    fn encrypt_target(&self, target: &[u8], limit: usize) -> Result<Vec<u8>, TreeError>;
}
