//! A block device below littlefs: an SD card's sectors, or the plaintext of a volume on one.

use std::sync::Arc;

use atrest_device::{BlockDevice, FlashDevice, FlashError, FlashGeometry, FlashOperation, GeometryError};

/// Sectors: what firmware programs on a card.
const SECTOR: u32 = 512;

/// A [`FlashDevice`] whose units can be overwritten: erasing does nothing, and there is no notion of a blank unit.
pub(super) struct BlockFlash {
    device: Arc<dyn BlockDevice>,
    geometry: FlashGeometry,
}

impl BlockFlash {
    /// As many erase blocks of this size from the start of a device.
    pub fn new(
        device: Arc<dyn BlockDevice>,
        block_size: u32,
        block_count: u32,
    ) -> Result<Self, GeometryError> {
        // A filesystem whose blocks are no sectors was made for another medium; it can be read all the same.
        let unit = if block_size.is_multiple_of(SECTOR) { SECTOR } else { block_size };
        let geometry = FlashGeometry::new(unit, unit, block_size, block_count.into())?;
        Ok(Self { device, geometry })
    }
}

impl FlashDevice for BlockFlash {
    fn geometry(&self) -> FlashGeometry {
        self.geometry
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.geometry.check(FlashOperation::Read, address, buf.len() as u64)?;
        self.device.read_at(address, buf).map_err(|error| FlashError::of_device(FlashOperation::Read, error))
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.geometry.check(FlashOperation::Prog, address, data.len() as u64)?;
        self.device
            .write_at(address, data)
            .map_err(|error| FlashError::of_device(FlashOperation::Prog, error))
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.geometry.check(FlashOperation::Erase, address, len)
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        self.device.flush().map_err(|error| FlashError::of_device(FlashOperation::Sync, error))
    }

    fn erased_byte(&self) -> Option<u8> {
        None
    }
}
