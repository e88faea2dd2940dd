//! Holds a device's metadata lock for as long as it lives.

use atrest_device::{DeviceError, LockMode, Media};

pub(crate) struct MetadataLock<'a>(&'a dyn Media);

impl<'a> MetadataLock<'a> {
    /// Waits for the lock.
    pub(crate) fn take(device: &'a dyn Media, mode: LockMode) -> Result<Self, DeviceError> {
        device.lock_metadata(mode)?;
        Ok(Self(device))
    }
}

impl Drop for MetadataLock<'_> {
    fn drop(&mut self) {
        self.0.unlock_metadata();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use atrest_device::{BlockDevice, Geometry, Storage};

    use super::*;

    /// Notes its locks.
    #[derive(Default)]
    struct Noted(Mutex<Vec<Option<LockMode>>>);

    impl BlockDevice for Noted {
        fn size(&self) -> u64 {
            0
        }
        fn geometry(&self) -> Geometry {
            Geometry::default()
        }
        fn is_read_only(&self) -> bool {
            false
        }
        fn read_at(&self, _: u64, _: &mut [u8]) -> Result<(), DeviceError> {
            Ok(())
        }
        fn write_at(&self, _: u64, _: &[u8]) -> Result<(), DeviceError> {
            Ok(())
        }
        fn flush(&self) -> Result<(), DeviceError> {
            Ok(())
        }
    }

    impl Media for Noted {
        fn storage(&self) -> Option<Storage> {
            None
        }
        fn read_media_at(&self, _: u64, _: &mut [u8]) -> Result<(), DeviceError> {
            Ok(())
        }
        fn lock_metadata(&self, mode: LockMode) -> Result<(), DeviceError> {
            self.0.lock().expect("one thread").push(Some(mode));
            Ok(())
        }
        fn unlock_metadata(&self) {
            self.0.lock().expect("one thread").push(None);
        }
    }

    #[test]
    fn a_lock_is_given_back_where_its_holder_ends() {
        let device = Noted::default();
        for mode in [LockMode::Shared, LockMode::Exclusive] {
            let lock = MetadataLock::take(&device, mode).expect("a lock");
            assert_eq!(*device.0.lock().expect("one thread"), [Some(mode)]);
            drop(lock);
            assert_eq!(std::mem::take(&mut *device.0.lock().expect("one thread")), [Some(mode), None]);
        }
    }
}
