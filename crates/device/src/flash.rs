//! Flash as a driver sees it: reads, programs and erases in units of the medium, never an overwrite.

use super::twin;
use crate::{FlashCause, FlashError, FlashGeometry, FlashOperation};

/// A medium that is erased in blocks and programmed in units, each unit once between two erases of its block.
///
/// Addresses and lengths are bytes. They have to be multiples of what [`geometry`](Self::geometry) says, or the operation
/// is refused before anything has happened. An operation transfers everything or fails; what a failed program or
/// erase leaves in its range is unspecified, what lies outside is untouched. Reading takes `&mut self` because a bus does.
#[twin]
#[allow(async_fn_in_trait, reason = "executors of microcontrollers have one thread")]
pub trait FlashDevice {
    /// Sizes of the medium. They never change.
    fn geometry(&self) -> FlashGeometry;

    /// Fills `buf` from `address`.
    ///
    /// # Errors
    /// [`FlashCause::OutOfBounds`] or [`FlashCause::Misaligned`] if the range can't be read,
    /// [`FlashCause::Uncorrectable`] if the medium has lost bits. An authenticating layer adds
    /// [`FlashCause::Tampered`]. What `buf` holds then is undefined.
    async fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError>;

    /// Programs units that are blank.
    ///
    /// # Errors
    /// [`FlashCause::OutOfBounds`] or [`FlashCause::Misaligned`] if the range can't be programmed,
    /// [`FlashCause::ReadOnly`] if the medium is protected. [`FlashCause::AlreadyProgrammed`] if a unit is not
    /// blank and the medium notices it, [`FlashCause::BadBlock`] if the block has gone bad.
    async fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError>;

    /// Erases whole blocks. Their units are blank afterwards.
    ///
    /// # Errors
    /// [`FlashCause::OutOfBounds`] or [`FlashCause::Misaligned`] if the range is not one of whole blocks,
    /// [`FlashCause::ReadOnly`] if the medium is protected, [`FlashCause::BadBlock`] if a block has gone bad.
    async fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError>;

    /// Makes every finished program and erase durable. Until then a medium with a cache of its own may lose any of them.
    ///
    /// # Errors
    /// What was programmed or erased since the last call may be lost. The cause is the medium's.
    async fn sync(&mut self) -> Result<(), FlashError>;

    /// What every byte of a blank unit reads as: 0xFF on NOR and most NAND. None where blank units read as something that
    /// cannot be told from data: data flash whose erased cells read undefined, or an encrypting layer.
    fn erased_byte(&self) -> Option<u8> {
        Some(0xff)
    }

    /// Whether all prog units of a range are blank: erased, and not programmed since.
    ///
    /// `scratch` has room for a prog unit or more; what it holds afterwards is unspecified. The default reads the units and
    /// compares them with [`erased_byte`](Self::erased_byte), to which a unit programmed with nothing else is equal; parts
    /// with a blank check in hardware should ask that.
    ///
    /// # Errors
    /// [`FlashCause::OutOfBounds`] or [`FlashCause::Misaligned`] unless the range is one of whole prog units. The
    /// default adds [`FlashCause::Unsupported`] without an erased byte, [`FlashCause::BufferTooSmall`] if `scratch`
    /// has no room for a prog unit, and the errors of [`read`](Self::read).
    async fn is_blank(&mut self, address: u64, len: u64, scratch: &mut [u8]) -> Result<bool, FlashError> {
        let geometry = self.geometry();
        let failed = |cause| FlashError::new(FlashOperation::BlankQuery, address, len, cause);
        geometry.check(FlashOperation::BlankQuery, address, len)?;
        let Some(erased) = self.erased_byte() else { return Err(failed(FlashCause::Unsupported)) };
        let (needs, has) = (geometry.prog_size(), scratch.len());
        let step = has - has % needs as usize;
        if step == 0 {
            return Err(failed(FlashCause::BufferTooSmall { needs, has: has as u64 }));
        }
        let end = address + len;
        for at in (address..end).step_by(step) {
            let units = &mut scratch[..step.min((end - at) as usize)];
            self.read(at, units).await?;
            if units.iter().any(|byte| *byte != erased) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A pointer to a medium is that medium.
macro_rules! forward {
    ($pointer:ty) => {
        #[twin]
        impl<D: FlashDevice + ?Sized> FlashDevice for $pointer {
            fn geometry(&self) -> FlashGeometry {
                (**self).geometry()
            }

            async fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
                (**self).read(address, buf).await
            }

            async fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
                (**self).prog(address, data).await
            }

            async fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
                (**self).erase(address, len).await
            }

            async fn sync(&mut self) -> Result<(), FlashError> {
                (**self).sync().await
            }

            fn erased_byte(&self) -> Option<u8> {
                (**self).erased_byte()
            }

            async fn is_blank(
                &mut self,
                address: u64,
                len: u64,
                scratch: &mut [u8],
            ) -> Result<bool, FlashError> {
                (**self).is_blank(address, len, scratch).await
            }
        }
    };
}

forward!(&mut D);
#[cfg(any(test, feature = "alloc"))]
forward!(alloc::boxed::Box<D>);
