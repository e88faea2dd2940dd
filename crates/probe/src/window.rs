//! A byte range of a device as a device of its own: a partition.

use alloc::sync::Arc;

use atrest_device::{BlockDevice, Cause, DeviceError, Extent, Geometry, Operation};

/// The bytes `start..start + len` of another device. Offsets in errors are those of the window.
pub struct Window {
    device: Arc<dyn BlockDevice>,
    start: u64,
    len: u64,
}

impl Window {
    /// The bytes `start..start + len` of `device`.
    ///
    /// # Errors
    /// [`Cause::OutOfBounds`] unless the range lies inside `device`.
    pub fn new(device: Arc<dyn BlockDevice>, start: u64, len: u64) -> Result<Self, DeviceError> {
        device.check_range(Operation::Open, start, len)?;
        Ok(Self { device, start, len })
    }

    /// Checks the range and turns an offset in the window into one of the device.
    fn place(&self, operation: Operation, offset: u64, len: u64) -> Result<u64, DeviceError> {
        self.check_range(operation, offset, len)?;
        // cannot overflow: both were checked, here and in `new`.
        Ok(self.start.saturating_add(offset))
    }

    fn own(&self, mut error: DeviceError) -> DeviceError {
        // intended: what fails before the window, when the device reads more than is asked, fails for its first byte.
        error.offset = error.offset.saturating_sub(self.start);
        if let Cause::OutOfBounds { size } = &mut error.cause {
            // intended: of a device that ends before the window, nothing is in it.
            *size = size.saturating_sub(self.start).min(self.len);
        }
        error
    }
}

impl BlockDevice for Window {
    fn size(&self) -> u64 {
        self.len
    }

    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn is_read_only(&self) -> bool {
        self.device.is_read_only()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let at = self.place(Operation::Read, offset, buf.len() as u64)?;
        self.device.read_at(at, buf).map_err(|e| self.own(e))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let at = self.place(Operation::Write, offset, data.len() as u64)?;
        self.device.write_at(at, data).map_err(|e| self.own(e))
    }

    fn write_consuming(&self, offset: u64, data: &mut [u8]) -> Result<(), DeviceError> {
        let at = self.place(Operation::Write, offset, data.len() as u64)?;
        self.device.write_consuming(at, data).map_err(|e| self.own(e))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.device.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        let at = self.place(Operation::Discard, offset, len)?;
        self.device.discard(at, len).map_err(|e| self.own(e))
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        let at = self.place(Operation::Write, offset, len)?;
        self.device.write_zeroes(at, len).map_err(|e| self.own(e))
    }

    fn extent(&self, offset: u64, len: u64) -> Result<Extent, DeviceError> {
        let at = self.place(Operation::Read, offset, len)?;
        self.device.extent(at, len).map_err(|e| self.own(e))
    }

    fn read_if_cached(&self, offset: u64, buf: &mut [u8]) -> Result<bool, DeviceError> {
        let at = self.place(Operation::Read, offset, buf.len() as u64)?;
        self.device.read_if_cached(at, buf).map_err(|e| self.own(e))
    }

    fn lend(&self, offset: u64, len: usize, take: &mut dyn FnMut(&[u8])) -> bool {
        self.place(Operation::Read, offset, len as u64).is_ok_and(|at| self.device.lend(at, len, take))
    }

    fn prefetch(&self, offset: u64, len: u64) {
        if let Ok(at) = self.place(Operation::Read, offset, len) {
            self.device.prefetch(at, len);
        }
    }
}
