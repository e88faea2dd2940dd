//! Authenticated encryption in place with a detached tag, for media that have room for one: one small trait over library
//! crates, without heap.
//!
//! A pair of key and nonce seals one message, ever. Whoever opens what was forged gets zeros, never plaintext. None of these
//! hides how long the data is. The trait is always here; each cipher stands behind a cargo
//! feature, and the feature `aead` is all of them.
//!
//! | type | feature | specification | key | nonce | tag | longest data |
//! |---|---|---|---|---|---|---|
//! | `AsconAead128` | `ascon` | NIST SP 800-232, section 4 | 16 | 16 | 16 | – |
//! | `ChaCha20Poly1305` | `chacha20poly1305` | RFC 8439, 2.8 | 32 | 12 | 16 | 2^38 - 64 bytes |
//! | `Aes128Gcm`, `Aes256Gcm` | `gcm` | NIST SP 800-38D | 16, 32 | 12 | 16 | 2^36 - 32 bytes |
//! | `Aes128GcmTag96`, `Aes256GcmTag96` | `gcm` | the same | 16, 32 | 12 | 12 | the same |
//! | `Aes128Ccm`, `Aes256Ccm` | `ccm` | NIST SP 800-38C | 16, 32 | 13 | 16 | 65,535 bytes |
//! | `Aes128CcmTag96`, `Aes256CcmTag96` | `ccm` | the same | 16, 32 | 13 | 12 | the same |
//!
//! [`EngineCcm`](crate::EngineCcm) is `Aes128Ccm` or `Aes256Ccm` by an AES peripheral.
//!
//! Tags of 12 bytes are there for units of some hundred bytes: a forgery succeeds with 2^-96 per try (with GCM the more often the
//! longer the data).
//!
//! ```
//! # #[cfg(feature = "ascon")] {
//! use atrest_cipher::aead::{Aead, AsconAead128};
//!
//! let cipher = AsconAead128::new(&[7; 16])?; // a secret, in earnest
//! let mut nonce = [0; 16];
//! nonce[..5].copy_from_slice(&[1, 0, 0, 0, 0]); // a number that never comes again
//! let mut unit = *b"what is to be kept";
//! let tag = cipher.seal(&nonce, b"block 4, unit 2", &mut unit)?;
//! assert!(cipher.open(&nonce, b"block 4, unit 3", &mut unit.clone(), &tag).is_err());
//! cipher.open(&nonce, b"block 4, unit 2", &mut unit, &tag)?;
//! assert_eq!(unit, *b"what is to be kept");
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use core::fmt;

use crate::key_error::KeyError;
#[cfg(any(feature = "ccm", feature = "chacha20poly1305", feature = "gcm"))]
use crate::run::without_traces;

/// A keyed cipher that authenticates what it encrypts, and associated data beside it.
pub trait Aead: Sized {
    /// What people call it.
    const NAME: &'static str;
    /// Bytes in a key.
    const KEY_LEN: usize;
    /// Bytes in a nonce.
    const NONCE_LEN: usize = size_of::<Self::Nonce>();
    /// Bytes in a tag.
    const TAG_LEN: usize = size_of::<Self::Tag>();

    /// An array of bytes; zeros by default.
    type Nonce: Copy + Default + AsRef<[u8]> + AsMut<[u8]>;
    /// An array of bytes.
    type Tag: Copy + AsRef<[u8]> + for<'a> TryFrom<&'a [u8]>;

    /// Takes a key of [`Aead::KEY_LEN`] bytes. The caller wipes its copy.
    ///
    /// # Errors
    ///
    /// [`KeyError::Length`] if the key has another length.
    fn new(key: &[u8]) -> Result<Self, KeyError>;

    /// Encrypts `data` in place and gives the tag of it and of `associated`. No nonce may come twice under one key.
    ///
    /// # Errors
    ///
    /// [`SealError::TooLong`] if the cipher does not take so much data. Nothing is encrypted then.
    /// [`SealError::Engine`] if an AES engine fails. The data is zeros then.
    fn seal(&self, nonce: &Self::Nonce, associated: &[u8], data: &mut [u8]) -> Result<Self::Tag, SealError>;

    /// Decrypts `data` in place if the tag is the one that sealing gave. Otherwise `data` is zeros.
    ///
    /// # Errors
    ///
    /// [`OpenError::Forged`] if the tag does not fit, [`OpenError::Engine`] if an AES engine fails.
    fn open(
        &self,
        nonce: &Self::Nonce,
        associated: &[u8],
        data: &mut [u8],
        tag: &Self::Tag,
    ) -> Result<(), OpenError>;
}

/// Why data was not sealed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealError {
    /// Data or associated data are longer than the cipher takes. Nothing was encrypted.
    TooLong {
        /// Bytes of data.
        data: usize,
        /// Bytes of associated data.
        associated: usize,
    },
    /// The AES engine failed. The data is zeros.
    Engine,
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { data, associated } => {
                write!(f, "the cipher does not take {data} bytes with {associated} of associated data")
            }
            Self::Engine => f.write_str("the AES engine failed"),
        }
    }
}

impl core::error::Error for SealError {}

/// Why data was not opened. What had been data is zeros.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// Data, associated data, nonce, key and tag are not those of one sealing.
    Forged,
    /// The AES engine failed: nobody knows whether the tag fits.
    Engine,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forged => {
                f.write_str("the tag does not fit: the data was changed, moved or sealed with another key")
            }
            Self::Engine => f.write_str("the AES engine failed"),
        }
    }
}

impl core::error::Error for OpenError {}

#[cfg(feature = "ascon")]
mod ascon;
#[cfg(feature = "ascon")]
pub use self::ascon::AsconAead128;

/// Declares the type of a library's cipher.
#[cfg(any(feature = "ccm", feature = "chacha20poly1305", feature = "gcm"))]
macro_rules! library_aead {
    ($(#[$doc:meta])* $name:ident, $text:literal, $inner:ty, $key:literal, $nonce:literal, $tag:literal) => {
        $(#[$doc])*
        pub struct $name($inner);

        impl Aead for $name {
            const NAME: &'static str = $text;
            const KEY_LEN: usize = $key;

            type Nonce = [u8; $nonce];
            type Tag = [u8; $tag];

            fn new(key: &[u8]) -> Result<Self, KeyError> {
                <$inner>::new_from_slice(key).map(Self).map_err(|_| KeyError::Length { len: key.len() })
            }

            fn seal(
                &self,
                nonce: &Self::Nonce,
                associated: &[u8],
                data: &mut [u8],
            ) -> Result<Self::Tag, SealError> {
                let too_long = SealError::TooLong { data: data.len(), associated: associated.len() };
                let tag =
                    without_traces(|| self.0.encrypt_inout_detached(nonce.into(), associated, data.into()));
                tag.map(Into::into).map_err(|_| too_long)
            }

            fn open(
                &self,
                nonce: &Self::Nonce,
                associated: &[u8],
                data: &mut [u8],
                tag: &Self::Tag,
            ) -> Result<(), OpenError> {
                let opened = without_traces(|| {
                    self.0.decrypt_inout_detached(nonce.into(), associated, (&mut *data).into(), tag.into())
                });
                // Whether a library decrypts before it knows is its own affair.
                opened.map_err(|_| {
                    atrest_secret::wipe(data);
                    OpenError::Forged
                })
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }
    };
}

#[cfg(feature = "chacha20poly1305")]
mod chacha20poly1305 {
    use ::chacha20poly1305::aead::{AeadInOut, KeyInit};

    use super::*;

    library_aead!(
        /// ChaCha20 and Poly1305: the fastest in software.
        ChaCha20Poly1305, "ChaCha20-Poly1305", ::chacha20poly1305::ChaCha20Poly1305, 32, 12, 16
    );
}
#[cfg(feature = "chacha20poly1305")]
pub use self::chacha20poly1305::ChaCha20Poly1305;

#[cfg(feature = "gcm")]
mod gcm {
    use aes::{Aes128, Aes256};
    use aes_gcm::aead::consts::{U12, U16};
    use aes_gcm::aead::{AeadInOut, KeyInit};

    use super::*;

    library_aead!(
        /// AES-128 in GCM.
        Aes128Gcm, "AES-128-GCM", aes_gcm::AesGcm<Aes128, U12, U16>, 16, 12, 16
    );
    library_aead!(
        /// AES-256 in GCM.
        Aes256Gcm, "AES-256-GCM", aes_gcm::AesGcm<Aes256, U12, U16>, 32, 12, 16
    );
    library_aead!(
        /// AES-128 in GCM with tags of 96 bits.
        Aes128GcmTag96, "AES-128-GCM, 96-bit tag", aes_gcm::AesGcm<Aes128, U12, U12>, 16, 12, 12
    );
    library_aead!(
        /// AES-256 in GCM with tags of 96 bits.
        Aes256GcmTag96, "AES-256-GCM, 96-bit tag", aes_gcm::AesGcm<Aes256, U12, U12>, 32, 12, 12
    );
}
#[cfg(feature = "gcm")]
pub use self::gcm::{Aes128Gcm, Aes128GcmTag96, Aes256Gcm, Aes256GcmTag96};

#[cfg(feature = "ccm")]
mod ccm {
    use ::ccm::aead::consts::{U12, U13, U16};
    use ::ccm::aead::{AeadInOut, KeyInit};
    use aes::{Aes128, Aes256};

    use super::*;

    library_aead!(
        /// AES-128 in CCM: AES alone, for controllers that have it in hardware.
        Aes128Ccm, "AES-128-CCM", ::ccm::Ccm<Aes128, U16, U13>, 16, 13, 16
    );
    library_aead!(
        /// AES-256 in CCM.
        Aes256Ccm, "AES-256-CCM", ::ccm::Ccm<Aes256, U16, U13>, 32, 13, 16
    );
    library_aead!(
        /// AES-128 in CCM with tags of 96 bits.
        Aes128CcmTag96, "AES-128-CCM, 96-bit tag", ::ccm::Ccm<Aes128, U12, U13>, 16, 13, 12
    );
    library_aead!(
        /// AES-256 in CCM with tags of 96 bits.
        Aes256CcmTag96, "AES-256-CCM, 96-bit tag", ::ccm::Ccm<Aes256, U12, U13>, 32, 13, 12
    );
}
#[cfg(feature = "ccm")]
pub use self::ccm::{Aes128Ccm, Aes128CcmTag96, Aes256Ccm, Aes256CcmTag96};
