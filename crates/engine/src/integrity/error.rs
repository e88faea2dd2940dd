//! Why data units with tags can't be opened or laid out.

use core::fmt;

use atrest_device::DeviceError;
use atrest_format::integrity::{JournalError, LayoutError, SuperblockError};
use atrest_volume::integrity::JournalCipherError;

/// A device with tags is not as it must be. Nothing was written.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntegrityError {
    /// The media failed.
    Device(DeviceError),
    /// The superblock can't be used.
    Superblock(SuperblockError),
    /// What the superblock describes does not lie on the device.
    Layout(LayoutError),
    /// The journal can't be used.
    Journal(JournalError),
    /// The journal has no such cipher.
    Cipher(JournalCipherError),
    /// A cipher was named for the journal, in whose place there is a bitmap or is to be one, which nothing encrypts.
    BitmapCipher,
    /// The tags are not those of the volume.
    Tags {
        /// Bytes of tag that the superblock names.
        stored: usize,
        /// Bytes that the volume's cipher or hash makes.
        wanted: usize,
    },
    /// The data units are not those of the volume.
    DataUnit {
        /// Bytes in one by the superblock.
        stored: usize,
        /// Bytes in one by the volume.
        wanted: usize,
    },
    /// The journal has a keyed hash, and no key was given for it, or the other way round.
    JournalKey {
        /// Whether it has one.
        stored: bool,
    },
    /// The superblock's keyed hash is wrong: the key of the journal is, or somebody changed the superblock.
    SuperblockMac,
    /// Tags are missing from a sector on, so data is not checked there, which the caller does not allow.
    Recalculating {
        /// The sector.
        sector: u64,
    },
    /// It was not closed in bitmap mode: which tags are wrong is written down, but not what they should be.
    DirtyBitmap,
    /// The data is so long, or the journal so short, that a bitmap does not fit there.
    Bitmap,
    /// The superblock's place holds something else, which is not overwritten.
    NotEmpty,
    /// The random source failed.
    Random,
}

macro_rules! from {
    ($($variant:ident($cause:ty),)*) => {
        $(impl From<$cause> for IntegrityError {
            fn from(cause: $cause) -> Self {
                Self::$variant(cause)
            }
        })*

        impl core::error::Error for IntegrityError {
            fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
                match self {
                    $(Self::$variant(cause) => Some(cause),)*
                    _ => None,
                }
            }
        }
    };
}

from! { Device(DeviceError), Superblock(SuperblockError), Layout(LayoutError), Journal(JournalError),
Cipher(JournalCipherError), }

impl fmt::Display for IntegrityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => error.fmt(f),
            Self::Superblock(error) => error.fmt(f),
            Self::Layout(error) => error.fmt(f),
            Self::Journal(error) => error.fmt(f),
            Self::Cipher(error) => error.fmt(f),
            Self::BitmapCipher => f.write_str("in bitmap mode there is no journal that could be encrypted"),
            Self::Tags { stored, wanted } => {
                write!(f, "dm-integrity's superblock has tags of {stored} bytes, and the volume of {wanted}")
            }
            Self::DataUnit { stored, wanted } => {
                write!(f, "dm-integrity's superblock has data units of {stored} bytes, and the volume of {wanted}")
            }
            Self::JournalKey { stored: true } => f.write_str("the journal has a keyed hash, whose key is missing"),
            Self::JournalKey { stored: false } => f.write_str("the journal has no keyed hash, and a key was given"),
            Self::SuperblockMac => f.write_str(
                "the keyed hash of dm-integrity's superblock is wrong: the journal's key is, or it was changed",
            ),
            Self::Recalculating { sector } => {
                write!(f, "tags are missing from sector {sector} on, so the data there can't be checked")
            }
            Self::DirtyBitmap => {
                f.write_str("it was written in bitmap mode and not closed, so tags are wrong where it was written last")
            }
            Self::Bitmap => f.write_str("a bitmap for as much data does not fit in the journal's place"),
            Self::NotEmpty => f.write_str("the first 4096 bytes are not zeros, so something else may be there"),
            Self::Random => f.write_str("the random source failed"),
        }
    }
}
