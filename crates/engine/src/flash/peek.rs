//! A sealed medium and its store for somebody who only looks: what opening would have to change is changed in memory.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atrest_device::{
    FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation, TRUSTED_RECORD_LEN, TrustedStore,
    TrustedStoreError,
};

use super::any::AnyFlash;

/// A medium that is not written. Blocks that were erased read as such; what is programmed into one of them is left out: a sealed
/// volume overwrites so, on cards, what it will never read.
pub(super) struct PeekFlash {
    device: AnyFlash,
    erased: BTreeSet<u64>,
}

const ERASED: u8 = 0xff;

impl PeekFlash {
    pub(super) fn new(device: AnyFlash) -> Self {
        Self { device, erased: BTreeSet::new() }
    }

    fn block(&self, address: u64) -> u64 {
        address / u64::from(self.device.geometry().erase_size())
    }
}

impl FlashDevice for PeekFlash {
    fn geometry(&self) -> FlashGeometry {
        self.device.geometry()
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.device.read(address, buf)?;
        if self.erased.contains(&self.block(address)) {
            buf.fill(ERASED);
        }
        Ok(())
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        let len = data.len() as u64;
        self.geometry().check(FlashOperation::Prog, address, len)?;
        match self.erased.contains(&self.block(address)) {
            true => Ok(()),
            false => Err(FlashError::new(FlashOperation::Prog, address, len, FlashCause::ReadOnly)),
        }
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.geometry().check(FlashOperation::Erase, address, len)?;
        self.erased.extend(self.block(address)..self.block(address + len));
        Ok(())
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        Ok(())
    }

    fn erased_byte(&self) -> Option<u8> {
        self.device.erased_byte()
    }
}

/// A store in memory, in two hands: the volume's, and of whoever keeps the record in the end.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    record: Option<[u8; TRUSTED_RECORD_LEN]>,
    /// Why the volume was not closed in good order.
    failed: Option<FlashCause>,
}

impl MemoryStore {
    /// One that holds this.
    pub(super) fn holding(record: [u8; TRUSTED_RECORD_LEN]) -> Self {
        Self(Arc::new(Mutex::new(Held { record: Some(record), failed: None })))
    }

    /// What was stored last.
    ///
    /// # Errors
    /// [`FlashError`] with the reason why the volume could not be closed after that.
    pub fn record(&self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, FlashError> {
        let held = self.held();
        match held.failed {
            Some(cause) => Err(FlashError::new(FlashOperation::Sync, 0, 0, cause)),
            None => Ok(held.record),
        }
    }

    /// Says so to whoever asks for the record.
    pub(super) fn not_closed(&self, cause: FlashCause) {
        self.held().failed = Some(cause);
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TrustedStore for MemoryStore {
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        Ok(self.held().record)
    }

    fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        self.held().record = Some(*record);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_keeps_the_record_hears_of_a_volume_that_could_not_be_closed() {
        let kept = MemoryStore::default();
        let mut volumes = kept.clone();
        assert_eq!((volumes.load(), kept.record()), (Ok(None), Ok(None)));
        volumes.store(&[7; TRUSTED_RECORD_LEN]).expect("stored");
        assert_eq!(kept.record(), Ok(Some([7; TRUSTED_RECORD_LEN])));
        volumes.not_closed(FlashCause::Driver(5));
        assert_eq!(kept.record().map_err(|error| error.cause), Err(FlashCause::Driver(5)));
    }
}
