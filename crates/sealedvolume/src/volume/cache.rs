//! Blocks that have been read, and those that are on their way. Threads that need the same one fetch it once.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::core::Plaintext;
use super::lru::Lru;

/// A block as it was stored: the salt of its object, and its slot there.
pub(crate) type Key = ([u8; 16], u32);

pub(crate) struct Cache {
    inner: Mutex<Inner>,
    landed: Condvar,
}

struct Inner {
    blocks: Lru<Key, Arc<Plaintext>>,
    /// Somebody fetches them.
    flying: HashSet<Key>,
}

/// Where a block is that somebody needs.
pub(crate) enum Known {
    Here(Arc<Plaintext>),
    /// Somebody fetches it.
    Flying,
    /// Whoever asked fetches it now, and says so with [`Cache::land`].
    Nowhere,
}

impl Cache {
    /// Of so many blocks.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        let inner = Inner { blocks: Lru::new(most), flying: HashSet::new() };
        Arc::new(Self { inner: Mutex::new(inner), landed: Condvar::new() })
    }

    pub(crate) fn find(&self, key: &Key) -> Option<Arc<Plaintext>> {
        self.lock().blocks.find(key)
    }

    pub(crate) fn keep(&self, key: Key, block: Arc<Plaintext>) {
        self.lock().blocks.keep(key, 1, block);
    }

    /// Finds a block, which is fetched by whoever was told that it is nowhere.
    pub(crate) fn take_off(&self, key: Key) -> Known {
        let mut inner = self.lock();
        match inner.blocks.find(&key) {
            Some(block) => Known::Here(block),
            None if inner.flying.insert(key) => Known::Nowhere,
            None => Known::Flying,
        }
    }

    /// Blocks are no longer fetched, whatever became of them.
    pub(crate) fn land(&self, keys: impl Iterator<Item = Key>) {
        let mut inner = self.lock();
        keys.for_each(|key| {
            inner.flying.remove(&key);
        });
        drop(inner);
        self.landed.notify_all();
    }

    /// Waits for whoever fetches a block. `None` if it did not come.
    pub(crate) fn wait(&self, key: &Key) -> Option<Arc<Plaintext>> {
        let mut inner = self.lock();
        while inner.flying.contains(key) {
            inner = self.landed.wait(inner).unwrap_or_else(PoisonError::into_inner); // intended: each change of it is whole.
        }
        inner.blocks.find(key)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner) // intended: each change of it is whole.
    }
}
