//! What a store is asked for, counted: requests by kind, bytes each way, failures and further tries.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use atrest_device::StoreRequests;

use super::{Names, ObjectStore, Put, StoreError};
use crate::format::Kind;

/// Counters that an opening of a volume has.
#[derive(Debug, Default)]
pub struct Traffic {
    get: AtomicU64,
    put: AtomicU64,
    put_new: AtomicU64,
    list: AtomicU64,
    delete: AtomicU64,
    failed: AtomicU64,
    retried: AtomicU64,
    received: AtomicU64,
    sent: AtomicU64,
}

fn add(to: &AtomicU64, count: u64) {
    to.fetch_add(count, Ordering::Relaxed);
}

impl Traffic {
    /// What was counted until now. How long something waits to be stored is not known here.
    pub fn counts(&self) -> StoreRequests {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StoreRequests {
            get: of(&self.get),
            put: of(&self.put),
            put_new: of(&self.put_new),
            list: of(&self.list),
            delete: of(&self.delete),
            failed: of(&self.failed),
            retried: of(&self.retried),
            received: of(&self.received),
            sent: of(&self.sent),
            lag: None,
        }
    }

    /// One of the requests is another try of one that failed.
    pub(crate) fn retried(&self) {
        add(&self.retried, 1);
    }

    fn told<T>(&self, kind: &AtomicU64, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        add(kind, 1);
        answer.inspect_err(|_| add(&self.failed, 1))
    }

    fn received(&self, answer: Result<Option<Vec<u8>>, StoreError>) -> Result<Option<Vec<u8>>, StoreError> {
        if let Ok(Some(bytes)) = &answer {
            add(&self.received, bytes.len() as u64);
        }
        self.told(&self.get, answer)
    }
}

/// A store whose requests are counted.
pub(crate) struct Counted {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) traffic: Arc<Traffic>,
}

impl ObjectStore for Counted {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, StoreError> {
        add(&self.traffic.sent, bytes.len() as u64);
        self.traffic.told(&self.traffic.put_new, self.store.put_new(name, bytes))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        add(&self.traffic.sent, bytes.len() as u64);
        self.traffic.told(&self.traffic.put, self.store.put(name, bytes))
    }

    fn get(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>, StoreError> {
        self.traffic.received(self.store.get(name, most))
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Option<Vec<u8>>, StoreError> {
        self.traffic.received(self.store.get_range(name, offset, len))
    }

    fn read_if_cached(&self, name: &str, offset: u64, out: &mut [u8]) -> Option<()> {
        self.store.read_if_cached(name, offset, out)?;
        add(&self.traffic.get, 1);
        add(&self.traffic.received, out.len() as u64);
        Some(())
    }

    fn list_after(&self, kind: Kind, after: Option<&str>) -> Result<Vec<String>, StoreError> {
        self.traffic.told(&self.traffic.list, self.store.list_after(kind, after))
    }

    fn list_some(&self, kind: Kind, after: Option<&str>) -> Result<Names, StoreError> {
        self.traffic.told(&self.traffic.list, self.store.list_some(kind, after))
    }

    fn len_of(&self, name: &str) -> Result<Option<u64>, StoreError> {
        self.traffic.told(&self.traffic.get, self.store.len_of(name))
    }

    fn list_lens_after(&self, kind: Kind, after: Option<&str>) -> Result<Vec<(String, u64)>, StoreError> {
        self.traffic.told(&self.traffic.list, self.store.list_lens_after(kind, after))
    }

    fn probe(&self) -> Result<(), StoreError> {
        self.store.probe()
    }

    fn wait_at_most(&self, limit: std::time::Duration) {
        self.store.wait_at_most(limit);
    }

    fn hold(&self) -> Result<Option<File>, StoreError> {
        self.store.hold()
    }

    fn hold_to_read(&self) -> Result<Option<File>, StoreError> {
        self.store.hold_to_read()
    }

    fn hold_to_collect(&self) -> Result<Option<File>, StoreError> {
        self.store.hold_to_collect()
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.traffic.told(&self.traffic.delete, self.store.delete(name))
    }
}
