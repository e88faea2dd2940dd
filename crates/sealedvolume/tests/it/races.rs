//! What one thread does while another one waits for the store, and what a panic leaves behind: each case is brought about, and not met by chance.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use atrest_device::{BlockDevice as _, TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError};
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::{Kind, names};
use atrest_sealedvolume::store::{MemoryStore, ObjectStore, Put, StoreError};
use atrest_sealedvolume::volume::{Access, Freshness, Settings};
use atrest_testkit::wait_until;

use crate::rig::plain::{Cell, Plain, settings};
use crate::rig::through::through;

/// Only a test that fails, or that a slow machine has made empty, waits so long.
const LONG: Duration = Duration::from_secs(20);

/// Those who are held until they are let go.
#[derive(Default)]
struct Gate {
    /// So many of those who come are held, who are here, and who may go.
    inner: Mutex<(usize, usize, usize)>,
    changed: Condvar,
}

impl Gate {
    fn hold(&self, next: usize) {
        self.inner.lock().expect("no panic").0 = next;
    }

    fn let_go(&self) {
        self.inner.lock().expect("no panic").2 += 1;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut inner = self.inner.lock().expect("no panic");
        if inner.0 == 0 {
            return;
        }
        inner.0 -= 1;
        inner.1 += 1;
        let (mut inner, _) =
            self.changed.wait_timeout_while(inner, LONG, |inner| inner.2 == 0).expect("no panic");
        inner.1 -= 1;
        inner.2 = inner.2.saturating_sub(1);
    }

    fn here(&self) -> usize {
        self.inner.lock().expect("no panic").1
    }
}

/// A store in which requests for nodes of the map are held, and which panics once where a checkpoint is put.
#[derive(Default)]
struct Racing {
    objects: MemoryStore,
    ranges: Gate,
    panics: AtomicBool,
    puts: AtomicU64,
}

impl ObjectStore for Racing {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, StoreError> {
        let is_checkpoint = names::kind(name) == Some(Kind::Checkpoint);
        assert!(!(is_checkpoint && self.panics.swap(false, Ordering::SeqCst)), "on purpose");
        let put = self.objects.put_new(name, bytes);
        self.puts.fetch_add(1, Ordering::SeqCst);
        put
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Option<Vec<u8>>, StoreError> {
        if names::kind(name) == Some(Kind::Map) {
            self.ranges.pass();
        }
        self.objects.get_range(name, offset, len)
    }

    through!(objects: put, get, list_after, delete);
}

/// A volume without any node of the map in memory.
fn without_memory(checkpoint_every: u64) -> Settings {
    Settings { cached_map: 0, checkpoint_every, ..settings(8) }
}

fn written(volume: &SealedVolume, block: u64, letter: u8) {
    volume.write_at(block * 4096, &[letter; 4096]).expect("a write");
    volume.flush().expect("a flush");
}

fn letter(volume: &SealedVolume, block: u64) -> u8 {
    let mut read = [9; 4096];
    volume.read_at(block * 4096, &mut read).expect("a read");
    assert!(read == [read[0]; 4096]);
    read[0]
}

/// Whoever waits with a write while the volume gets smaller writes nothing behind its end: that would end the log at the next opening.
#[test]
fn a_write_that_waits_while_the_volume_gets_smaller_is_refused() {
    let store = Arc::new(Racing::default());
    let plain = Plain::new(store.clone(), 1000, 1);
    let volume = plain.open(Access::Write).expect("it opens");
    written(&volume, 600, 1);
    volume.close().expect("closed");
    let volume = plain.open_with(Access::Write, without_memory(16)).expect("it opens");
    store.ranges.hold(1);
    thread::scope(|scope| {
        // It changes a part of a block, which it has to read first.
        let write = scope.spawn(|| volume.write_at(600 * 4096 + 1, &[2; 10]));
        wait_until("it reads", || store.ranges.here() == 1);
        volume.resize(10).expect("smaller");
        store.ranges.let_go();
        let refused = write.join().expect("no panic").expect_err("it lies behind the end");
        assert!(refused.to_string().contains("40960"), "{refused}");
    });
    written(&volume, 1, 3);
    assert!(volume.discard(9 * 4096, 8192).is_err());
    drop(volume);
    let volume = plain.open(Access::Read).expect("it opens");
    assert_eq!((volume.size(), letter(&volume, 1)), (10 * 4096, 3), "what was flushed is there");
}

/// A node that a reader is about to fetch is replaced and collected: it lies elsewhere now.
#[test]
fn a_node_that_was_collected_while_a_reader_waited_for_it_is_no_error() {
    let store = Arc::new(Racing::default());
    let plain = Plain::new(store.clone(), 1000, 1);
    let volume = plain.open_with(Access::Write, without_memory(1000)).expect("it opens");
    written(&volume, 0, 1);
    volume.checkpoint().expect("a checkpoint");
    let old = store.objects.list_after(Kind::Map, None).expect("a list");
    // The second one waits for the first, which leaves nothing in memory, and asks for itself then.
    store.ranges.hold(2);
    thread::scope(|scope| {
        let first = scope.spawn(|| letter(&volume, 1));
        wait_until("the first one asks", || store.ranges.here() == 1);
        let second = scope.spawn(|| {
            let read = letter(&volume, 0);
            (read, volume.extent(4096, 4096).expect("it is known").hole)
        });
        thread::sleep(Duration::from_millis(100));
        store.ranges.let_go();
        assert_eq!(first.join().expect("no panic"), 0);
        wait_until("the second one asks", || store.ranges.here() == 1);
        for block in 2..4 {
            written(&volume, block, 1);
            volume.checkpoint().expect("a checkpoint");
        }
        let garbage = volume.garbage().expect("garbage");
        assert!(old.iter().any(|old| garbage.names().contains(old)), "{old:?} of {garbage:?}");
        volume.collect(garbage).expect("collected");
        store.ranges.let_go();
        assert_eq!(second.join().expect("its node is another one now"), (1, true));
    });
    // What is gone for good is told.
    for node in store.objects.list_after(Kind::Map, None).expect("a list") {
        store.objects.delete(&node).expect("deleted");
    }
    assert!(volume.read_at(5 * 4096, &mut [0; 4096]).is_err());
}

/// A trusted store that is held, and then fails or panics.
#[derive(Clone, Default)]
struct Failing {
    cell: Cell,
    gate: Arc<Gate>,
    fails: Arc<AtomicBool>,
    panics: Arc<AtomicBool>,
}

impl TrustedStore for Failing {
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        self.cell.load()
    }

    fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        self.gate.pass();
        assert!(!self.panics.swap(false, Ordering::SeqCst), "on purpose");
        match self.fails.swap(false, Ordering::SeqCst) {
            true => Err(TrustedStoreError::Driver(5)),
            false => self.cell.store(record),
        }
    }
}

fn open(plain: &Plain, trusted: &Failing, anchor_every: u32) -> SealedVolume {
    let anchor_every = anchor_every.try_into().expect("not 0");
    let settings = Settings { anchor_every, ..settings(8) };
    let (store, freshness) = (Arc::clone(&plain.store), Freshness::Record(Box::new(trusted.clone())));
    SealedVolume::open(store, plain.keys.clone(), freshness, Access::Write, settings).expect("it opens")
}

#[test]
fn after_a_panic_in_the_trusted_store_nothing_is_acknowledged() {
    let plain = Plain::in_memory(1000);
    let trusted = Failing { cell: plain.cell.clone(), ..Failing::default() };
    let volume = open(&plain, &trusted, 1);
    written(&volume, 0, 1);
    trusted.panics.store(true, Ordering::SeqCst);
    volume.write_at(4096, &[2; 4096]).expect("a write");
    assert!(catch_unwind(AssertUnwindSafe(|| volume.flush())).is_err());
    for _ in 0..2 {
        assert!(volume.flush().is_err());
        assert!(volume.close().is_err());
    }
}

/// Of two flushes one is to write the record, and can't; the other one waits for it, and has none to write.
#[test]
fn a_flush_that_needs_no_record_is_not_acknowledged_behind_one_that_failed() {
    let store = Arc::new(Racing::default());
    let plain = Plain::new(store.clone(), 1000, 1);
    let trusted = Failing { cell: plain.cell.clone(), ..Failing::default() };
    let volume = open(&plain, &trusted, 2);
    written(&volume, 0, 1);
    trusted.gate.hold(1);
    trusted.fails.store(true, Ordering::SeqCst);
    thread::scope(|scope| {
        let flush = |block: u64| {
            let volume = &volume;
            scope.spawn(move || {
                volume.write_at(block * 4096, &[2; 4096]).expect("a write");
                volume.flush()
            })
        };
        let first = flush(1);
        wait_until("the record is written", || trusted.gate.here() == 1);
        let before = store.puts.load(Ordering::SeqCst);
        let second = flush(2);
        wait_until("its object is stored", || store.puts.load(Ordering::SeqCst) > before);
        thread::sleep(Duration::from_millis(50));
        trusted.gate.let_go();
        assert!(first.join().expect("no panic").is_err());
        assert!(second.join().expect("no panic").is_err());
    });
}

/// The checkpoint is forgotten, and the store may have it.
#[test]
fn after_a_panic_in_a_checkpoint_nothing_is_acknowledged_and_nothing_is_lost() {
    let store = Arc::new(Racing::default());
    let plain = Plain::new(store.clone(), 1000, 1);
    let volume =
        plain.open_with(Access::Write, Settings { checkpoint_every: 3, ..settings(8) }).expect("it opens");
    written(&volume, 0, 1);
    store.panics.store(true, Ordering::SeqCst);
    volume.write_at(4096, &[2; 4096]).expect("a write");
    assert!(catch_unwind(AssertUnwindSafe(|| volume.flush())).is_err());
    assert_eq!((letter(&volume, 0), letter(&volume, 1)), (1, 2), "it is read as before");
    assert!(volume.write_at(0, &[3; 4096]).is_err() && volume.flush().is_err() && volume.garbage().is_err());
    drop(volume);
    let volume = plain.open(Access::Write).expect("it opens");
    assert_eq!((letter(&volume, 0), letter(&volume, 1)), (1, 2));
    volume.close().expect("closed");
}
