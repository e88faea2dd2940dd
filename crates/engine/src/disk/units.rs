//! Keeps a read-modify-write of one data unit apart from every other access to it.
//!
//! Writing part of a data unit reads, changes and rewrites all of it, so it must exclude other partial writes (one
//! would undo the other), aligned writes (it would bring old bytes back) and reads (they could see half of the new
//! ciphertext, which decrypts to garbage even where the plaintext did not change). Everybody else may run together:
//! whole-unit writes over each other are the caller's race, as on a disk. This works only if a partial write comes
//! here as one. A caller who reads a unit, changes a part and writes all of it back would be taken for a writer of
//! whole units, and readers would see its write half done.
//!
//! So an aligned access *shares* the units it touches and a partial write *excludes*. The units are grouped into
//! stretches of [`STRETCH`] bytes, each stretch is guarded by one of [`SHARDS`] reader-writer locks on cache lines of
//! their own. While nobody writes partial units, sharing is one compare-and-swap per chunk and never waits.

use crate::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

/// Bytes of plaintext guarded as one. No access is longer, so it touches two stretches at most.
const STRETCH: u64 = 1 << 20;
const SHARDS: usize = 64;

/// The locks of one disk.
pub struct Units {
    shards: Box<[Shard]>,
}

/// Two cache lines, because adjacent ones are fetched in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Shard(RwLock<()>);

/// Keeps partial writes away while it lives.
pub struct Shared<'a>([Option<RwLockReadGuard<'a, ()>>; 2]);

/// Keeps everybody away while it lives.
pub struct Excluded<'a>([Option<RwLockWriteGuard<'a, ()>>; 2]);

impl Units {
    pub fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Shard::default()).collect() }
    }

    /// Keeps partial writes away from `len` bytes at `offset`, no more than [`STRETCH`].
    #[must_use]
    pub fn share(&self, offset: u64, len: usize) -> Shared<'_> {
        Shared(
            self.shards(offset, len)
                .map(|shard| shard.map(|Shard(lock)| lock.read().unwrap_or_else(PoisonError::into_inner))),
        )
    }

    /// Keeps partial writes away like [`share`](Self::share), unless one is under way.
    #[must_use]
    pub fn try_share(&self, offset: u64, len: usize) -> Option<Shared<'_>> {
        let mut guards = [None, None];
        for (guard, shard) in guards.iter_mut().zip(self.shards(offset, len)) {
            let Some(Shard(lock)) = shard else { continue };
            *guard = Some(match lock.try_read() {
                Ok(guard) => guard,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return None,
            });
        }
        Some(Shared(guards))
    }

    /// Keeps everybody away from `len` bytes at `offset`, no more than [`STRETCH`].
    #[must_use]
    pub fn exclude(&self, offset: u64, len: usize) -> Excluded<'_> {
        Excluded(
            self.shards(offset, len)
                .map(|shard| shard.map(|Shard(lock)| lock.write().unwrap_or_else(PoisonError::into_inner))),
        )
    }

    /// The locks to take, each once and in the one order that everybody uses.
    fn shards(&self, offset: u64, len: usize) -> [Option<&Shard>; 2] {
        debug_assert!(len as u64 <= STRETCH);
        let first = offset / STRETCH % SHARDS as u64;
        // intended: a range of no bytes has the lock of its first.
        let last = (offset + len.saturating_sub(1) as u64) / STRETCH % SHARDS as u64;
        let shard = |index: u64| self.shards.get(index as usize);
        if first == last { [shard(first), None] } else { [shard(first.min(last)), shard(first.max(last))] }
    }
}

// The guards are held, never read.
impl Drop for Shared<'_> {
    fn drop(&mut self) {
        self.0 = [None, None];
    }
}

impl Drop for Excluded<'_> {
    fn drop(&mut self) {
        self.0 = [None, None];
    }
}
