//! CBC with ciphertext stealing for one data unit of any length from 16 bytes on: what fscrypt calls `AES-256-CBC-CTS` and
//! `AES-128-CBC-CTS`, and encrypts file names with.

use core::fmt;

use crate::block::Direction;
use crate::key_error::KeyError;
use crate::keyed::AnyKeyed;
use crate::mode::Mode;
use crate::options::MapperOptions;
use crate::run::without_traces;
use crate::spec::{Cipher, CipherSpec};

/// Why a data unit was refused. Nothing was written.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CtsError {
    /// There is no block to steal from.
    TooShort {
        /// Bytes in the data unit.
        len: usize,
    },
}

impl fmt::Display for CtsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { len } => {
                write!(f, "CBC with ciphertext stealing needs at least 16 bytes, not {len}")
            }
        }
    }
}

impl core::error::Error for CtsError {}

/// A keyed cipher in CBC with ciphertext stealing, in the form CBC-CS3. Wipes itself on drop.
pub struct CbcCts(AnyKeyed);

impl CbcCts {
    /// Expands a key, of a cipher with blocks of 16 bytes. Of the options, the backend counts.
    ///
    /// # Errors
    ///
    /// * [`KeyError::Length`] if the cipher takes no key of this length, or has other blocks.
    /// * [`KeyError::NullCipher`] for the null cipher.
    pub fn new(cipher: Cipher, key: &[u8], options: &MapperOptions) -> Result<Self, KeyError> {
        if cipher.has_short_blocks() {
            return Err(KeyError::Length { len: key.len() });
        }
        AnyKeyed::new(&CipherSpec::plain64(cipher, Mode::Cbc), key, options).map(Self)
    }

    /// Encrypts a data unit in place.
    ///
    /// # Errors
    ///
    /// [`CtsError::TooShort`] if the data unit has less than 16 bytes.
    pub fn encrypt(&self, iv: &[u8; 16], unit: &mut [u8]) -> Result<(), CtsError> {
        self.apply(Direction::Encrypt, iv, unit)
    }

    /// Decrypts a data unit in place.
    ///
    /// # Errors
    ///
    /// [`CtsError::TooShort`] if the data unit has less than 16 bytes.
    pub fn decrypt(&self, iv: &[u8; 16], unit: &mut [u8]) -> Result<(), CtsError> {
        self.apply(Direction::Decrypt, iv, unit)
    }

    /// Name of the implementation in use.
    pub fn backend_name(&self) -> &'static str {
        self.0.backend_name()
    }

    fn apply(&self, direction: Direction, iv: &[u8; 16], unit: &mut [u8]) -> Result<(), CtsError> {
        if unit.len() < 16 {
            return Err(CtsError::TooShort { len: unit.len() });
        }
        without_traces(|| self.0.cts_unit(direction, iv, unit));
        Ok(())
    }
}

impl fmt::Debug for CbcCts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CbcCts(..)")
    }
}
