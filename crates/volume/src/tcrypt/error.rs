//! What can go wrong with a TCRYPT volume alone.

use core::fmt;

use atrest_format::tcrypt::{HeaderError, LayoutError};
use atrest_kdf::tcrypt::TcryptKdfError;

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
    /// The PIM or the password is not one that could be used.
    Kdf(TcryptKdfError),
    /// The password is right, and the header is not acceptable.
    Header(HeaderError),
    /// The password is right, and the data can't be where the header says.
    Layout(LayoutError),
    /// A volume key was given: the header has several, for all its ciphers.
    VolumeKey,
}

impl fmt::Display for TcryptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooSmall { has } => {
                write!(f, "the device has {has} bytes, which is too small for such a header")
            }
            Self::NotOpened { tried } => write!(
                f,
                "nothing here opens with this password ({tried} derivations were tried): it is wrong, or this is no such volume"
            ),
            Self::NothingToTry => f.write_str("no hash or no cipher has the name that was asked for"),
            Self::Kdf(error) => error.fmt(f),
            Self::Header(error) => write!(f, "the password is right, but {error}"),
            Self::Layout(error) => error.fmt(f),
            Self::VolumeKey => f.write_str("a volume key opens no TrueCrypt or VeraCrypt volume"),
        }
    }
}

crate::error::source! { TcryptError: Kdf Header Layout; }
