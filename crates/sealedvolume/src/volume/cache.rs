//! What has been read, and what is on its way. Threads that need the same thing fetch it once.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::core::Plaintext;
use crate::lru::Lru;

/// A block as it was stored: the salt of its object, and its slot there.
pub(crate) type Key = ([u8; 16], u32);

/// Blocks.
pub(crate) type Blocks = Cache<Key, Plaintext>;

pub(crate) struct Cache<K, V> {
    inner: Mutex<Inner<K, V>>,
    landed: Condvar,
}

struct Inner<K, V> {
    values: Lru<K, Arc<V>>,
    /// Somebody fetches them.
    flying: HashSet<K>,
    /// Threads that wait for one of them.
    waiting: usize,
}

/// Where something is that somebody needs.
pub(crate) enum Known<V> {
    Here(Arc<V>),
    /// Somebody fetches it.
    Flying,
    /// Whoever asked fetches it now, and says so with [`Cache::land`].
    Nowhere,
}

impl<K: Hash + Eq + Clone, V> Cache<K, V> {
    /// Of values that weigh so much together.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        let inner = Inner { values: Lru::new(most), flying: HashSet::new(), waiting: 0 };
        Arc::new(Self { inner: Mutex::new(inner), landed: Condvar::new() })
    }

    pub(crate) fn find(&self, key: &K) -> Option<Arc<V>> {
        self.lock().values.find(key)
    }

    pub(crate) fn keep(&self, key: K, weight: usize, value: Arc<V>) {
        self.lock().values.keep(key, weight, value);
    }

    /// Finds a value, which is fetched by whoever was told that it is nowhere.
    pub(crate) fn take_off(&self, key: K) -> Known<V> {
        let mut inner = self.lock();
        match inner.values.find(&key) {
            Some(value) => Known::Here(value),
            None if inner.flying.insert(key) => Known::Nowhere,
            None => Known::Flying,
        }
    }

    /// Values are no longer fetched, whatever became of them.
    pub(crate) fn land(&self, keys: impl Iterator<Item = K>) {
        let mut inner = self.lock();
        keys.for_each(|key| {
            inner.flying.remove(&key);
        });
        // To wake nobody is a system call, too.
        if inner.waiting > 0 {
            self.landed.notify_all();
        }
    }

    /// Waits for whoever fetches a value. `None` if it did not come.
    pub(crate) fn wait(&self, key: &K) -> Option<Arc<V>> {
        let mut inner = self.lock();
        while inner.flying.contains(key) {
            inner.waiting += 1;
            inner = self.landed.wait(inner).unwrap_or_else(PoisonError::into_inner); // intended: each change of it is whole.
            inner.waiting -= 1;
        }
        inner.values.find(key)
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K, V>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner) // intended: each change of it is whole.
    }
}
