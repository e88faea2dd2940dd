//! Several requests at once: objects are stored together, and reads fetch together and ahead. What is read and kept is the same.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use atrest_device::BlockDevice;
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::Keys;
use atrest_sealedvolume::store::{MemoryStore, ObjectStore, Put, StoreError};
use atrest_sealedvolume::volume::{Access, Freshness, Settings};
use atrest_secret::VolumeKey;

use crate::rig::through::through;

const MIB: usize = 1 << 20;

/// A store in which a request waits for another one while so many must meet.
#[derive(Default)]
struct Meeting {
    objects: MemoryStore,
    /// Requests that are here, and the most that were.
    here: Mutex<(usize, usize)>,
    came: Condvar,
    wanted: AtomicUsize,
    ranges: AtomicU64,
    /// Ranges that come wrong.
    damaged: AtomicU64,
}

impl Meeting {
    fn meet(&self) {
        let mut here = self.here.lock().expect("no panic");
        here.0 += 1;
        here.1 = here.1.max(here.0);
        self.came.notify_all();
        let wanted = self.wanted.load(Ordering::Relaxed);
        // Only a test that fails waits so long.
        let wait = self.came.wait_timeout_while(here, Duration::from_secs(20), |here| here.1 < wanted);
        let (mut here, late) = wait.expect("no panic");
        assert!(!late.timed_out(), "{wanted} requests never met");
        here.0 -= 1;
    }

    /// From now on so many have to meet. Returns how many have met.
    fn want(&self, wanted: usize) -> usize {
        self.wanted.store(wanted, Ordering::Relaxed);
        std::mem::take(&mut self.here.lock().expect("no panic").1)
    }
}

impl ObjectStore for Meeting {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, StoreError> {
        self.meet();
        self.objects.put_new(name, bytes)
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Option<Vec<u8>>, StoreError> {
        self.meet();
        self.ranges.fetch_add(1, Ordering::Relaxed);
        let mut found = self.objects.get_range(name, offset, len)?;
        let damaged = self.damaged.load(Ordering::Relaxed);
        if damaged > 0 {
            self.damaged.store(damaged - 1, Ordering::Relaxed);
            found.iter_mut().for_each(|bytes| bytes.iter_mut().for_each(|byte| *byte ^= 1));
        }
        Ok(found)
    }

    through!(objects: put, get, list_after, delete);
}

fn keys() -> Keys {
    Keys::new(&VolumeKey::copy_from(&[7; 32]), [1; 16]).expect("keys")
}

fn settings() -> Settings {
    let parallel = NonZeroUsize::new(4).expect("not 0");
    Settings { parallel, batch: 512, ..Settings::default() }
}

fn open(store: &Arc<Meeting>, access: Access) -> SealedVolume {
    let store: Arc<dyn ObjectStore> = store.clone();
    SealedVolume::open(store, keys(), Freshness::Nothing, access, settings()).expect("it opens")
}

/// A store with a volume, 16 MiB of which are written.
fn filled() -> (Arc<Meeting>, Vec<u8>) {
    let store = Arc::new(Meeting::default());
    let (mut nothing, shared) = (Freshness::Nothing, store.clone() as Arc<dyn ObjectStore>);
    SealedVolume::format(shared, keys(), &mut nothing, (1 << 20, 32), &mut settings()).expect("a volume");
    let volume = open(&store, Access::Write);
    let data: Vec<u8> =
        (0..16 * MIB as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 23) as u8 | 1).collect();
    // Two of the three log objects that are ready when the fourth comes must meet.
    store.want(2);
    for (at, part) in data.chunks(MIB).enumerate() {
        volume.write_at((at * MIB) as u64, part).expect("written");
    }
    volume.flush().expect("flushed");
    assert!((2..=4).contains(&store.want(0)));
    // What was not closed is as after a crash.
    drop(volume);
    (store, data)
}

#[test]
fn log_objects_are_stored_together_and_are_there_after_the_flush() {
    let (store, data) = filled();
    let volume = open(&store, Access::Read);
    let mut read = vec![0; data.len()];
    volume.read_at(0, &mut read).expect("read");
    assert!(read == data);
}

#[test]
fn a_read_fetches_its_parts_together() {
    let (store, data) = filled();
    let volume = open(&store, Access::Read);
    store.want(2);
    let mut read = vec![0; 3 * MIB];
    volume.read_at(5 * MIB as u64 + 17, &mut read).expect("read");
    assert!(read == data[5 * MIB + 17..8 * MIB + 17]);
    assert!((2..=4).contains(&store.want(0)));
    // All of it is in the cache now.
    let before = store.ranges.load(Ordering::Relaxed);
    volume.read_at(5 * MIB as u64 + 17, &mut read).expect("read");
    assert!(read == data[5 * MIB + 17..8 * MIB + 17]);
    assert_eq!(store.ranges.load(Ordering::Relaxed), before);
}

#[test]
fn who_reads_in_order_is_read_ahead_for() {
    let (store, data) = filled();
    let volume = open(&store, Access::Read);
    let before = store.ranges.load(Ordering::Relaxed);
    let mut read = vec![0; 64 << 10];
    for (at, part) in data.chunks(read.len()).enumerate() {
        volume.read_at((at * read.len()) as u64, &mut read).expect("read");
        assert!(read == part);
    }
    // 256 reads, without which there would be as many requests.
    let asked = store.ranges.load(Ordering::Relaxed) - before;
    assert!(asked <= 48, "{asked} requests");
    // Whoever jumps is not.
    let volume = open(&store, Access::Read);
    let before = store.ranges.load(Ordering::Relaxed);
    for at in [100, 60, 200, 20] {
        volume.read_at(at * (64 << 10), &mut read).expect("read");
    }
    assert_eq!(store.ranges.load(Ordering::Relaxed) - before, 4);
}

/// As a server of NBD does: what is in memory is read at once, and all else by another thread.
#[test]
fn what_is_in_memory_is_read_at_once_and_who_reads_so_in_order_is_read_ahead_for() {
    let (store, data) = filled();
    let volume = open(&store, Access::Read);
    let mut read = vec![0; 64 << 10];
    assert_eq!(volume.read_if_cached(0, &mut read), Ok(false), "it was never read");
    let before = store.ranges.load(Ordering::Relaxed);
    for (at, part) in data.chunks(read.len()).enumerate() {
        read.fill(0);
        let offset = (at * read.len()) as u64;
        if !volume.read_if_cached(offset, &mut read).expect("it lies inside") {
            volume.read_at(offset, &mut read).expect("read");
        }
        assert!(read == part, "part {at}");
    }
    let asked = store.ranges.load(Ordering::Relaxed) - before;
    assert!(asked <= 48, "{asked} requests");
    // The end of it is in memory for sure, and so are zeros that were never written; half a block takes another way.
    let last = (data.len() - read.len()) as u64;
    assert_eq!(volume.read_if_cached(last, &mut read), Ok(true));
    assert!(read == data[last as usize..]);
    let behind = 4 * data.len() as u64;
    assert_eq!(volume.read_if_cached(behind, &mut read), Ok(true));
    assert!(read.iter().all(|byte| *byte == 0));
    assert_eq!(volume.read_if_cached(last + 100, &mut read[..4096]), Ok(false));
    assert!(volume.read_if_cached(1 << 32, &mut read).is_err(), "it lies behind the end");
    // What is written and not stored yet.
    drop(volume);
    let volume = open(&store, Access::Write);
    volume.write_at(last, &[5; 4096]).expect("written");
    assert_eq!(volume.read_if_cached(last, &mut read[..4096]), Ok(true));
    assert!(read[..4096] == [5; 4096]);
}

#[test]
fn what_comes_wrong_ahead_is_fetched_again_and_told_if_it_stays_so() {
    let (store, data) = filled();
    let volume = open(&store, Access::Read);
    let mut read = vec![0; 64 << 10];
    store.damaged.store(1, Ordering::Relaxed);
    volume.read_at(0, &mut read).expect("read");
    assert!(read == data[..64 << 10]);
    store.damaged.store(u64::MAX, Ordering::Relaxed);
    assert!(volume.read_at(MIB as u64, &mut read).is_err());
    store.damaged.store(0, Ordering::Relaxed);
    volume.read_at(MIB as u64, &mut read).expect("read");
    assert!(read == data[MIB..MIB + (64 << 10)]);
}

#[test]
fn what_is_overwritten_is_not_read_from_the_cache() {
    let (store, data) = filled();
    let volume = open(&store, Access::Write);
    let mut read = vec![0; 64 << 10];
    volume.read_at(0, &mut read).expect("read");
    volume.write_at(4096, &[9; 4096]).expect("written");
    volume.read_at(0, &mut read).expect("read");
    assert!(
        read[..4096] == data[..4096] && read[4096..8192] == [9; 4096] && read[8192..] == data[8192..64 << 10]
    );
    volume.discard(0, 4096).expect("trimmed");
    volume.flush().expect("flushed");
    volume.read_at(0, &mut read).expect("read");
    assert!(read[..4096] == [0; 4096] && read[4096..8192] == [9; 4096]);
}
