//! A medium and a trusted store whose types nobody needs to know. What a sealed volume is on the desk has code for each of ten ciphers
//! anyway; with types it would have that once more for each medium and store.

use atrest_device::{
    FlashDevice, FlashError, FlashGeometry, TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError,
};

/// Any medium.
pub(super) struct AnyFlash(Box<dyn FlashDevice + Send>);

impl AnyFlash {
    pub(super) fn new(flash: impl FlashDevice + Send + 'static) -> Self {
        Self(Box::new(flash))
    }
}

impl FlashDevice for AnyFlash {
    fn geometry(&self) -> FlashGeometry {
        self.0.geometry()
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.0.read(address, buf)
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.0.prog(address, data)
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.0.erase(address, len)
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        self.0.sync()
    }

    fn erased_byte(&self) -> Option<u8> {
        self.0.erased_byte()
    }

    fn is_blank(&mut self, address: u64, len: u64, scratch: &mut [u8]) -> Result<bool, FlashError> {
        self.0.is_blank(address, len, scratch)
    }
}

/// Any trusted store.
pub(super) struct AnyStore(Box<dyn TrustedStore + Send>);

impl AnyStore {
    pub(super) fn new(store: impl TrustedStore + Send + 'static) -> Self {
        Self(Box::new(store))
    }
}

impl TrustedStore for AnyStore {
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        self.0.load()
    }

    fn claim(&mut self) -> Result<(), TrustedStoreError> {
        self.0.claim()
    }

    fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        self.0.store(record)
    }

    fn stored_at_most(&mut self) -> Result<Option<u64>, TrustedStoreError> {
        self.0.stored_at_most()
    }
}

#[cfg(test)]
mod tests {
    use atrest_device::{FlashCause, FlashOperation};

    use super::*;

    /// Tells by its answers what it was asked.
    struct Telling;

    fn told<T>(operation: FlashOperation, address: u64, len: u64) -> Result<T, FlashError> {
        Err(FlashError::new(operation, address, len, FlashCause::Unsupported))
    }

    impl FlashDevice for Telling {
        fn geometry(&self) -> FlashGeometry {
            FlashGeometry::new(1, 2, 4096, 7).expect("a geometry")
        }

        fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
            told(FlashOperation::Read, address, buf.len() as u64)
        }

        fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
            told(FlashOperation::Prog, address, data.len() as u64)
        }

        fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
            told(FlashOperation::Erase, address, len)
        }

        fn sync(&mut self) -> Result<(), FlashError> {
            told(FlashOperation::Sync, 1, 2)
        }

        fn erased_byte(&self) -> Option<u8> {
            Some(0x5a)
        }

        fn is_blank(&mut self, address: u64, len: u64, _scratch: &mut [u8]) -> Result<bool, FlashError> {
            told(FlashOperation::BlankQuery, address, len)
        }
    }

    impl TrustedStore for Telling {
        fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
            Err(TrustedStoreError::Damaged)
        }

        fn claim(&mut self) -> Result<(), TrustedStoreError> {
            Err(TrustedStoreError::Busy)
        }

        fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
            Err(TrustedStoreError::Driver(record[0].into()))
        }

        fn stored_at_most(&mut self) -> Result<Option<u64>, TrustedStoreError> {
            Ok(Some(9))
        }
    }

    #[test]
    fn whatever_is_asked_is_asked_of_what_is_inside() {
        let mut flash = AnyFlash::new(Telling);
        assert_eq!(flash.geometry(), Telling.geometry());
        assert_eq!(flash.read(1, &mut [0; 2]), told(FlashOperation::Read, 1, 2));
        assert_eq!(flash.prog(3, &[0; 4]), told(FlashOperation::Prog, 3, 4));
        assert_eq!(flash.erase(5, 6), told(FlashOperation::Erase, 5, 6));
        assert_eq!(flash.sync(), told(FlashOperation::Sync, 1, 2));
        assert_eq!(flash.erased_byte(), Some(0x5a));
        assert_eq!(flash.is_blank(7, 8, &mut []), told(FlashOperation::BlankQuery, 7, 8));
        let mut store = AnyStore::new(Telling);
        assert_eq!(store.load(), Err(TrustedStoreError::Damaged));
        assert_eq!(store.claim(), Err(TrustedStoreError::Busy));
        assert_eq!(store.store(&[7; TRUSTED_RECORD_LEN]), Err(TrustedStoreError::Driver(7)));
        assert_eq!(store.stored_at_most(), Ok(Some(9)));
    }
}
