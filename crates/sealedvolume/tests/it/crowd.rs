//! Many who read or flush at once, over a store that answers late: how many requests are under way together, and how many there are.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use atrest_device::{BlockDevice, TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError};
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::{BLOCK_SEALED, Keys};
use atrest_sealedvolume::store::{MemoryStore, ObjectStore, Put, StoreError};
use atrest_sealedvolume::volume::{Access, Freshness, Settings};
use atrest_secret::VolumeKey;
use atrest_testkit::wait_until;

use crate::rig::plain::Cell;
use crate::rig::through::through;

/// Who reads at once, as a client of NBD does.
const CROWD: usize = 32;
/// Blocks in a leaf of the map.
const LEAF: u64 = 4096;
/// Only a test that fails waits so long.
const LONG: Duration = Duration::from_secs(30);

/// A store in which requests for ranges wait for one another, and puts wait while it is closed.
#[derive(Default)]
struct Late {
    objects: MemoryStore,
    /// Requests for ranges that are here, and the most that were.
    here: Mutex<(usize, usize)>,
    came: Condvar,
    /// So many must be here before the first is answered.
    wanted: AtomicUsize,
    /// Of requests for ranges: how many, and the longest.
    ranges: AtomicU64,
    longest: AtomicUsize,
    /// Milliseconds that each takes.
    takes: AtomicU64,
    closed: Mutex<bool>,
    opened: Condvar,
    /// Puts that wait, and all.
    waiting: AtomicUsize,
    puts: AtomicU64,
}

impl Late {
    fn want(&self, wanted: usize) {
        self.wanted.store(wanted, Ordering::SeqCst);
        *self.here.lock().expect("no panic") = (0, 0);
        self.ranges.store(0, Ordering::SeqCst);
        self.longest.store(0, Ordering::SeqCst);
    }

    fn close(&self, closed: bool) {
        *self.closed.lock().expect("no panic") = closed;
        self.opened.notify_all();
    }
}

impl ObjectStore for Late {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, StoreError> {
        self.puts.fetch_add(1, Ordering::SeqCst);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let closed = self.closed.lock().expect("no panic");
        let (closed, late) =
            self.opened.wait_timeout_while(closed, LONG, |closed| *closed).expect("no panic");
        drop(closed);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        assert!(!late.timed_out(), "nobody has opened the store");
        self.objects.put_new(name, bytes)
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Option<Vec<u8>>, StoreError> {
        self.ranges.fetch_add(1, Ordering::SeqCst);
        self.longest.fetch_max(len, Ordering::SeqCst);
        let wanted = self.wanted.load(Ordering::SeqCst);
        let mut here = self.here.lock().expect("no panic");
        here.0 += 1;
        here.1 = here.1.max(here.0);
        self.came.notify_all();
        let wait = self.came.wait_timeout_while(here, LONG, |here| here.1 < wanted);
        let (mut here, late) = wait.expect("no panic");
        here.0 -= 1;
        let most = here.1;
        drop(here);
        assert!(!late.timed_out(), "{most} requests were here at once, not {wanted}");
        thread::sleep(Duration::from_millis(self.takes.load(Ordering::SeqCst)));
        self.objects.get_range(name, offset, len)
    }

    through!(objects: put, get, list_after, delete);
}

/// A trusted store that counts what is stored, and waits while it is closed.
#[derive(Clone, Default)]
struct Slow {
    cell: Cell,
    closed: Arc<(Mutex<bool>, Condvar)>,
    stored: Arc<AtomicU64>,
}

impl TrustedStore for Slow {
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        self.cell.load()
    }

    fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        self.stored.fetch_add(1, Ordering::SeqCst);
        let (closed, opened) = &*self.closed;
        let closed = closed.lock().expect("no panic");
        let (closed, late) = opened.wait_timeout_while(closed, LONG, |closed| *closed).expect("no panic");
        drop(closed);
        assert!(!late.timed_out(), "nobody has opened the trusted store");
        self.cell.store(record)
    }
}

struct Volume {
    store: Arc<Late>,
    record: Slow,
}

impl Volume {
    fn new() -> Self {
        let volume = Self { store: Arc::default(), record: Slow::default() };
        let (shared, mut record) = (volume.shared(), Freshness::Record(Box::new(volume.record.clone())));
        SealedVolume::format(shared, keys(), &mut record, (1 << 20, 32), &mut settings(0)).expect("a volume");
        volume
    }

    fn shared(&self) -> Arc<dyn ObjectStore> {
        self.store.clone()
    }

    fn open(&self, access: Access, map_buffer: usize) -> SealedVolume {
        let record = Freshness::Record(Box::new(self.record.clone()));
        SealedVolume::open(self.shared(), keys(), record, access, settings(map_buffer)).expect("it opens")
    }
}

fn keys() -> Keys {
    Keys::new(&VolumeKey::copy_from(&[7; 32]), [1; 16]).expect("keys")
}

/// Of a store on S3, with branches of the map that hold so many runs.
fn settings(map_buffer: usize) -> Settings {
    Settings { parallel: NonZeroUsize::new(8).expect("not 0"), map_buffer, ..Settings::default() }
}

/// A block of each leaf, in no order.
fn block_of(leaf: usize) -> u64 {
    leaf as u64 * LEAF + leaf as u64 * 7 % 100
}

/// A volume with a block in each of some leaves, open to be read, of which one block was read.
fn scattered(map_buffer: usize) -> (Volume, SealedVolume) {
    let volume = Volume::new();
    let writer = volume.open(Access::Write, map_buffer);
    for leaf in 0..=CROWD {
        writer.write_at(block_of(leaf) * 4096, &[leaf as u8 + 1; 4096]).expect("written");
        if leaf % 5 == 0 {
            writer.flush().expect("flushed");
        }
    }
    writer.close().expect("closed");
    let reader = volume.open(Access::Read, map_buffer);
    volume.store.want(1);
    reader.read_at(block_of(CROWD) * 4096, &mut [0; 4096]).expect("read");
    (volume, reader)
}

fn all_read(reader: &SealedVolume) {
    thread::scope(|scope| {
        for leaf in 0..CROWD {
            scope.spawn(move || {
                let mut read = [0; 4096];
                reader.read_at(block_of(leaf) * 4096, &mut read).expect("read");
                assert!(read == [leaf as u8 + 1; 4096], "leaf {leaf}");
            });
        }
    });
}

/// Blocks lie in runs that were written in no order, so that what is fetched ahead has more pieces than may be under way. Those that are left
/// were waited for already: whoever waited fetches them, and a run is one request.
#[test]
fn who_waits_for_what_nobody_fetches_after_all_fetches_it_together() {
    const RUN: u64 = 16;
    const RUNS: u64 = 512;
    let value = |run: u64| (run % 251) as u8 + 1;
    let volume = Volume::new();
    let writer = volume.open(Access::Write, 8192);
    for run in (0..RUNS).map(|nth| nth * 129 % RUNS) {
        let bytes = [value(run); RUN as usize * 4096];
        writer.write_at(run * RUN * 4096, &bytes).expect("written");
    }
    writer.close().expect("closed");
    let reader = volume.open(Access::Read, 8192);
    volume.store.want(1);
    volume.store.takes.store(3, Ordering::SeqCst);
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut read = vec![0; 16 * RUN as usize * 4096];
                loop {
                    let first = next.fetch_add(16, Ordering::SeqCst);
                    if first >= RUNS {
                        break;
                    }
                    reader.read_at(first * RUN * 4096, &mut read).expect("read");
                    for (bytes, run) in read.chunks(RUN as usize * 4096).zip(first..) {
                        assert!(bytes.iter().all(|byte| *byte == value(run)), "run {run}");
                    }
                }
            });
        }
    });
    // Where an object begins is a matter of time. In it blocks lie in the order of their places, so that two runs at the edge may be one.
    let ranges = volume.store.ranges.load(Ordering::SeqCst);
    assert!((RUNS * 7 / 8..RUNS * 3 / 2).contains(&ranges), "{ranges} requests for {RUNS} runs");
}

#[test]
fn of_many_who_read_at_once_each_asks_for_its_block_alone_and_all_at_once() {
    let (volume, reader) = scattered(8192);
    volume.store.want(CROWD);
    all_read(&reader);
    assert_eq!(volume.store.ranges.load(Ordering::SeqCst), CROWD as u64);
    assert_eq!(volume.store.longest.load(Ordering::SeqCst), BLOCK_SEALED);
    // All of them are in memory now.
    all_read(&reader);
    assert_eq!(volume.store.ranges.load(Ordering::SeqCst), CROWD as u64);
}

/// Each needs a node of the map that is not in memory.
#[test]
fn the_map_is_fetched_by_all_who_need_it_at_once_too() {
    let (volume, reader) = scattered(0);
    volume.store.want(CROWD);
    all_read(&reader);
    assert_eq!(volume.store.ranges.load(Ordering::SeqCst), 2 * CROWD as u64, "a node and a block for each");
}

#[test]
fn those_who_need_one_node_of_the_map_fetch_it_once() {
    let (volume, reader) = scattered(0);
    volume.store.want(1);
    thread::scope(|scope| {
        for block in 0..CROWD as u64 {
            let reader = &reader;
            // Nothing was written there, which only the node says.
            scope.spawn(move || {
                let mut read = [1; 4096];
                reader.read_at((5 * LEAF + 1000 + block) * 4096, &mut read).expect("read");
                assert!(read == [0; 4096]);
            });
        }
    });
    assert_eq!(volume.store.ranges.load(Ordering::SeqCst), 1);
}

#[test]
fn those_who_flush_at_once_share_objects_and_records() {
    let volume = Volume::new();
    let writer = volume.open(Access::Write, 8192);
    let (store, record) = (&volume.store, &volume.record);
    store.close(true);
    let (puts, stored) = (store.puts.load(Ordering::SeqCst), record.stored.load(Ordering::SeqCst));
    let (begun, all_written) = (AtomicUsize::new(0), Barrier::new(CROWD));
    thread::scope(|scope| {
        let flush = |at: usize| {
            let (writer, begun, all_written) = (&writer, &begun, &all_written);
            scope.spawn(move || {
                writer.write_at(at as u64 * 4096, &[at as u8 + 1; 4096]).expect("written");
                if at >= 4 {
                    all_written.wait();
                }
                begun.fetch_add(1, Ordering::SeqCst);
                writer.flush().expect("flushed");
            });
        };
        // Half of what may be under way.
        for at in 0..4 {
            flush(at);
            wait_until("its object is under way", || store.waiting.load(Ordering::SeqCst) == at + 1);
        }
        (4..4 + CROWD).for_each(flush);
        wait_until("all flush", || begun.load(Ordering::SeqCst) == 4 + CROWD);
        thread::sleep(Duration::from_millis(100));
        assert_eq!(store.waiting.load(Ordering::SeqCst), 4, "the others wait for their turn");
        store.close(false);
    });
    // However late somebody flushes, what was written is in one object.
    let puts = store.puts.load(Ordering::SeqCst) - puts;
    let stored = record.stored.load(Ordering::SeqCst) - stored;
    assert!(puts == 5 && stored <= 5, "{puts} objects and {stored} records for {} flushes", 4 + CROWD);
    drop(writer);
    let reader = volume.open(Access::Read, 8192);
    for at in 0..4 + CROWD {
        let mut read = [0; 4096];
        reader.read_at(at as u64 * 4096, &mut read).expect("read");
        assert!(read == [at as u8 + 1; 4096]);
    }
}

#[test]
fn a_trusted_store_that_is_slow_keeps_neither_readers_nor_writers_waiting() {
    let volume = Volume::new();
    let writer = volume.open(Access::Write, 8192);
    writer.write_at(0, &[1; 4096]).expect("written");
    let close = |closed: bool| {
        *volume.record.closed.0.lock().expect("no panic") = closed;
        volume.record.closed.1.notify_all();
    };
    close(true);
    let before = volume.record.stored.load(Ordering::SeqCst);
    thread::scope(|scope| {
        let flush = scope.spawn(|| writer.flush());
        wait_until("the record is written", || volume.record.stored.load(Ordering::SeqCst) > before);
        let mut read = [0; 4096];
        writer.read_at(0, &mut read).expect("read");
        assert!(read == [1; 4096]);
        writer.write_at(4096, &[2; 4096]).expect("written");
        assert!(!flush.is_finished(), "nothing is acknowledged before");
        close(false);
        flush.join().expect("no panic").expect("flushed");
    });
}
