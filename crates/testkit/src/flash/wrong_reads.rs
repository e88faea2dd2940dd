//! A medium of which some reads give something else than it holds.

use atrest_device::{FlashDevice, FlashError, FlashGeometry};

use super::shared::SharedFlash;

/// A medium, and what happens to the bytes that were read from an address.
#[derive(Clone, Debug)]
pub struct WrongReads<F>(pub SharedFlash, pub F);

impl<F: FnMut(u64, &mut [u8])> FlashDevice for WrongReads<F> {
    fn geometry(&self) -> FlashGeometry {
        self.0.geometry()
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.0.read(address, buf)?;
        (self.1)(address, buf);
        Ok(())
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

    fn is_blank(&mut self, address: u64, len: u64, scratch: &mut [u8]) -> Result<bool, FlashError> {
        self.0.is_blank(address, len, scratch)
    }
}
