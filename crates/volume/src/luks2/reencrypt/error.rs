//! Why a re-encryption can't begin, go on or be recovered.

use core::fmt;

use atrest_device::DeviceError;
use atrest_format::luks2::ReencryptionFault;

use crate::{ChangeError, FormatError, OptionError, UnlockError};

/// A re-encryption that can't begin or go on. The data is as the header says in every case.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReencryptError {
    /// The header could not be read or changed, or a keyslot not opened.
    Change(Box<ChangeError>),
    /// The new header could not be made.
    Format(Box<FormatError>),
    /// There is no re-encryption in progress that could be resumed.
    State(ReencryptionFault),
    /// One is in progress already.
    InProgress,
    /// A kind that is not known here: data that moves in another way than encryption and decryption here move it.
    UnknownKind,
    /// A volume is decrypted by a header that lies elsewhere, and this one lies on its device.
    NotDetached,
    /// Data would be moved over bytes in front of it that are not the header of this volume.
    ForeignFront {
        /// How many.
        bytes: u64,
    },
    /// The segments are not those that any step of this re-encryption makes.
    Row,
    /// The keys don't verify the metadata: it was changed by somebody who did not have them.
    NotVerified,
    /// A part of the data is encrypted with the old key, and no keyslot of the old key is left.
    OldKeyGone,
    /// The device is smaller than the segments say.
    DeviceSize,
    /// The data is not a multiple of the data unit, or of the sectors whose hashes protect it.
    Misaligned {
        /// Bytes of data.
        size: u64,
        /// What it must be a multiple of.
        multiple: u64,
    },
    /// Another part of the data was asked for than one that this re-encryption can be of.
    Part {
        /// Bytes that were asked for.
        asked: u64,
        /// Bytes of all the data that it is of.
        of: u64,
    },
    /// Keyslots would be lost: no passphrase was given for them, and nobody said that they may go.
    KeyslotsLeft {
        /// Their numbers.
        slots: Vec<u32>,
    },
    /// Nobody would have the new key: no keyslot holds it, and it was not given.
    NotKept,
    /// The new volume key that was given is the one that the volume has.
    SameKey,
    /// The keyslots area has no room for the journal or the hashes.
    NoRoom,
    /// A crash left this zone half-written, and nothing protects it.
    Unprotected {
        /// First byte of the data.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// The hashes or the journal of the hot zone don't fit in their area, or don't fit the zone.
    Protection,
    /// Wiping what is no longer needed failed. The data is complete.
    Wipe(Box<ChangeError>),
    /// The data ends too near to the end of the device for the header to be put in front of it.
    NoSpaceBehind {
        /// Bytes that must be free at the end of the device.
        needs: u64,
        /// Bytes in the device.
        has: u64,
    },
}

impl fmt::Display for ReencryptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Change(e) => e.fmt(f),
            Self::Format(e) => e.fmt(f),
            Self::State(e) => e.fmt(f),
            Self::InProgress => f.write_str("a re-encryption is in progress already"),
            Self::NotDetached => f.write_str("a volume is decrypted by a header that lies in a file of its own"),
            Self::ForeignFront { bytes } => {
                write!(f, "the {bytes} bytes in front of the data are not the header of this volume, and would be overwritten")
            }
            Self::UnknownKind => f.write_str("this kind of re-encryption is not known here"),
            Self::Row => f.write_str("the segments are not those of any step of this re-encryption"),
            Self::NotVerified => f.write_str(
                "the keys don't verify the re-encryption's metadata: somebody without them has changed it",
            ),
            Self::OldKeyGone => f.write_str(
                "a part of the data is still encrypted with the old key, and no keyslot of the old key is left",
            ),
            Self::DeviceSize => {
                f.write_str("the data device is smaller than the re-encryption's segments say")
            }
            Self::Misaligned { size, multiple } => {
                write!(f, "the data has {size} bytes, which is not a multiple of {multiple}")
            }
            Self::Part { asked, of } => {
                write!(f, "it is of {of} bytes of data, and can't be of {asked} alone")
            }
            Self::KeyslotsLeft { slots } => {
                write!(f, "no passphrase was given for keyslots {slots:?}, which would be lost")
            }
            Self::NotKept => f.write_str("no keyslot would hold the new volume key, and it was not given"),
            Self::SameKey => f.write_str("the new volume key is the one that the volume has"),
            Self::NoRoom => f.write_str("the keyslots area has no room for what protects a hot zone"),
            Self::Unprotected { offset, len } => write!(
                f,
                "the {len} bytes of data at {offset} were being rewritten when it stopped, and nothing protects them"
            ),
            Self::Protection => {
                f.write_str("what protects the hot zone does not fit it, or does not fit in its area")
            }
            Self::Wipe(e) => {
                write!(f, "the data is complete, but what is left of it elsewhere can't be wiped: {e}")
            }
            Self::NoSpaceBehind { needs, has } => {
                write!(f, "the device has {has} bytes, which are too few to give up the last {needs} for the header")
            }
        }
    }
}

impl core::error::Error for ReencryptError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Change(cause) | Self::Wipe(cause) => Some(&**cause),
            Self::Format(cause) => Some(&**cause),
            Self::State(cause) => Some(cause),
            _ => None,
        }
    }
}

impl From<ChangeError> for ReencryptError {
    fn from(error: ChangeError) -> Self {
        Self::Change(Box::new(error))
    }
}

impl From<FormatError> for ReencryptError {
    fn from(error: FormatError) -> Self {
        Self::Format(Box::new(error))
    }
}

impl From<ReencryptionFault> for ReencryptError {
    fn from(fault: ReencryptionFault) -> Self {
        Self::State(fault)
    }
}

impl From<UnlockError> for ReencryptError {
    fn from(error: UnlockError) -> Self {
        Self::Change(Box::new(ChangeError::Unlock(error)))
    }
}

impl From<OptionError> for ReencryptError {
    fn from(error: OptionError) -> Self {
        Self::Change(Box::new(ChangeError::Option(error)))
    }
}

impl From<DeviceError> for ReencryptError {
    fn from(error: DeviceError) -> Self {
        Self::Change(Box::new(ChangeError::Device(error)))
    }
}
