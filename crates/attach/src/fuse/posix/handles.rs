//! What is open, by the numbers that the kernel is given for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rustix::io::Errno;

pub struct Handles<T: ?Sized> {
    open: RwLock<HashMap<u64, Arc<T>>>,
    next: AtomicU64,
}

impl<T: ?Sized> Default for Handles<T> {
    fn default() -> Self {
        Self { open: RwLock::default(), next: AtomicU64::new(1) }
    }
}

impl<T: ?Sized> Handles<T> {
    pub fn add(&self, opened: Arc<T>) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.write().unwrap_or_else(PoisonError::into_inner).insert(number, opened);
        number
    }

    pub fn get(&self, handle: u64) -> Result<Arc<T>, Errno> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.get(&handle).cloned().ok_or(Errno::BADF)
    }

    pub fn remove(&self, handle: u64) {
        let removed = self.open.write().unwrap_or_else(PoisonError::into_inner).remove(&handle);
        // Closing may take its time, and happens outside the lock.
        drop(removed);
    }
}
