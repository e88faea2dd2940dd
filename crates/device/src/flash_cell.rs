//! One medium in several hands, on one thread.

use core::cell::RefCell;

use crate::{FlashDevice, FlashError, FlashGeometry};

/// A medium in several hands, such as those of two [`FlashRegion`](crate::FlashRegion)s. No operation runs while another one does,
/// so that the cell is always free.
impl<D: FlashDevice> FlashDevice for &RefCell<D> {
    fn geometry(&self) -> FlashGeometry {
        self.borrow().geometry()
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.borrow_mut().read(address, buf)
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.borrow_mut().prog(address, data)
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.borrow_mut().erase(address, len)
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        self.borrow_mut().sync()
    }

    fn erased_byte(&self) -> Option<u8> {
        self.borrow().erased_byte()
    }

    fn is_blank(&mut self, address: u64, len: u64, scratch: &mut [u8]) -> Result<bool, FlashError> {
        self.borrow_mut().is_blank(address, len, scratch)
    }
}
