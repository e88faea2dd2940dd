//! Holds a device's metadata lock for as long as it lives.

use atrest_device::{BlockDevice, DeviceError, LockMode};

pub(crate) struct MetadataLock<'a>(&'a dyn BlockDevice);

impl<'a> MetadataLock<'a> {
    /// Waits for the lock.
    pub(crate) fn take(device: &'a dyn BlockDevice, mode: LockMode) -> Result<Self, DeviceError> {
        device.lock_metadata(mode)?;
        Ok(Self(device))
    }
}

impl Drop for MetadataLock<'_> {
    fn drop(&mut self) {
        self.0.unlock_metadata();
    }
}
