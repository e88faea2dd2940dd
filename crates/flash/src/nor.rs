//! A flash device as embedded-storage's `NorFlash`.

use core::fmt;

use atrest_device::{FlashCause, FlashError, FlashOperation};
use embedded_storage::nor_flash::ErrorType;

use super::{FlashDevice, NorFlash, ReadNorFlash, twin};
use crate::nor_error::{NorDriverError, NorError};

/// A [`FlashDevice`] as a [`NorFlash`] with these units. Never as a `MultiwriteNorFlash`: a unit of ciphertext can't be written
/// twice.
pub struct NorStorage<D, const READ: usize, const PROG: usize, const ERASE: usize> {
    device: D,
}

#[twin]
impl<D: FlashDevice, const READ: usize, const PROG: usize, const ERASE: usize>
    NorStorage<D, READ, PROG, ERASE>
{
    /// Looks whether the device has these units, is addressable and reads as 0xFF where it is blank.
    ///
    /// # Errors
    /// [`NorError::OtherGeometry`] if the device has other units, [`NorError::NotErasedToOnes`] if blank
    /// units do not read as 0xFF, [`NorError::TooLarge`] if 32 bits do not address it.
    pub fn new(device: D) -> Result<Self, NorError> {
        let sizes = device.geometry();
        let units = [sizes.read_size(), sizes.prog_size(), sizes.erase_size()].map(|size| size as usize);
        if units != [READ, PROG, ERASE] {
            return Err(NorError::OtherGeometry { device: sizes });
        }
        if device.erased_byte() != Some(0xff) {
            return Err(NorError::NotErasedToOnes);
        }
        if u32::try_from(sizes.size()).is_err() || usize::try_from(sizes.size()).is_err() {
            return Err(NorError::TooLarge { size: sizes.size() });
        }
        Ok(Self { device })
    }

    /// Gives the device back.
    pub fn into_device(self) -> D {
        self.device
    }

    /// The device, to use past the trait.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    fn size(&self) -> usize {
        // cannot be more: it was looked at when this was made.
        usize::try_from(self.device.geometry().size()).unwrap_or(usize::MAX)
    }

    async fn erase_range(&mut self, from: u32, to: u32) -> Result<(), NorDriverError> {
        let (from, to) = (u64::from(from), u64::from(to));
        let Some(len) = to.checked_sub(from) else {
            let cause = FlashCause::OutOfBounds { size: self.device.geometry().size() };
            return Err(NorDriverError(FlashError::new(FlashOperation::Erase, from, 0, cause)));
        };
        self.device.erase(from, len).await.map_err(NorDriverError)
    }
}

impl<D, const READ: usize, const PROG: usize, const ERASE: usize> ErrorType
    for NorStorage<D, READ, PROG, ERASE>
{
    type Error = NorDriverError;
}

#[twin]
impl<D: FlashDevice, const READ: usize, const PROG: usize, const ERASE: usize> ReadNorFlash
    for NorStorage<D, READ, PROG, ERASE>
{
    const READ_SIZE: usize = READ;

    async fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), NorDriverError> {
        self.device.read(u64::from(offset), bytes).await.map_err(NorDriverError)
    }

    fn capacity(&self) -> usize {
        self.size()
    }
}

#[twin]
impl<D: FlashDevice, const READ: usize, const PROG: usize, const ERASE: usize> NorFlash
    for NorStorage<D, READ, PROG, ERASE>
{
    const WRITE_SIZE: usize = PROG;
    const ERASE_SIZE: usize = ERASE;

    async fn erase(&mut self, from: u32, to: u32) -> Result<(), NorDriverError> {
        self.erase_range(from, to).await
    }

    async fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), NorDriverError> {
        self.device.prog(u64::from(offset), bytes).await.map_err(NorDriverError)
    }
}

impl<D, const READ: usize, const PROG: usize, const ERASE: usize> fmt::Debug
    for NorStorage<D, READ, PROG, ERASE>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NorStorage(..)")
    }
}
