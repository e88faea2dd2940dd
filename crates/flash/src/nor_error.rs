//! Why a flash device is no `NorFlash`, and how its errors are told to users of that trait.

use core::fmt;

use atrest_device::{FlashCause, FlashError, FlashGeometry};
use embedded_storage::nor_flash::{NorFlashError, NorFlashErrorKind};

/// Why a device can't be a `NorFlash`.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NorError {
    /// The units that were compiled in are not those of the device.
    OtherGeometry {
        /// That of the device.
        device: FlashGeometry,
    },
    /// Blank units do not read as 0xFF, which users of the trait rely on. An encrypting device makes them do so with
    /// [`BlankReads::Erased`](crate::BlankReads::Erased).
    NotErasedToOnes,
    /// The trait has 32-bit addresses.
    TooLarge {
        /// Bytes of the device.
        size: u64,
    },
}

/// A failed operation, for users of the trait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NorDriverError(pub FlashError);

impl NorFlashError for NorDriverError {
    fn kind(&self) -> NorFlashErrorKind {
        match self.0.cause {
            FlashCause::Misaligned { .. } => NorFlashErrorKind::NotAligned,
            FlashCause::OutOfBounds { .. } => NorFlashErrorKind::OutOfBounds,
            _ => NorFlashErrorKind::Other,
        }
    }
}

impl fmt::Display for NorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherGeometry { device } => write!(
                f,
                "the program was compiled for other units than those of the device: read {}, program {}, erase {}",
                device.read_size(),
                device.prog_size(),
                device.erase_size()
            ),
            Self::NotErasedToOnes => f.write_str("blank units of the device do not read as 0xFF"),
            Self::TooLarge { size } => write!(f, "{size} bytes cannot be addressed with 32 bits"),
        }
    }
}

impl core::error::Error for NorError {}

impl fmt::Display for NorDriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl core::error::Error for NorDriverError {}
