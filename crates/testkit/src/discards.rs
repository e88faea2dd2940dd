//! A device in memory that notes which ranges are discarded.

use std::sync::{Mutex, PoisonError};

use atrest_device::{BlockDevice, DeviceError, Geometry, Operation, Unshared};

use crate::FaultDevice;

/// A [`FaultDevice`] that takes discards. What it holds stays, as media may keep what is discarded.
#[derive(Debug)]
pub struct DiscardDevice {
    /// What it holds.
    pub media: FaultDevice,
    discards: Mutex<Vec<(u64, u64)>>,
}

impl DiscardDevice {
    /// A device of `size` zeros.
    pub fn zeroed(size: usize) -> Self {
        Self { media: FaultDevice::zeroed(size), discards: Mutex::default() }
    }

    /// First byte and bytes of each range that was discarded, in order.
    pub fn discards(&self) -> Vec<(u64, u64)> {
        self.discards.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl BlockDevice for DiscardDevice {
    fn size(&self) -> u64 {
        self.media.size()
    }

    fn geometry(&self) -> Geometry {
        Geometry::default()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.media.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.media.write_at(offset, data)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.media.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.check_range(Operation::Discard, offset, len)?;
        self.discards.lock().unwrap_or_else(PoisonError::into_inner).push((offset, len));
        Ok(())
    }
}

impl Unshared for DiscardDevice {}
