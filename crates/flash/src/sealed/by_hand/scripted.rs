//! A medium that refuses what a test says, and notes what it was asked for.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::vec::Vec;

use atrest_device::{FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation};
use atrest_testkit::flash::SharedFlash;

use super::std;

/// Its clones are one medium.
#[derive(Clone)]
pub(super) struct Scripted(pub(super) SharedFlash, pub(super) Rc<RefCell<Script>>);

/// Refusals, and what was asked for.
#[derive(Default)]
pub(super) struct Script {
    /// Of every question for blank units.
    pub(super) query: Option<FlashCause>,
    /// Of a read that touches one of these bytes.
    pub(super) read: Option<(Range<u64>, FlashCause)>,
    /// Of every program.
    pub(super) prog: Option<FlashCause>,
    /// Of every erase.
    pub(super) erase: Option<FlashCause>,
    /// Of every sync.
    pub(super) sync: Option<FlashCause>,
    /// Addresses and lengths.
    pub(super) reads: Vec<(u64, usize)>,
    pub(super) queries: u32,
}

impl Scripted {
    pub(super) fn new(medium: &SharedFlash) -> Self {
        Self(medium.clone(), Rc::default())
    }

    fn refuse(
        cause: Option<FlashCause>,
        operation: FlashOperation,
        address: u64,
        len: u64,
    ) -> Result<(), FlashError> {
        cause.map_or(Ok(()), |cause| Err(FlashError::new(operation, address, len, cause)))
    }
}

impl FlashDevice for Scripted {
    fn geometry(&self) -> FlashGeometry {
        self.0.geometry()
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        let end = address + buf.len() as u64;
        let mut script = self.1.borrow_mut();
        script.reads.push((address, buf.len()));
        let touched = script.read.as_ref().filter(|(bytes, _)| bytes.start < end && address < bytes.end);
        let cause = touched.map(|(_, cause)| *cause);
        Self::refuse(cause, FlashOperation::Read, address, buf.len() as u64)?;
        self.0.read(address, buf)
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        Self::refuse(self.1.borrow().prog, FlashOperation::Prog, address, data.len() as u64)?;
        self.0.prog(address, data)
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        Self::refuse(self.1.borrow().erase, FlashOperation::Erase, address, len)?;
        self.0.erase(address, len)
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        Self::refuse(self.1.borrow().sync, FlashOperation::Sync, 0, 0)?;
        self.0.sync()
    }

    fn is_blank(&mut self, address: u64, len: u64, scratch: &mut [u8]) -> Result<bool, FlashError> {
        self.1.borrow_mut().queries += 1;
        Self::refuse(self.1.borrow().query, FlashOperation::BlankQuery, address, len)?;
        self.0.is_blank(address, len, scratch)
    }
}
