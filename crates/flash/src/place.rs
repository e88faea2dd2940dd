//! Which data unit a byte of a medium lies in. FORMATS.md, "Encrypted flash": unit u is bytes u × size to (u + 1) × size.

#[cfg(any(feature = "embedded-sdmmc", feature = "block-device-driver"))]
use core::fmt;
use core::num::NonZeroU64;

use atrest_cipher::DataUnitIndex;
#[cfg(any(feature = "embedded-sdmmc", feature = "block-device-driver"))]
use atrest_cipher::{DataUnitCipher, RunError};

/// The data units of a medium: bytes in each.
#[derive(Clone, Copy)]
pub(crate) struct Units(NonZeroU64);

impl Units {
    /// None if a unit has no bytes.
    pub(crate) fn new(data_unit: usize) -> Option<Self> {
        NonZeroU64::new(data_unit as u64).map(Self)
    }

    /// The unit in which an address lies, and how many bytes of it come before.
    pub(crate) fn place(self, address: u64) -> (DataUnitIndex, usize) {
        // The remainder is less than the data unit, which is a usize.
        (DataUnitIndex(address / self.0), (address % self.0) as usize)
    }
}

/// A cipher that is asked by address.
#[cfg(any(feature = "embedded-sdmmc", feature = "block-device-driver"))]
pub(crate) struct Placed<C> {
    cipher: C,
    units: Units,
}

#[cfg(any(feature = "embedded-sdmmc", feature = "block-device-driver"))]
impl<C: DataUnitCipher> Placed<C> {
    /// None if the cipher's data unit has no bytes.
    pub(crate) fn new(cipher: C) -> Option<Self> {
        let units = Units::new(cipher.data_unit())?;
        Some(Self { cipher, units })
    }

    /// Encrypts what lies at an address, in one run.
    pub(crate) fn encrypt(&self, address: u64, bytes: &mut [u8]) -> Result<(), RunError> {
        let (unit, offset) = self.units.place(address);
        self.cipher.encrypt_at(unit, offset, bytes)
    }

    /// Decrypts what lies at an address, in one run.
    pub(crate) fn decrypt(&self, address: u64, bytes: &mut [u8]) -> Result<(), RunError> {
        let (unit, offset) = self.units.place(address);
        self.cipher.decrypt_at(unit, offset, bytes)
    }
}

/// Why an encrypted card could not be set up.
#[cfg(any(feature = "embedded-sdmmc", feature = "block-device-driver"))]
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardSetupError {
    /// The cipher can't encrypt a block of the card without its neighbours.
    Granularity {
        /// Bytes that the cipher takes at least.
        granularity: usize,
        /// Bytes in a block of the card.
        block: usize,
    },
    /// The bounce buffer has no room for a block.
    BounceTooSmall {
        /// Bytes that are needed.
        needs: usize,
        /// Bytes that there are.
        has: usize,
    },
}

/// Why a transfer to or from an encrypted card failed.
#[cfg(any(feature = "embedded-sdmmc", feature = "block-device-driver"))]
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardError<E> {
    /// The card's own error.
    Card(E),
    /// The cipher refused.
    Cipher(RunError),
    /// The block lies behind the last one that can be addressed.
    OutOfBounds {
        /// Number of the block.
        block: u64,
    },
}

#[cfg(any(feature = "embedded-sdmmc", feature = "block-device-driver"))]
impl fmt::Display for CardSetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granularity { granularity, block } => {
                write!(f, "the cipher takes {granularity} bytes at least, a block of the card has {block}")
            }
            Self::BounceTooSmall { needs, has } => {
                write!(f, "the bounce buffer has {has} bytes, {needs} are needed")
            }
        }
    }
}

#[cfg(any(feature = "embedded-sdmmc", feature = "block-device-driver"))]
impl core::error::Error for CardSetupError {}

#[cfg(any(feature = "embedded-sdmmc", feature = "block-device-driver"))]
impl<E: fmt::Display> fmt::Display for CardError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Card(error) => write!(f, "the card failed: {error}"),
            Self::Cipher(error) => write!(f, "the cipher refused: {error}"),
            Self::OutOfBounds { block } => write!(f, "block {block} cannot be addressed"),
        }
    }
}

#[cfg(any(feature = "embedded-sdmmc", feature = "block-device-driver"))]
impl<E: core::error::Error> core::error::Error for CardError<E> {}
