//! The trusted store: after a crash or an error it holds the old record or the new one, and one writer at a time has it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use atrest_device::{TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError};
use atrest_testkit::Random;

use super::wild::Client;

type Record = [u8; TRUSTED_RECORD_LEN];

/// What is stored, and by whom.
pub struct Contents {
    pub record: Option<Record>,
    pub holder: u64,
    /// Records that were replaced.
    pub earlier: Vec<Record>,
    pub random: Random,
    /// It fails now and then.
    pub fails: bool,
}

/// The store as one opening has it.
pub struct Held {
    pub cell: Arc<Mutex<Contents>>,
    pub opening: u64,
    pub client: Arc<Client>,
}

impl TrustedStore for Held {
    fn load(&mut self) -> Result<Option<Record>, TrustedStoreError> {
        Ok(self.cell.lock().expect("the cell").record)
    }

    fn claim(&mut self) -> Result<(), TrustedStoreError> {
        self.cell.lock().expect("the cell").holder = self.opening;
        Ok(())
    }

    fn store(&mut self, record: &Record) -> Result<(), TrustedStoreError> {
        let mut cell = self.cell.lock().expect("the cell");
        if cell.holder != self.opening {
            return Err(TrustedStoreError::Busy);
        }
        if self.client.is_dead() {
            return Err(TrustedStoreError::Driver(0));
        }
        let chance = if cell.fails { cell.random.below(100) } else { 100 };
        if chance >= 6 || cell.random.below(2) == 0 {
            let old = cell.record.replace(*record);
            cell.earlier.extend(old);
        }
        if chance < 3 {
            self.client.dead.store(true, Ordering::Relaxed);
        }
        if chance < 6 { Err(TrustedStoreError::Driver(5)) } else { Ok(()) }
    }
}
