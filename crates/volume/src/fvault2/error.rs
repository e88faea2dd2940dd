//! What can go wrong with a FileVault volume alone.

use core::fmt;

use atrest_format::fvault2::{BlockError, HeaderError};

/// Why a volume of FileVault 2 can't be opened.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileVaultError {
    /// Nothing of CoreStorage is there.
    NotFileVault,
    /// The header can't be used.
    Header(HeaderError),
    /// A block of the metadata can't be used.
    Block(BlockError),
    /// Something would lie behind the end of the device.
    Place {
        /// Where it would begin.
        offset: u64,
    },
    /// More metadata than any volume has.
    TooLong {
        /// Blocks of 8192 bytes.
        blocks: u64,
    },
    /// The metadata lacks something. The keys of a system of old releases lie in another partition.
    Missing(&'static str),
    /// What was given as the file with the keys is none, or is of another volume.
    KeyFile,
    /// The group has several of what is there once where a device has one logical volume.
    Several(&'static str),
    /// It is being encrypted or decrypted.
    Conversion(String),
    /// The data lies on several physical volumes, with gaps, behind the end, or over the metadata.
    Extents,
    /// No key opens with the password.
    NotOpened {
        /// Passwords and recovery keys that there are.
        users: usize,
    },
    /// A volume key of another length.
    KeyLen {
        /// Bytes it has.
        has: usize,
    },
}

impl fmt::Display for FileVaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFileVault => f.write_str("it is not a FileVault 2 volume on CoreStorage"),
            Self::Header(error) => write!(f, "the FileVault volume can't be opened: {error}"),
            Self::Block(error) => write!(f, "FileVault's metadata can't be used: {error}"),
            Self::Place { offset } => {
                write!(f, "FileVault's metadata at byte {offset} lies behind the end of the device")
            }
            Self::TooLong { blocks } => {
                write!(f, "FileVault's metadata has {blocks} blocks, which is too much")
            }
            Self::KeyFile => f.write_str("the file is no EncryptedRoot.plist.wipekey of this volume"),
            Self::Several(what) => {
                write!(
                    f,
                    "FileVault's metadata has several {what}: its group has more than one logical volume"
                )
            }
            Self::Missing(what) => write!(f, "FileVault's metadata has no {what}"),
            Self::Conversion(status) => {
                write!(
                    f,
                    "the volume is not encrypted as a whole: its conversion has the status \"{status}\""
                )
            }
            Self::Extents => f.write_str("the data of the volume is not on this device as a whole"),
            Self::NotOpened { users } => {
                write!(f, "none of the {users} passwords and recovery keys is this one")
            }
            Self::KeyLen { has } => write!(f, "the key has {has} bytes, but FileVault's have 32"),
        }
    }
}

crate::error::source! { FileVaultError: Header Block; }
