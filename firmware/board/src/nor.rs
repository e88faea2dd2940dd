//! A chip of NOR flash in RAM that no section of a program lies in, behind the trait that drivers of chips implement.

use embedded_storage::nor_flash::{ErrorType, NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash};

/// Where the RAM begins that programs leave to media.
#[cfg(target_arch = "arm")]
pub const MEDIA: usize = 0x2100_0000;
/// Where the RAM begins that programs leave to media.
#[cfg(target_arch = "riscv32")]
pub const MEDIA: usize = 0x8200_0000;

/// `BYTES` of flash, `AT` bytes into the RAM for media: erased to ones in blocks of 4 KiB, programmed once in units of 16 bytes.
pub struct Nor<const AT: usize, const BYTES: usize>(&'static mut [u8; BYTES]);

/// Why the chip did not do what it was asked for.
#[derive(Clone, Copy, Debug)]
pub enum NorError {
    /// There is no such range, or no such units.
    Range,
    /// A unit was not erased before it was programmed.
    Programmed,
}

impl<const AT: usize, const BYTES: usize> Nor<AT, BYTES> {
    /// Takes it.
    ///
    /// # Safety
    ///
    /// Nobody takes it twice, nor another one that shares bytes with it.
    pub unsafe fn take() -> Self {
        // SAFETY: RAM of the board which no section of the program lies in, and the caller's promise.
        Self(unsafe { &mut *((MEDIA + AT) as *mut [u8; BYTES]) })
    }

    fn range(&mut self, from: u32, len: usize, unit: usize) -> Result<&mut [u8], NorError> {
        let from = from as usize;
        if !from.is_multiple_of(unit) || !len.is_multiple_of(unit) {
            return Err(NorError::Range);
        }
        let end = from.checked_add(len).ok_or(NorError::Range)?;
        self.0.get_mut(from..end).ok_or(NorError::Range)
    }
}

impl<const AT: usize, const BYTES: usize> ErrorType for Nor<AT, BYTES> {
    type Error = NorError;
}

impl NorFlashError for NorError {
    fn kind(&self) -> NorFlashErrorKind {
        NorFlashErrorKind::Other
    }
}

impl<const AT: usize, const BYTES: usize> ReadNorFlash for Nor<AT, BYTES> {
    const READ_SIZE: usize = 1;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), NorError> {
        let len = bytes.len();
        bytes.copy_from_slice(self.range(offset, len, Self::READ_SIZE)?);
        Ok(())
    }

    fn capacity(&self) -> usize {
        BYTES
    }
}

impl<const AT: usize, const BYTES: usize> NorFlash for Nor<AT, BYTES> {
    const WRITE_SIZE: usize = 16;
    const ERASE_SIZE: usize = 4096;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), NorError> {
        let len = to.checked_sub(from).ok_or(NorError::Range)? as usize;
        self.range(from, len, Self::ERASE_SIZE)?.fill(0xff);
        Ok(())
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), NorError> {
        let units = self.range(offset, bytes.len(), Self::WRITE_SIZE)?;
        if units.iter().any(|byte| *byte != 0xff) {
            return Err(NorError::Programmed);
        }
        units.copy_from_slice(bytes);
        Ok(())
    }
}
