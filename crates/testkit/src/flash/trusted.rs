//! A trusted store in memory, beside an emulated medium, in whose recording its writes have their place.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;

use atrest_device::{TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError};

use super::shared::SharedFlash;

/// A record of a trusted store.
pub type TrustedRecord = [u8; TRUSTED_RECORD_LEN];

/// A [`TrustedStore`] whose clones are the same store.
#[derive(Clone, Debug, Default)]
pub struct TrustedMemory(Rc<RefCell<Contents>>);

#[derive(Debug, Default)]
struct Contents {
    record: Option<TrustedRecord>,
    writes: Vec<TrustedWrite>,
    count: u64,
    medium: Option<SharedFlash>,
    failing: Option<TrustedStoreError>,
    /// Writes come to their end before they fail.
    late: bool,
}

/// A write of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustedWrite {
    /// Steps of the medium's recording before it.
    pub step: usize,
    /// What was stored before.
    pub before: Option<TrustedRecord>,
    /// What is stored since.
    pub after: TrustedRecord,
}

impl TrustedMemory {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// One that holds this.
    pub fn with_record(record: Option<TrustedRecord>) -> Self {
        let store = Self::default();
        store.lock().record = record;
        store
    }

    /// Notes from now on where in the recording of a medium each write falls, and forgets those before.
    pub fn beside(&self, medium: &SharedFlash) {
        let mut contents = self.lock();
        contents.medium = Some(medium.clone());
        contents.writes.clear();
    }

    /// What is stored.
    pub fn record(&self) -> Option<TrustedRecord> {
        self.lock().record
    }

    /// Replaces what is stored, as nobody can.
    pub fn put(&self, record: Option<TrustedRecord>) {
        self.lock().record = record;
    }

    /// The writes since [`beside`](Self::beside) was called.
    pub fn writes(&self) -> Vec<TrustedWrite> {
        self.lock().writes.clone()
    }

    /// Writes in all.
    pub fn count(&self) -> u64 {
        self.lock().count
    }

    /// From now on every use fails, or none.
    pub fn fail(&self, error: Option<TrustedStoreError>) {
        let mut contents = self.lock();
        (contents.failing, contents.late) = (error, false);
    }

    /// From now on every write fails after it has stored the record.
    pub fn fail_late(&self, error: TrustedStoreError) {
        let mut contents = self.lock();
        (contents.failing, contents.late) = (Some(error), true);
    }

    fn lock(&self) -> RefMut<'_, Contents> {
        self.0.borrow_mut()
    }
}

impl TrustedStore for TrustedMemory {
    fn load(&mut self) -> Result<Option<TrustedRecord>, TrustedStoreError> {
        let contents = self.lock();
        contents.failing.filter(|_| !contents.late).map_or(Ok(contents.record), Err)
    }

    fn store(&mut self, record: &TrustedRecord) -> Result<(), TrustedStoreError> {
        let mut contents = self.lock();
        if let Some(error) = contents.failing.filter(|_| !contents.late) {
            return Err(error);
        }
        let step = contents.medium.as_ref().map_or(0, |medium| medium.lock().recorded());
        let write = TrustedWrite { step, before: contents.record, after: *record };
        contents.writes.push(write);
        contents.record = Some(*record);
        contents.count += 1;
        contents.failing.map_or(Ok(()), Err)
    }
}
