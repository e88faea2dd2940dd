//! Checkpoints that the store does not take, or takes and says that it has not: they cost little, and nothing that may count is deleted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use atrest_device::BlockDevice as _;
use atrest_sealedvolume::format::{Kind, names};
use atrest_sealedvolume::store::{MemoryStore, ObjectStore, Put, StoreError};
use atrest_sealedvolume::volume::Access;

use crate::rig::plain::Plain;
use crate::rig::through::through;

const HONEST: u8 = 0;
const REFUSES: u8 = 1;
const LIES: u8 = 2;

/// A store that refuses objects of a kind, or stores them and says that it has not.
struct Refusing {
    inner: MemoryStore,
    kind: Kind,
    how: AtomicU8,
    asked: AtomicU32,
}

impl Refusing {
    fn new(kind: Kind) -> Arc<Self> {
        let (how, asked) = (AtomicU8::new(HONEST), AtomicU32::new(0));
        Arc::new(Self { inner: MemoryStore::new(), kind, how, asked })
    }

    fn be(&self, how: u8) {
        self.how.store(how, Ordering::Relaxed);
        self.asked.store(0, Ordering::Relaxed);
    }

    fn count(&self, kind: Kind) -> usize {
        self.inner.list_after(kind, None).expect("a list").len()
    }
}

impl ObjectStore for Refusing {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, StoreError> {
        let how = self.how.load(Ordering::Relaxed);
        if names::kind(name) != Some(self.kind) || how == HONEST {
            return self.inner.put_new(name, bytes);
        }
        self.asked.fetch_add(1, Ordering::Relaxed);
        if how == LIES {
            self.inner.put_new(name, bytes)?;
        }
        Err(StoreError::Silent)
    }

    through!(inner: put, get, get_range, list_after, delete);
}

/// Blocks in a leaf of the map.
const LEAF: u64 = 4096;

#[test]
fn a_checkpoint_that_landed_unseen_is_taken_for_what_it_is() {
    let store = Refusing::new(Kind::Checkpoint);
    let plain = Plain::new(store.clone(), 4 * LEAF, 1);
    let volume = plain.open(Access::Write).expect("it opens");
    let write = |block: u64, letter: u8| {
        volume.write_at(block * 4096, &[letter; 4096]).expect("a write");
        volume.flush().expect("a flush");
    };
    write(0, 1);
    write(LEAF, 2);
    store.be(LIES);
    assert!(volume.checkpoint().is_err());
    let maps = store.count(Kind::Map);
    assert!(volume.checkpoint().is_err(), "the store says the same again");
    store.be(HONEST);
    // Of the same state: nothing more is stored.
    volume.checkpoint().expect("it is there");
    assert_eq!(store.count(Kind::Map), maps);
    // Another one is told as failed, and the volume goes on, collects, and crashes.
    write(0, 3);
    store.be(LIES);
    assert!(volume.checkpoint().is_err());
    let landed = store.inner.list_after(Kind::Checkpoint, None).expect("a list").pop().expect("the newest");
    write(2 * LEAF, 4);
    assert!(volume.garbage().is_err(), "what may count is not known");
    store.be(HONEST);
    let garbage = volume.garbage().expect("garbage");
    assert!(!garbage.names().contains(&landed), "it is one of the newest two");
    volume.collect(garbage).expect("collected");
    drop(volume);
    // The newest checkpoint is gone, so that the one that landed unseen counts: with all that it needs.
    let newest = store.inner.list_after(Kind::Checkpoint, None).expect("a list").pop().expect("the newest");
    assert!(newest > landed);
    store.inner.delete(&newest).expect("deleted");
    let volume = plain.open(Access::Read).expect("it opens");
    for (block, letter) in [(0, 3), (LEAF, 2), (2 * LEAF, 4), (3 * LEAF, 0)] {
        let mut read = [9; 4096];
        volume.read_at(block * 4096, &mut read).expect("a read");
        assert_eq!(read, [letter; 4096], "block {block}");
    }
}

#[test]
fn checkpoints_that_always_fail_leave_nothing_behind_and_are_tried_ever_less() {
    for kind in [Kind::Checkpoint, Kind::Map] {
        let store = Refusing::new(kind);
        let plain = Plain::new(store.clone(), 4 * LEAF, 1);
        let volume = plain.open(Access::Write).expect("it opens");
        let write = |number: u64| {
            volume.write_at(number % 4 * LEAF * 4096, &[number as u8 | 1; 4096]).expect("a write");
            volume.flush().expect("a flush");
        };
        store.be(REFUSES);
        (0..600).for_each(write);
        // Each try asks the store twice: 16, 32, 64 … log objects apart.
        assert!(store.asked.load(Ordering::Relaxed) < 20, "{:?}", store.asked);
        assert!(store.count(Kind::Map) <= 4, "{} leaves of no checkpoint", store.count(Kind::Map));
        store.be(HONEST);
        (0..1300).for_each(write);
        assert!(store.count(Kind::Checkpoint) > 2, "it goes on");
        volume.close().expect("closed");
    }
}
