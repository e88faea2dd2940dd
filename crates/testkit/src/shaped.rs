//! A memory device that says something else of its blocks.

use atrest_device::{BlockDevice, DeviceError, Geometry, Unshared};

use crate::FaultDevice;

/// The device, with this geometry instead of its own.
#[derive(Clone, Copy, Debug)]
pub struct ShapedDevice<'a>(pub &'a FaultDevice, pub Geometry);

impl BlockDevice for ShapedDevice<'_> {
    fn size(&self) -> u64 {
        self.0.size()
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn geometry(&self) -> Geometry {
        self.1
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.0.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.0.write_at(offset, data)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.0.flush()
    }
}

impl Unshared for ShapedDevice<'_> {}
