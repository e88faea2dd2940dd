//! Why a token has not opened a volume.

use core::fmt;

/// Why a token has not opened a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenError {
    /// Its type is none that can be used here.
    UnknownType,
    /// It opens no keyslot.
    NoKeyslots,
    /// It does not have the fields of its type.
    Malformed,
    /// The kernel's keyring has no such key.
    NoKey {
        /// What the key is called.
        description: String,
    },
    /// The key is there, or was, and can't be read.
    Keyring {
        /// What the key is called.
        description: String,
        /// What the kernel says.
        error: String,
    },
    /// None of its keyslots opens with what it has.
    Wrong,
}

impl TokenError {
    /// Whether it is a token to use, and only its passphrase is missing or wrong.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::NoKey { .. } | Self::Keyring { .. } | Self::Wrong)
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownType => f.write_str("its type can't be used here"),
            Self::NoKeyslots => f.write_str("it opens no keyslot"),
            Self::Malformed => f.write_str("it does not have the fields of its type"),
            Self::NoKey { description } => {
                write!(f, "the kernel's keyring has no key {:?} of type user", description)
            }
            Self::Keyring { description, error } => {
                write!(f, "the key {description:?} in the kernel's keyring can't be read: {error}")
            }
            Self::Wrong => f.write_str("no keyslot of it opens with its passphrase"),
        }
    }
}

impl core::error::Error for TokenError {}
