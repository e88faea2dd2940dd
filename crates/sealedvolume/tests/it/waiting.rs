//! A store that hangs: who waits for it keeps nobody else waiting, and waits no longer than patience lasts.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use atrest_device::BlockDevice;
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::{Keys, Kind, names};
use atrest_sealedvolume::store::{MemoryStore, ObjectStore, Put, StoreError};
use atrest_sealedvolume::volume::{Access, Freshness, Patience, Settings};
use atrest_secret::VolumeKey;
use atrest_testkit::wait_until;

use crate::rig::through::through;

/// A store whose requests wait while it is closed: puts, or gets.
#[derive(Default)]
struct Gated {
    objects: MemoryStore,
    closed: Mutex<(bool, bool)>,
    opened: Condvar,
    waiting: AtomicU64,
    gets: AtomicU64,
    lists: AtomicU64,
}

impl Gated {
    fn close(&self, puts: bool, gets: bool) {
        *self.closed.lock().expect("no panic") = (puts, gets);
        self.opened.notify_all();
    }

    fn pass(&self, is_closed: impl Fn(&(bool, bool)) -> bool) {
        let closed = self.closed.lock().expect("no panic");
        if is_closed(&closed) {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            drop(self.opened.wait_while(closed, |closed| is_closed(closed)).expect("no panic"));
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::SeqCst)
    }
}

impl ObjectStore for Gated {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, StoreError> {
        self.pass(|closed| closed.0);
        self.objects.put_new(name, bytes)
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Option<Vec<u8>>, StoreError> {
        self.gets.fetch_add(1, Ordering::SeqCst);
        self.pass(|closed| closed.1);
        self.objects.get_range(name, offset, len)
    }

    fn list_after(&self, kind: Kind, after: Option<&str>) -> Result<Vec<String>, StoreError> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        self.objects.list_after(kind, after)
    }

    fn list_some(
        &self,
        kind: Kind,
        after: Option<&str>,
    ) -> Result<atrest_sealedvolume::store::Names, StoreError> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        self.objects.list_some(kind, after)
    }

    through!(objects: put, get, delete);
}

/// A store that refuses one name.
#[derive(Default)]
struct Refusing {
    objects: MemoryStore,
    refused: Mutex<Option<String>>,
}

impl ObjectStore for Refusing {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, StoreError> {
        match self.refused.lock().expect("no panic").as_deref() == Some(name) {
            true => Err(StoreError::Silent),
            false => self.objects.put_new(name, bytes),
        }
    }

    through!(objects: put, get, get_range, list_after, delete);
}

const WINDOW: u8 = 4;

fn keys() -> Keys {
    Keys::new(&VolumeKey::copy_from(&[7; 32]), [1; 16]).expect("keys")
}

fn open(store: &Arc<Gated>, parallel: usize, deadline: Duration) -> SealedVolume {
    let keys = keys();
    let shared: Arc<dyn ObjectStore> = store.clone();
    let tries = NonZeroU32::new(1000).expect("not 0");
    let patience = Patience { tries, first_pause: Duration::from_millis(5), deadline };
    let settings = || Settings {
        parallel: NonZeroUsize::new(parallel).expect("not 0"),
        patience,
        ..Settings::default()
    };
    if store.objects.list_after(Kind::Checkpoint, None).expect("a list").is_empty() {
        let nothing = &mut Freshness::Nothing;
        SealedVolume::format(shared.clone(), keys.clone(), nothing, (1 << 20, 32), &mut settings())
            .expect("a volume");
    }
    SealedVolume::open(shared, keys, Freshness::Nothing, Access::Write, settings()).expect("it opens")
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_flush_that_waits_for_the_store_keeps_neither_readers_nor_writers_waiting() {
    for parallel in [1, 4] {
        let store = Arc::new(Gated::default());
        let volume = open(&store, parallel, LONG);
        volume.write_at(0, &[1; 8192]).expect("written");
        volume.flush().expect("flushed");
        volume.write_at(4096, &[2; 4096]).expect("written");
        store.close(true, false);
        thread::scope(|scope| {
            let flush = scope.spawn(|| volume.flush());
            wait_until("the flush asks the store", || store.waiting() == 1);
            let mut read = [0; 8192];
            // What is stored, what is on its way, and what is written meanwhile.
            volume.read_at(0, &mut read).expect("read");
            assert!(read[..4096] == [1; 4096] && read[4096..] == [2; 4096]);
            volume.write_at(0, &[3; 4096]).expect("written");
            volume.read_at(0, &mut read).expect("read");
            assert!(read[..4096] == [3; 4096]);
            assert!(!flush.is_finished());
            store.close(false, false);
            flush.join().expect("no panic").expect("flushed");
        });
        volume.flush().expect("flushed");
        drop(volume);
        let mut read = [0; 8192];
        open(&store, parallel, LONG).read_at(0, &mut read).expect("read");
        assert!(read[..4096] == [3; 4096] && read[4096..] == [2; 4096]);
    }
}

#[test]
fn a_flush_is_waited_for_until_patience_is_over_and_nothing_is_acknowledged_afterwards() {
    for parallel in [1, 4] {
        let store = Arc::new(Gated::default());
        let volume = open(&store, parallel, Duration::from_millis(300));
        volume.write_at(0, &[1; 4096]).expect("written");
        volume.flush().expect("flushed");
        volume.write_at(0, &[2; 4096]).expect("written");
        store.close(true, false);
        thread::scope(|scope| {
            let flushes: Vec<_> = (0..3).map(|_| scope.spawn(|| volume.flush().is_err())).collect();
            wait_until("a flush asks the store", || store.waiting() >= 1);
            thread::sleep(Duration::from_millis(400));
            // One that stores by itself is held by the store, which is to end each request.
            if parallel > 1 {
                wait_until("all have failed", || flushes.iter().all(|flush| flush.is_finished()));
            }
            store.close(false, false);
            assert!(parallel == 1 || flushes.into_iter().all(|flush| flush.join().expect("no panic")));
        });
        if parallel > 1 {
            assert!(volume.flush().is_err() && volume.write_at(0, &[3; 4096]).is_err());
        }
    }
}

#[test]
fn readers_of_a_block_fetch_it_once_and_none_waits_for_the_reader_of_another() {
    let store = Arc::new(Gated::default());
    let volume = open(&store, 4, LONG);
    for block in 0..4_u64 {
        volume.write_at(block * 4096, &[block as u8 + 1; 4096]).expect("written");
        volume.flush().expect("flushed");
    }
    volume.close().expect("closed");
    let volume = open(&store, 4, LONG);
    let mut read = [0; 4096];
    // The map is in memory then.
    volume.read_at(3 * 4096, &mut read).expect("read");
    let before = store.gets.load(Ordering::SeqCst);
    store.close(false, true);
    let volume = &volume;
    thread::scope(|scope| {
        let get = |block: u64| {
            let mut read = [0; 4096];
            volume.read_at(block * 4096, &mut read).expect("read");
            read == [block as u8 + 1; 4096]
        };
        let same: Vec<_> = (0..4).map(|_| scope.spawn(move || get(0))).collect();
        wait_until("one of them asks", || store.waiting() == 1);
        let other = scope.spawn(move || get(1));
        wait_until("the other one asks, too", || store.waiting() == 2);
        assert!(get(3), "what is in memory is read all the while");
        store.close(false, false);
        assert!(same.into_iter().all(|one| one.join().expect("no panic")) && other.join().expect("no panic"));
    });
    assert_eq!(store.gets.load(Ordering::SeqCst) - before, 2);
}

#[test]
fn who_waits_for_a_store_that_fails_is_told_in_time_and_reads_later() {
    let store = Arc::new(Gated::default());
    let volume = open(&store, 4, LONG);
    volume.write_at(0, &[1; 4096]).expect("written");
    volume.close().expect("closed");
    let name = store.objects.list_after(Kind::Log, None).expect("a list").pop().expect("an object");
    let volume = open(&store, 4, Duration::from_millis(300));
    let object = store.objects.get(&name, 1 << 20).expect("it answers").expect("it is there");
    store.objects.delete(&name).expect("deleted");
    let mut read = [0; 4096];
    let begun = Instant::now();
    assert!(volume.read_at(0, &mut read).is_err() && begun.elapsed() < LONG);
    store.objects.put_new(&name, &object).expect("stored");
    volume.read_at(0, &mut read).expect("read");
    assert!(read == [1; 4096]);
}

#[test]
fn a_store_that_answers_is_asked_once_without_any_patience() {
    let store = Arc::new(Gated::default());
    let volume = open(&store, 1, Duration::ZERO);
    volume.write_at(0, &[1; 4096]).expect("written");
    volume.flush().expect("flushed");
    volume.resize(1 << 10).expect("resized");
    volume.close().expect("closed");
}

/// Whoever opens the volume next begins at the number that is refused. What is stored behind it must not fence it.
#[test]
fn behind_an_object_that_is_refused_no_number_is_stored_that_the_next_session_will_give() {
    for parallel in [1, 4] {
        let store = Arc::new(Refusing::default());
        let settings = || {
            let tries = NonZeroU32::new(3).expect("not 0");
            let patience = Patience { tries, first_pause: Duration::from_millis(1), deadline: LONG };
            let parallel = NonZeroUsize::new(parallel).expect("not 0");
            Settings { batch: 1, patience, parallel, ..Settings::default() }
        };
        let (shared, keys) = (store.clone() as Arc<dyn ObjectStore>, keys());
        let mut nothing = Freshness::Nothing;
        SealedVolume::format(shared.clone(), keys.clone(), &mut nothing, (1 << 20, WINDOW), &mut settings())
            .expect("a volume");
        let open = || {
            let (shared, keys) = (shared.clone(), keys.clone());
            SealedVolume::open(shared, keys, Freshness::Nothing, Access::Write, settings()).expect("it opens")
        };
        let first = open();
        // The begin is 1, and what comes first after it has the number that lies a window behind.
        let refused = 1 + u64::from(WINDOW);
        *store.refused.lock().expect("no panic") = Some(names::log(refused));
        let mut written = 0;
        while written < 20 && first.write_at(written * 4096, &[1; 4096]).is_ok() {
            let name = names::log(refused + written);
            written += 1;
            // What is behind is stored, and waits no longer.
            let is_there = || store.objects.get(&name, 1 << 20).expect("it answers").is_some();
            wait_until("an object is stored", || written == 1 || is_there());
        }
        assert!(first.flush().is_err());
        drop(first);
        let logs = store.objects.list_after(Kind::Log, None).expect("a list");
        let behind = (1..u64::from(WINDOW)).map(|behind| names::log(refused + behind));
        let expected: Vec<_> = std::iter::once(names::log(1)).chain(behind).collect();
        assert_eq!(logs, expected);
        *store.refused.lock().expect("no panic") = None;
        // It begins there, and gives the numbers of a window behind that.
        let second = open();
        assert_eq!(second.head().expect("a head").number, refused);
        for block in 0..8 {
            second.write_at(block * 4096, &[2; 4096]).expect("nobody else writes");
        }
        second.close().expect("nobody else writes");
    }
}

#[test]
fn opening_asks_once_for_each_list_and_what_was_asked_is_counted() {
    let store = Arc::new(Gated::default());
    drop(open(&store, 4, LONG));
    store.lists.store(0, Ordering::SeqCst);
    let volume = open(&store, 4, LONG);
    assert_eq!(store.lists.load(Ordering::SeqCst), 1, "the checkpoints, once");
    let opened = volume.store_requests().expect("it has a store");
    assert!(opened.list == 1 && opened.put_new == 1 && opened.failed + opened.retried == 0, "{opened:?}");
    volume.write_at(0, &[1; 4096]).expect("written");
    volume.flush().expect("flushed");
    let flushed = volume.store_requests().expect("it has a store");
    assert_eq!((flushed.put_new, flushed.put, flushed.get), (2, 0, opened.get), "a flush is one put");
    assert!(flushed.sent - opened.sent > 4096);
}
