//! One emulated medium in two hands: that of the code under test, and that of the test.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;

use atrest_device::{FlashDevice, FlashError, FlashGeometry};

use super::emulated::EmulatedFlash;

/// An [`EmulatedFlash`] whose clones are the same medium.
#[derive(Clone, Debug)]
pub struct SharedFlash(Rc<RefCell<EmulatedFlash>>);

impl SharedFlash {
    /// Shares a medium.
    pub fn new(flash: EmulatedFlash) -> Self {
        Self(Rc::new(RefCell::new(flash)))
    }

    /// The medium, between two operations.
    ///
    /// # Panics
    /// When somebody holds it already.
    pub fn lock(&self) -> RefMut<'_, EmulatedFlash> {
        self.0.borrow_mut()
    }
}

impl FlashDevice for SharedFlash {
    fn geometry(&self) -> FlashGeometry {
        self.lock().geometry()
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.lock().read(address, buf)
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.lock().prog(address, data)
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.lock().erase(address, len)
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        self.lock().sync()
    }
}
