//! A volume of LUKS1 made one of LUKS2 where it is, and back. The data, the volume key and the passphrases stay.
//!
//! A power loss at any moment leaves a header of one version or the other, which opens with every passphrase, on media that write a
//! 512-byte sector whole or not at all:
//!
//! 1. No keyslot that is in use has its area in the place of what is written next. [`to_luks2`] moves one that has: it copies the area
//!    first, and then changes the sector of the old header that says where it is.
//! 2. The first sector says which version counts. It is written alone, after everything that it makes count is durable, and before
//!    anything is overwritten that counted until then.
//! 3. What is left of the old version is overwritten last.
//!
//! Keyslot areas that lie where LUKS1 could have none are moved before, while the header is one of LUKS2.

mod arrange;
mod kept;
mod marker;
mod to_luks1;
mod to_luks2;

use core::fmt;

use atrest_device::{DeviceError, LockMode, Media};
use atrest_format::luks2::HeaderError;

use crate::detect::version;
use crate::lock::MetadataLock;
use crate::{ChangeError, LockedVolume, OpenError, VolumeFormat};

pub use kept::{Front, durable_front, export_meanwhile, front, import, set_aside, uuid_set_aside};

/// Bytes of the first sector, which says which version of LUKS a header is of.
const SECTOR: usize = 512;

/// Makes the volume one of that version. Nobody may have it open.
///
/// # Errors
/// [`ConvertError::Same`] if it is of that version, [`ConvertError::Cannot`] if the version has no way to say what this volume's header
/// says, or if there is no room: nothing was written. [`ConvertError::Change`] if the header can't be read, or if the device fails;
/// then it is a volume of the one version or the other.
pub fn convert(header: &dyn Media, to: VolumeFormat) -> Result<LockedVolume, ConvertError> {
    convert_as(header, to, false)
}

/// Makes a volume of LUKS1 one of LUKS2 for the time of a re-encryption. Its header says so ([`Luks2::was_luks1`](crate::luks2::Luks2::was_luks1))
/// until [`convert`] makes it one of LUKS1 again, whose keyslots have their numbers again.
///
/// # Errors
/// As [`convert`].
pub fn convert_meanwhile(header: &dyn Media) -> Result<LockedVolume, ConvertError> {
    convert_as(header, VolumeFormat::Luks2, true)
}

fn convert_as(header: &dyn Media, to: VolumeFormat, meanwhile: bool) -> Result<LockedVolume, ConvertError> {
    let lock = MetadataLock::take(header, LockMode::Exclusive)?;
    let is = if version(header) == Some(1) { VolumeFormat::Luks1 } else { VolumeFormat::Luks2 };
    match to {
        to if to == is => return Err(ConvertError::Same { is }),
        VolumeFormat::Luks1 => to_luks1::to_luks1(header)?,
        VolumeFormat::Luks2 => to_luks2::to_luks2(header, meanwhile)?,
        VolumeFormat::Plain
        | VolumeFormat::Tcrypt
        | VolumeFormat::LoopAes
        | VolumeFormat::BitLocker
        | VolumeFormat::FileVault => {
            return Err(Obstacle::NoHeader.into());
        }
    }
    // Reading takes it again.
    drop(lock);
    Ok(LockedVolume::read(header)?)
}

/// Why a volume was not converted.
#[non_exhaustive]
#[derive(Debug, PartialEq, Eq)]
pub enum ConvertError {
    /// It is of that version already.
    Same {
        /// Which.
        is: VolumeFormat,
    },
    /// The other version can't express it, or has no room for it.
    Cannot(Obstacle),
    /// The header can't be read or changed.
    Change(ChangeError),
}

/// What keeps a volume from being one of the other version.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// A copy of the header is damaged.
    Damaged,
    /// The volume would have no header any more.
    NoHeader,
    /// The data is not one segment up to the end of the device, with IVs from 0 on and without integrity tags.
    Segments,
    /// Data units are not of 512 bytes.
    DataUnit {
        /// Bytes in them.
        bytes: u32,
    },
    /// LUKS1 has no name for the cipher.
    Cipher,
    /// There are several digests, or one of another kind.
    Digests,
    /// The keyslot has a number from 8 on, another key derivation than PBKDF2 with the digest's hash, another cipher than the data, a
    /// priority, or a place that the other version can't express.
    Keyslot {
        /// Its number.
        slot: u32,
    },
    /// No keyslot is in use.
    NoKeyslot,
    /// The header has tokens.
    Tokens,
    /// The header has a label, a subsystem or persistent flags.
    Texts,
    /// The header requires something that the other version knows nothing of.
    Requirements,
    /// The header lies in a file already, and its data elsewhere.
    Detached,
    /// In front of the data is no header of which the one in a file was made.
    OtherFront,
    /// The header in front of the data counts, and is of a later time than the one in a file.
    LaterFront,
    /// There is no room for a keyslot area that would have to move, or for all eight of them.
    NoRoom,
}

impl fmt::Display for ConvertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same { is: VolumeFormat::Luks1 } => f.write_str("it is a volume of LUKS1 already"),
            Self::Same { .. } => f.write_str("it is a volume of LUKS2 already"),
            Self::Cannot(obstacle) => write!(f, "it can't be converted: {obstacle}"),
            Self::Change(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged => f.write_str("a copy of the header is damaged"),
            Self::NoHeader => f.write_str("a plain volume has no header"),
            Self::Segments => f.write_str(
                "LUKS1 has one segment of data up to the end, with IVs from 0 on and without tags",
            ),
            Self::DataUnit { bytes } => {
                write!(f, "LUKS1 has sectors of 512 bytes, and this volume has {bytes}")
            }
            Self::Cipher => f.write_str("LUKS1 has no name for the cipher"),
            Self::Digests => f.write_str("LUKS1 has one digest, by PBKDF2"),
            Self::Keyslot { slot } => write!(
                f,
                "the other version has no keyslot such as number {slot}: of LUKS1 they are 0 to 7, all by PBKDF2 with one hash, under the \
                 cipher of the data, in whole blocks of 4096 bytes, and without priorities"
            ),
            Self::NoKeyslot => f.write_str("no keyslot is in use"),
            Self::Tokens => f.write_str("LUKS1 has no tokens"),
            Self::Texts => f.write_str("LUKS1 has no label, no subsystem and no persistent flags"),
            Self::Requirements => f.write_str("the header requires what LUKS1 knows nothing of"),
            Self::Detached => f.write_str("the header lies in a file already"),
            Self::OtherFront => {
                f.write_str("in front of the data is not the header of which this one was made")
            }
            Self::LaterFront => {
                f.write_str("the header in front of the data counts, and is newer than this one")
            }
            Self::NoRoom => f.write_str("there is no room for the keyslot areas between header and data"),
        }
    }
}

impl core::error::Error for ConvertError {}

impl From<Obstacle> for ConvertError {
    fn from(obstacle: Obstacle) -> Self {
        Self::Cannot(obstacle)
    }
}

impl From<ChangeError> for ConvertError {
    fn from(error: ChangeError) -> Self {
        Self::Change(error)
    }
}

impl From<OpenError> for ConvertError {
    fn from(error: OpenError) -> Self {
        Self::Change(error.into())
    }
}

impl From<DeviceError> for ConvertError {
    fn from(error: DeviceError) -> Self {
        Self::Change(error.into())
    }
}

impl From<HeaderError> for ConvertError {
    fn from(error: HeaderError) -> Self {
        Self::Change(ChangeError::Header(error))
    }
}
