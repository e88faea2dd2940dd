//! A part of a device, so that one recording has the order of writes to all of them.

use std::ops::Deref;

use atrest_device::{BlockDevice, DeviceError, Geometry, Unshared};

use crate::FaultDevice;

/// A part of a [`FaultDevice`], as a device.
pub struct Window<D> {
    /// The whole.
    pub device: D,
    /// Where it begins there, in bytes.
    pub offset: u64,
    /// Its size in bytes.
    pub size: u64,
}

impl<D: Deref<Target = FaultDevice> + Send + Sync> BlockDevice for Window<D> {
    fn size(&self) -> u64 {
        self.size
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.device.read_at(self.offset + offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.device.write_at(self.offset + offset, data)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.device.flush()
    }
}

impl<D: Deref<Target = FaultDevice> + Send + Sync> Unshared for Window<D> {}
