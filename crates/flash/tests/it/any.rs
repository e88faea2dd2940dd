//! A medium and a trusted store whose types nobody needs to know: sealed flash has code for each cipher, and with types it would have
//! that once more for each medium and store that the tests have.

use atrest_device::{
    FlashDevice, FlashError, FlashGeometry, TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError,
};
use atrest_flash::sealed::{BlockState, SealedFlash, SealedReader};

/// A sealed volume on any medium with any store.
pub type AnyVolume<'a, A> = SealedFlash<A, AnyFlash<'a>, AnyStore<'a>, Vec<BlockState>, Vec<u8>>;
/// A sealed volume on any medium, read without its store.
pub type AnyReader<A> = SealedReader<A, AnyFlash<'static>, Vec<BlockState>, Vec<u8>>;

/// Any medium.
pub struct AnyFlash<'a>(Box<dyn FlashDevice + 'a>);

impl<'a> AnyFlash<'a> {
    pub fn new(flash: impl FlashDevice + 'a) -> Self {
        Self(Box::new(flash))
    }
}

impl FlashDevice for AnyFlash<'_> {
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
pub struct AnyStore<'a>(Box<dyn TrustedStore + 'a>);

impl<'a> AnyStore<'a> {
    pub fn new(store: impl TrustedStore + 'a) -> Self {
        Self(Box::new(store))
    }
}

impl TrustedStore for AnyStore<'_> {
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
