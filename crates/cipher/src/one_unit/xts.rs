//! IEEE 1619-2018 XTS for one data unit of any length from 16 bytes on, with ciphertext stealing.

use core::fmt;

use crate::block::Direction;
use crate::key_error::KeyError;
use crate::keyed::AnyKeyed;
use crate::mode::Mode;
use crate::options::MapperOptions;
use crate::run::without_traces_by_depth;
use crate::spec::{Cipher, CipherSpec};

/// A keyed XTS cipher. Wipes itself on drop.
///
/// The standard asks for data units of at most 2^20 blocks (16 MiB); keeping to that is the caller's part.
pub struct Xts(AnyKeyed);

/// Why a data unit was refused. Nothing was written.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XtsError {
    /// XTS is not defined below 16 bytes.
    TooShort {
        /// Bytes in the data unit.
        len: usize,
    },
    /// Source and destination differ in length.
    LengthMismatch {
        /// Bytes in the source.
        src: usize,
        /// Bytes in the destination.
        dst: usize,
    },
}

impl Xts {
    /// Expands a key: that of the data, then one of the same length for the tweaks (32, 48 or 64 bytes in all).
    /// Of the options, those about equal halves and the backend count.
    ///
    /// # Errors
    ///
    /// * [`KeyError::Length`] if the cipher takes no key of this length, or does not go with the mode.
    /// * [`KeyError::NullCipher`] for the null cipher.
    /// * [`KeyError::EqualXtsHalves`] if both halves are the same and the options do not allow that.
    pub fn new(cipher: Cipher, key: &[u8], options: &MapperOptions) -> Result<Self, KeyError> {
        let spec = CipherSpec::plain64(cipher, Mode::Xts);
        AnyKeyed::new(&spec, key, options).map(Self)
    }

    /// Encrypts a data unit in place. The tweak is the unit's number, little-endian, or any other unique value.
    ///
    /// # Errors
    ///
    /// [`XtsError::TooShort`] if the data unit has less than 16 bytes.
    pub fn encrypt(&self, tweak: &[u8; 16], unit: &mut [u8]) -> Result<(), XtsError> {
        self.apply(Direction::Encrypt, tweak, None, unit)
    }

    /// Decrypts a data unit in place.
    ///
    /// # Errors
    ///
    /// [`XtsError::TooShort`] if the data unit has less than 16 bytes.
    pub fn decrypt(&self, tweak: &[u8; 16], unit: &mut [u8]) -> Result<(), XtsError> {
        self.apply(Direction::Decrypt, tweak, None, unit)
    }

    /// Encrypts a data unit from `src` to `dst`, which are equally long.
    ///
    /// # Errors
    ///
    /// * [`XtsError::LengthMismatch`] if source and destination differ in length.
    /// * [`XtsError::TooShort`] if the data unit has less than 16 bytes.
    pub fn encrypt_to(&self, tweak: &[u8; 16], src: &[u8], dst: &mut [u8]) -> Result<(), XtsError> {
        self.apply(Direction::Encrypt, tweak, Some(src), dst)
    }

    /// Decrypts a data unit from `src` to `dst`, which are equally long.
    ///
    /// # Errors
    ///
    /// * [`XtsError::LengthMismatch`] if source and destination differ in length.
    /// * [`XtsError::TooShort`] if the data unit has less than 16 bytes.
    pub fn decrypt_to(&self, tweak: &[u8; 16], src: &[u8], dst: &mut [u8]) -> Result<(), XtsError> {
        self.apply(Direction::Decrypt, tweak, Some(src), dst)
    }

    /// Name of the implementation in use.
    pub fn backend_name(&self) -> &'static str {
        self.0.backend_name()
    }

    fn apply(
        &self,
        direction: Direction,
        tweak: &[u8; 16],
        src: Option<&[u8]>,
        dst: &mut [u8],
    ) -> Result<(), XtsError> {
        if let Some(src) = src.filter(|src| src.len() != dst.len()) {
            return Err(XtsError::LengthMismatch { src: src.len(), dst: dst.len() });
        }
        if dst.len() < 16 {
            return Err(XtsError::TooShort { len: dst.len() });
        }
        without_traces_by_depth(true, || self.0.xts_unit(direction, tweak, src, dst));
        Ok(())
    }
}

impl fmt::Debug for Xts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Xts(..)")
    }
}

impl fmt::Display for XtsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { len } => write!(f, "XTS needs at least 16 bytes, not {len}"),
            Self::LengthMismatch { src, dst } => {
                write!(f, "the source has {src} bytes but the destination has {dst}")
            }
        }
    }
}

impl core::error::Error for XtsError {}
