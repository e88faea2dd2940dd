//! What can go wrong, by the error codes of `lfs.h` and the device's own errors.

use core::fmt;

use atrest_device::{FlashError, FlashGeometry};

use crate::MAX_ATTRIBUTE_LEN;
use crate::check::Damage;

/// Why a medium can't be formatted or mounted.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountError {
    /// The medium failed.
    Flash(FlashError),
    /// The metadata are not what a littlefs writes.
    Damaged(Damage),
    /// The filesystem was made for another medium.
    OtherGeometry {
        /// Bytes in an erase block, by the superblock.
        block_size: u32,
        /// Erase blocks, by the superblock.
        block_count: u32,
        /// What there is.
        device: FlashGeometry,
    },
    /// The on-disk format has a version that is not known.
    Version {
        /// Major in the upper 16 bits, minor in the lower.
        version: u32,
    },
    /// littlefs can't use such a medium: it takes erase blocks of 128 bytes to 16 MiB, two of them at least.
    UnusableGeometry {
        /// The medium's.
        device: FlashGeometry,
    },
    /// The library refused for another reason.
    Refused(LittleFsError),
}

/// Why an operation on a mounted filesystem failed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LittleFsError {
    /// The medium failed.
    Flash(FlashError),
    /// The filesystem is damaged.
    Corrupt,
    /// There is no such entry.
    NotFound,
    /// The entry exists already.
    Exists,
    /// A part of the path is no directory.
    NotADirectory,
    /// It is a directory.
    IsADirectory,
    /// The directory is not empty.
    NotEmpty,
    /// The file would be larger than a file may be.
    TooLarge,
    /// No room is left.
    NoSpace,
    /// The name is longer than the filesystem allows.
    NameTooLong,
    /// The attribute's value is longer than an attribute may be.
    AttributeTooLong {
        /// Bytes it has.
        len: usize,
    },
    /// The path holds a NUL, or the arguments do not go together.
    Invalid,
    /// The file is not open, or not for this.
    NotOpen,
    /// The filesystem is mounted for reading only.
    ReadOnly,
    /// A code that `lfs.h` does not define.
    Unknown {
        /// The code.
        code: i32,
    },
}

/// A filesystem that could not be closed in good order. The medium is as a power loss would have left it.
pub struct UnmountError<D> {
    /// Why.
    pub error: LittleFsError,
    /// The device, to be mounted again.
    pub device: D,
}

impl<D> fmt::Debug for UnmountError<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnmountError").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<D> fmt::Display for UnmountError<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<D> core::error::Error for UnmountError<D> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flash(error) => error.fmt(f),
            Self::Damaged(damage) => write!(f, "no LittleFS, or a damaged one: {damage}"),
            Self::OtherGeometry { block_size, block_count, device } => write!(
                f,
                "the LittleFS has {block_count} blocks of {block_size} bytes, the medium {} of {}",
                device.block_count(),
                device.erase_size()
            ),
            Self::Version { version } => {
                write!(f, "LittleFS version {}.{} is not known", version >> 16, version & 0xffff)
            }
            Self::UnusableGeometry { device } => write!(
                f,
                "LittleFS can't use {} blocks of {} bytes: it takes 2 at least, of 128 bytes to 16 MiB",
                device.block_count(),
                device.erase_size()
            ),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for LittleFsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flash(error) => error.fmt(f),
            Self::Corrupt => f.write_str("the filesystem is damaged"),
            Self::NotFound => f.write_str("no such file or directory"),
            Self::Exists => f.write_str("it exists already"),
            Self::NotADirectory => f.write_str("a part of the path is not a directory"),
            Self::IsADirectory => f.write_str("it is a directory"),
            Self::NotEmpty => f.write_str("the directory is not empty"),
            Self::TooLarge => f.write_str("a file has 2147483647 bytes at most"),
            Self::NoSpace => f.write_str("no space is left in the filesystem"),
            Self::NameTooLong => f.write_str("the name is too long for the filesystem"),
            Self::AttributeTooLong { len } => {
                write!(f, "an attribute has {MAX_ATTRIBUTE_LEN} bytes at most, not {len}")
            }
            Self::Invalid => f.write_str("the filesystem refuses such arguments"),
            Self::NotOpen => f.write_str("the file is not open for this"),
            Self::ReadOnly => f.write_str("the filesystem is mounted for reading only"),
            Self::Unknown { code } => write!(f, "littlefs failed with code {code}"),
        }
    }
}

impl core::error::Error for MountError {}
impl core::error::Error for LittleFsError {}

impl From<FlashError> for MountError {
    fn from(error: FlashError) -> Self {
        Self::Flash(error)
    }
}
