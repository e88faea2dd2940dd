//! Checkpoints that the store does not take, or takes and says that it has not: they cost little, and nothing that may count is deleted.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use atrest_device::BlockDevice as _;
use atrest_sealedvolume::format::{Kind, names};
use atrest_sealedvolume::store::{MemoryStore, ObjectStore, Put, StoreError};
use atrest_sealedvolume::volume::{Access, Settings};
use atrest_testkit::wait_until;

use crate::rig::plain::{Plain, settings};
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
        (0..10_000).for_each(write);
        // Each try asks the store twice: 16, 32, 64 … and then 4,112 log objects apart.
        assert!(store.asked.load(Ordering::Relaxed) <= 24, "{:?}", store.asked);
        assert!(store.count(Kind::Map) <= 4, "{} leaves of no checkpoint", store.count(Kind::Map));
        store.be(HONEST);
        (0..4200).for_each(write);
        assert!(store.count(Kind::Checkpoint) > 2, "it goes on");
        volume.close().expect("closed");
    }
}

/// A store in which what a checkpoint is made of waits while it is closed, and then fails if that is wanted.
#[derive(Default)]
struct Late {
    objects: MemoryStore,
    closed: Mutex<bool>,
    opened: Condvar,
    fails: AtomicBool,
    waiting: AtomicU64,
}

impl Late {
    fn close(&self, closed: bool) {
        *self.closed.lock().expect("no panic") = closed;
        self.opened.notify_all();
    }
}

impl ObjectStore for Late {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, StoreError> {
        if names::kind(name) != Some(Kind::Log) {
            let closed = self.closed.lock().expect("no panic");
            self.waiting.fetch_add(1, Ordering::SeqCst);
            // Only a test that fails waits so long.
            let wait = self.opened.wait_timeout_while(closed, Duration::from_secs(30), |closed| *closed);
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            assert!(!wait.expect("no panic").1.timed_out(), "nobody has opened the store");
            if self.fails.load(Ordering::SeqCst) {
                return Err(StoreError::Silent);
            }
        }
        self.objects.put_new(name, bytes)
    }

    through!(objects: put, get, get_range, list_after, delete);
}

/// Others read, write and flush meanwhile, also what the checkpoint takes up; and if it fails, nothing of that is lost.
#[test]
fn a_checkpoint_keeps_nobody_waiting_and_what_comes_over_it_meanwhile_counts() {
    for fails in [false, true] {
        let store = Arc::new(Late::default());
        let plain = Plain::new(store.clone(), 8 * LEAF, 1);
        let volume = plain
            .open_with(Access::Write, Settings { checkpoint_every: 4, ..settings(8) })
            .expect("it opens");
        let write = |block: u64, letter: u8| volume.write_at(block * 4096, &[letter; 4096]).expect("a write");
        let read = |block: u64| {
            let mut read = [9; 4096];
            volume.read_at(block * 4096, &mut read).expect("a read");
            assert!(read.iter().all(|byte| *byte == read[0]));
            read[0]
        };
        for block in 0..3 {
            write(block * LEAF, 1);
            if block < 2 {
                volume.flush().expect("a flush");
            }
        }
        store.fails.store(fails, Ordering::SeqCst);
        store.close(true);
        thread::scope(|scope| {
            // The fourth object since the last checkpoint, with the begin.
            let due = scope.spawn(|| volume.flush());
            wait_until("the checkpoint is made", || store.waiting.load(Ordering::SeqCst) == 1);
            assert_eq!([0, 1, 2, 3].map(|leaf| read(leaf * LEAF)), [1, 1, 1, 0]);
            write(LEAF, 2);
            volume.discard(2 * LEAF * 4096, 4096).expect("a trim");
            write(3 * LEAF, 2);
            // A flush in order, one that comes over it, and what is not flushed.
            volume.flush().expect("a flush");
            write(3 * LEAF, 3);
            volume.flush().expect("a flush");
            write(4 * LEAF, 4);
            assert_eq!([0, 1, 2, 3, 4].map(|leaf| read(leaf * LEAF)), [1, 2, 0, 3, 4]);
            assert!(!due.is_finished(), "whoever makes it waits for it");
            store.close(false);
            due.join().expect("no panic").expect("its flush is done, whatever becomes of the checkpoint");
        });
        assert_eq!([0, 1, 2, 3, 4].map(|leaf| read(leaf * LEAF)), [1, 2, 0, 3, 4]);
        store.fails.store(false, Ordering::SeqCst);
        // A crash: the log behind the checkpoint, or behind the one before, says the rest.
        volume.flush().expect("a flush");
        drop(volume);
        let volume = plain.open(Access::Write).expect("it opens");
        volume.close().expect("closed");
        let volume = plain.open(Access::Read).expect("it opens");
        for (leaf, letter) in [1, 2, 0, 3, 4].into_iter().enumerate() {
            let mut read = [9; 4096];
            volume.read_at(leaf as u64 * LEAF * 4096, &mut read).expect("a read");
            assert_eq!(read, [letter; 4096], "leaf {leaf}, fails: {fails}");
        }
    }
}

/// Whatever needs the whole map waits for a checkpoint that is being made, and writers do that are far ahead of it.
#[test]
fn who_needs_the_whole_map_or_has_written_too_much_waits_for_a_checkpoint_that_is_being_made() {
    let store = Arc::new(Late::default());
    let plain = Plain::new(store.clone(), 8 * LEAF, 1);
    let volume =
        plain.open_with(Access::Write, Settings { checkpoint_every: 3, ..settings(8) }).expect("it opens");
    let write = |block: u64| volume.write_at(block * 4096, &[1; 4096]).and_then(|()| volume.flush());
    write(0).expect("a write");
    store.close(true);
    let (written, asked) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let due = scope.spawn(|| write(1));
        wait_until("the checkpoint is made", || store.waiting.load(Ordering::SeqCst) == 1);
        let usage = scope.spawn(|| {
            asked.store(true, Ordering::SeqCst);
            volume.usage()
        });
        wait_until("it is asked for", || asked.load(Ordering::SeqCst));
        let ahead = scope.spawn(|| {
            (2..40).for_each(|block| {
                write(block).expect("a write");
                written.fetch_add(1, Ordering::SeqCst);
            });
        });
        wait_until("one is far ahead", || written.load(Ordering::SeqCst) > 3);
        thread::sleep(Duration::from_millis(50));
        assert!(!usage.is_finished() && !ahead.is_finished() && !due.is_finished());
        assert_eq!(written.load(Ordering::SeqCst), 4, "objects in memory beside those that it takes up");
        store.close(false);
        due.join().expect("no panic").expect("flushed");
        ahead.join().expect("no panic");
        assert!(usage.join().expect("no panic").expect("it is counted").live >= 2);
    });
    volume.close().expect("closed");
    assert_eq!(plain.open(Access::Read).expect("it opens").usage().expect("it is counted").live, 40);
}
