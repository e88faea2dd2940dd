//! The traits for executors: [`FlashDevice`] and [`TrustedStore`], whose operations are futures.
//!
//! They are the traits at the root of this crate with `async` before each operation, compiled from the same source. While a
//! chip is busy the future is pending, and other tasks run.
//!
//! # A future that is dropped
//!
//! Dropping the future of an operation before it is ready ends the operation somewhere: it is a failed one, of which nobody learns
//! the error. A program or erase leaves its range unspecified, a write of a store leaves the old record or the new one. So an
//! implementation has to bear that the next operation is called while the part is still busy with a dropped one: it waits for
//! the part first.

use atrest_twin::asynchronous as twin;

use crate::{FlashError, FlashGeometry, TRUSTED_RECORD_LEN, TrustedStoreError};

#[path = "flash.rs"]
mod flash;
#[path = "flash_region.rs"]
mod flash_region;
#[path = "trusted.rs"]
mod trusted;

pub use flash::FlashDevice;
pub use flash_region::FlashRegion;
pub use trusted::TrustedStore;

/// A blocking device or store, for those who await: its futures are ready when they are polled first.
///
/// For what is quick, such as memory of a secure element that answers at once, and for programs that have nothing else to do meanwhile.
/// With a chip that takes its time, all other tasks wait.
#[derive(Clone, Copy, Debug)]
pub struct Blocking<T>(pub T);

impl<D: crate::FlashDevice> FlashDevice for Blocking<D> {
    fn geometry(&self) -> FlashGeometry {
        self.0.geometry()
    }

    async fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.0.read(address, buf)
    }

    async fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.0.prog(address, data)
    }

    async fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.0.erase(address, len)
    }

    async fn sync(&mut self) -> Result<(), FlashError> {
        self.0.sync()
    }

    fn erased_byte(&self) -> Option<u8> {
        self.0.erased_byte()
    }

    async fn is_blank(&mut self, address: u64, len: u64, scratch: &mut [u8]) -> Result<bool, FlashError> {
        self.0.is_blank(address, len, scratch)
    }
}

impl<S: crate::TrustedStore> TrustedStore for Blocking<S> {
    async fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        self.0.load()
    }

    async fn claim(&mut self) -> Result<(), TrustedStoreError> {
        self.0.claim()
    }

    async fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        self.0.store(record)
    }

    async fn stored_at_most(&mut self) -> Result<Option<u64>, TrustedStoreError> {
        self.0.stored_at_most()
    }
}
