//! What can go wrong with a TCRYPT volume alone.

use core::fmt;

use atrest_device::DeviceError;
use atrest_format::tcrypt::{HeaderError, LayoutError};
use atrest_kdf::tcrypt::{Family, TcryptKdfError};
use atrest_kdf::{Hash, KdfError};
use atrest_secret::RandomError;

use crate::UnlockError;

/// Why a TCRYPT volume can't be opened, whatever the password.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcryptError {
    /// The device is too small for a header at its place.
    TooSmall {
        /// Bytes it has.
        has: u64,
    },
    /// Nothing decrypts to a header: the password is wrong, or this is no such volume.
    NotOpened {
        /// Derivations that were tried.
        tried: usize,
    },
    /// No derivation, or no cipher, has the name that was asked for.
    NothingToTry,
    /// The hash that was asked for is the Argon2id of VeraCrypt 1.26.27 and later.
    Argon2,
    /// The PIM or the password is not one that could be used.
    Kdf(TcryptKdfError),
    /// The password is right, and the header is not acceptable.
    Header(HeaderError),
    /// The password is right, and the data can't be where the header says.
    Layout(LayoutError),
    /// What was opened to be protected is no hidden volume in the one that is to be written.
    NotInside,
    /// A volume key was given: the header has several, for all its ciphers.
    VolumeKey,
}

impl fmt::Display for TcryptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooSmall { has } => {
                write!(f, "the device has {has} bytes, which is too small for such a header")
            }
            Self::NotOpened { tried } => {
                let derivations = if *tried == 1 { "derivation was" } else { "derivations were" };
                write!(
                    f,
                    "nothing here opens with this password ({tried} {derivations} tried): it is wrong, or this is no such volume"
                )
            }
            Self::NothingToTry => f.write_str("no hash or no cipher has the name that was asked for"),
            Self::Argon2 => {
                f.write_str("volumes whose key VeraCrypt derives with Argon2id are not opened here")
            }
            Self::Kdf(error) => error.fmt(f),
            Self::Header(error) => write!(f, "the password is right, but {error}"),
            Self::Layout(error) => error.fmt(f),
            Self::NotInside => f.write_str("the hidden volume does not lie in the volume that was opened"),
            Self::VolumeKey => f.write_str("a volume key opens no TrueCrypt or VeraCrypt volume"),
        }
    }
}

crate::error::source! { TcryptError: Kdf Header Layout; }

/// Why a header could not be made or changed.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcryptWriteError {
    /// The device failed. It may hold a part of what was to be written.
    Device(DeviceError),
    /// The random source failed.
    Random,
    /// A key could not be derived.
    Kdf(KdfError),
    /// A password or PIM that can't be used.
    Tcrypt(TcryptError),
    /// The volume would not open.
    Unlock(Box<UnlockError>),
    /// Neither a password nor a key file.
    Empty,
    /// The program derives no key with this hash, or does not any more.
    Hash {
        /// The program.
        family: Family,
        /// The hash.
        hash: Hash,
    },
    /// The header has no copy: changing it would put the volume at risk.
    NoCopy,
    /// The data does not lie between the header and its copy: the device is shorter than the one that the volume was made on.
    Truncated {
        /// Where the copy would be.
        copy: u64,
    },
    /// The device is too small for a volume.
    TooSmall {
        /// Bytes it has.
        has: u64,
        /// Bytes it needs.
        needs: u64,
    },
    /// The device has no whole number of sectors, or sectors that no volume has.
    Sectors {
        /// Bytes of the device.
        size: u64,
        /// Bytes of a sector.
        sector: u32,
    },
    /// There is no room for a hidden volume of this size.
    Hidden {
        /// Bytes asked for.
        size: u64,
        /// Bytes of the smallest.
        least: u64,
        /// Bytes of the largest.
        most: u64,
        /// What they are a multiple of.
        sector: u32,
    },
}

impl fmt::Display for TcryptWriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => error.fmt(f),
            Self::Random => f.write_str("the random source failed"),
            Self::Kdf(error) => error.fmt(f),
            Self::Tcrypt(error) => error.fmt(f),
            Self::Unlock(error) => error.fmt(f),
            Self::Empty => f.write_str("a volume needs a password or a key file"),
            Self::Hash { family, hash } => write!(f, "{family} makes no volume with {hash} (or none with a PIM)"),
            Self::NoCopy => f.write_str("the volume has no copy of its header: it is an encrypted system, or older than TrueCrypt 6.0"),
            Self::Truncated { copy } => write!(
                f,
                "the copy of the header would be at byte {copy}, and not behind the volume's data: the end of the device is missing"
            ),
            Self::TooSmall { has, needs } => {
                write!(f, "the device has {has} bytes, and a volume needs {needs}")
            }
            Self::Sectors { size, sector } => {
                write!(f, "{size} bytes are no whole number of sectors of {sector} bytes that a volume can have")
            }
            Self::Hidden { size, least, most, sector } => write!(
                f,
                "a hidden volume has {least} to {most} bytes here, in whole sectors of {sector}, and not {size}"
            ),
        }
    }
}

impl From<UnlockError> for TcryptWriteError {
    fn from(error: UnlockError) -> Self {
        Self::Unlock(Box::new(error))
    }
}

impl From<DeviceError> for TcryptWriteError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl From<TcryptError> for TcryptWriteError {
    fn from(error: TcryptError) -> Self {
        Self::Tcrypt(error)
    }
}

impl From<KdfError> for TcryptWriteError {
    fn from(error: KdfError) -> Self {
        Self::Kdf(error)
    }
}

impl From<RandomError> for TcryptWriteError {
    fn from(_: RandomError) -> Self {
        Self::Random
    }
}

crate::error::source! { TcryptWriteError: Device Kdf Tcrypt Unlock; }
