//! A part of a flash medium, as a medium of its own: the blocks behind a header, a partition.

use super::{FlashDevice, twin};
use crate::{FlashCause, FlashError, FlashGeometry, FlashOperation};

/// Neighbouring erase blocks of a medium. Addresses count from the first of them; those in errors do too.
#[derive(Clone, Debug)]
pub struct FlashRegion<D> {
    device: D,
    start: u64,
    geometry: FlashGeometry,
}

impl<D: FlashDevice> FlashRegion<D> {
    /// `block_count` blocks from `first_block` on; at least one.
    ///
    /// # Errors
    /// [`FlashCause::OutOfBounds`] if there are no blocks, or not all of them are on the medium.
    pub fn new(device: D, first_block: u64, block_count: u64) -> Result<Self, FlashError> {
        let whole = device.geometry();
        let erase = u64::from(whole.erase_size());
        let outside = || {
            let cause = FlashCause::OutOfBounds { size: whole.size() };
            // intended: for people; what overflows is outside of every medium.
            let (address, len) = (first_block.saturating_mul(erase), block_count.saturating_mul(erase));
            FlashError::new(FlashOperation::Read, address, len, cause)
        };
        if first_block.checked_add(block_count).is_none_or(|end| end > whole.block_count()) {
            return Err(outside());
        }
        let geometry =
            FlashGeometry::new(whole.read_size(), whole.prog_size(), whole.erase_size(), block_count)
                .map_err(|_| outside())?;
        Ok(Self { device, start: first_block * erase, geometry })
    }

    /// The whole medium back.
    pub fn into_inner(self) -> D {
        self.device
    }

    /// Where a range lies on the whole medium.
    fn place(&self, operation: FlashOperation, address: u64, len: u64) -> Result<u64, FlashError> {
        self.geometry.check(operation, address, len)?;
        Ok(self.start + address)
    }

    /// An error of the whole medium in the numbers of the region.
    fn within(&self, error: FlashError) -> FlashError {
        let (start, first_block) = (self.start, self.start / u64::from(self.geometry.erase_size()));
        // cannot be less: the device names what was asked for, which lies in the region.
        let block_here = |block: u64| block.saturating_sub(first_block);
        let cause = match error.cause {
            FlashCause::BadBlock { block } => FlashCause::BadBlock { block: block_here(block) },
            FlashCause::AlreadyProgrammed { unit } => {
                // cannot be less: the device names what was asked for, which lies in the region.
                FlashCause::AlreadyProgrammed { unit: unit.saturating_sub(start) }
            }
            FlashCause::Tampered { block, unit } => FlashCause::Tampered { block: block_here(block), unit },
            FlashCause::Void { block } => FlashCause::Void { block: block_here(block) },
            FlashCause::Closed { block } => FlashCause::Closed { block: block_here(block) },
            other => other,
        };
        // cannot be less: the device names what was asked for, which lies in the region.
        FlashError { address: error.address.saturating_sub(start), cause, ..error }
    }
}

#[twin]
impl<D: FlashDevice> FlashDevice for FlashRegion<D> {
    fn geometry(&self) -> FlashGeometry {
        self.geometry
    }

    async fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        let at = self.place(FlashOperation::Read, address, buf.len() as u64)?;
        self.device.read(at, buf).await.map_err(|error| self.within(error))
    }

    async fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        let at = self.place(FlashOperation::Prog, address, data.len() as u64)?;
        self.device.prog(at, data).await.map_err(|error| self.within(error))
    }

    async fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        let at = self.place(FlashOperation::Erase, address, len)?;
        self.device.erase(at, len).await.map_err(|error| self.within(error))
    }

    async fn sync(&mut self) -> Result<(), FlashError> {
        self.device.sync().await
    }

    fn erased_byte(&self) -> Option<u8> {
        self.device.erased_byte()
    }

    async fn is_blank(&mut self, address: u64, len: u64, scratch: &mut [u8]) -> Result<bool, FlashError> {
        let at = self.place(FlashOperation::BlankQuery, address, len)?;
        self.device.is_blank(at, len, scratch).await.map_err(|error| self.within(error))
    }
}
