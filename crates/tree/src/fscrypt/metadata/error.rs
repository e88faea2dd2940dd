//! What can go wrong with `.fscrypt`: the filesystem, the records, and the secret are never merged.

use core::fmt;

use atrest_filetree::{KeyName, TreeError};
use atrest_kdf::KdfError;

use super::hex::ProtectorDescriptor;

/// `.fscrypt` can't be read.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataError {
    /// There is no directory `.fscrypt` in the root of the filesystem.
    NotSetUp,
    /// The filesystem failed.
    Tree(TreeError),
    /// A directory has more entries than are looked at.
    TooManyRecords {
        /// The limit.
        limit: usize,
    },
}

impl From<TreeError> for MetadataError {
    fn from(error: TreeError) -> Self {
        Self::Tree(error)
    }
}

impl fmt::Display for MetadataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSetUp => {
                f.write_str("the filesystem has no directory .fscrypt with policies and protectors")
            }
            Self::Tree(error) => write!(f, ".fscrypt can't be read: {error}"),
            Self::TooManyRecords { limit } => {
                write!(f, "a directory of .fscrypt has more than {limit} entries")
            }
        }
    }
}

impl core::error::Error for MetadataError {}

/// What is wrong with one file of `.fscrypt`.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordDamage {
    /// It can't be read.
    Tree(TreeError),
    /// It is no regular file.
    NotAFile,
    /// It is larger than fscrypt accepts.
    TooLarge {
        /// Bytes in it.
        size: u64,
        /// Most bytes that are accepted.
        limit: u64,
    },
    /// Its name is no descriptor.
    Name,
    /// The descriptor in it is not its name.
    NameMismatch,
    /// It is no message of Protocol Buffers, or a field is of the wrong type or there twice.
    Malformed,
    /// A field is missing, has the wrong length or an impossible value.
    Field {
        /// Its name in fscrypt's `metadata.proto`.
        name: &'static str,
    },
    /// The costs of hashing the passphrase are not accepted.
    Costs(KdfError),
}

impl fmt::Display for RecordDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree(error) => error.fmt(f),
            Self::NotAFile => f.write_str("it is no regular file"),
            Self::TooLarge { size, limit } => {
                write!(f, "it has {size} bytes, and at most {limit} are accepted")
            }
            Self::Name => f.write_str("its name is no descriptor"),
            Self::NameMismatch => f.write_str("the descriptor in it is another one than its name"),
            Self::Malformed => f.write_str("it is no well-formed record of fscrypt"),
            Self::Field { name } => write!(f, "its field {name} is missing or has an impossible value"),
            Self::Costs(error) => write!(f, "the costs of hashing the passphrase are refused: {error}"),
        }
    }
}

impl core::error::Error for RecordDamage {}

/// A protector could not be unlocked.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnlockError {
    /// The passphrase or the key is not the protector's.
    WrongSecret {
        /// The protector.
        protector: ProtectorDescriptor,
    },
    /// A raw key has 32 bytes.
    RawKeyLen {
        /// Bytes that were given.
        len: usize,
    },
    /// The passphrase could not be hashed.
    Kdf(KdfError),
    /// No policy of this filesystem is protected by it.
    ProtectsNothing {
        /// The protector.
        protector: ProtectorDescriptor,
    },
    /// The protector is unlocked, but a policy's key that it wraps was changed, or is another policy's.
    DamagedPolicyKey {
        /// The policy.
        policy: KeyName,
    },
}

impl fmt::Display for UnlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongSecret { protector } => {
                write!(f, "the passphrase or key does not unlock protector {protector}")
            }
            Self::RawKeyLen { len } => write!(f, "a raw key has 32 bytes, and {len} were given"),
            Self::Kdf(error) => error.fmt(f),
            Self::ProtectsNothing { protector } => {
                write!(f, "protector {protector} protects no policy of this filesystem")
            }
            Self::DamagedPolicyKey { policy } => write!(f, "the wrapped key of policy {policy} is damaged"),
        }
    }
}

impl core::error::Error for UnlockError {}
