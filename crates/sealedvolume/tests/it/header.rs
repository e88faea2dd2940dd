//! The header object: a change is stored whole or not at all, whatever the store does, and of two who change it one is taken.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use atrest_device::{BlockDevice as _, Cause, LockMode, Media as _};
use atrest_sealedvolume::format::{Kind, names};
use atrest_sealedvolume::header::{HEADER_LEN, HeaderObject, NewHeader, Replaced};
use atrest_sealedvolume::store::{MemoryStore, ObjectStore, Put, StoreError};
use atrest_sealedvolume::volume::Patience;

use crate::rig::through::through;

/// A store of which a request fails, before it is done or after it was.
struct Failing {
    inner: MemoryStore,
    /// Requests until the one that fails.
    left: AtomicU32,
    /// It is done all the same.
    done: bool,
}

impl Failing {
    fn of<T>(&self, request: impl Fn() -> Result<T, StoreError>) -> Result<T, StoreError> {
        if self.left.fetch_sub(1, Ordering::Relaxed) != 1 {
            return request();
        }
        if self.done {
            request()?;
        }
        Err(StoreError::Silent)
    }
}

impl ObjectStore for Failing {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, StoreError> {
        self.of(|| self.inner.put_new(name, bytes))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.of(|| self.inner.put(name, bytes))
    }

    fn get(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>, StoreError> {
        self.of(|| self.inner.get(name, most))
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Option<Vec<u8>>, StoreError> {
        self.of(|| self.inner.get_range(name, offset, len))
    }

    fn list_after(&self, kind: Kind, after: Option<&str>) -> Result<Vec<String>, StoreError> {
        self.of(|| self.inner.list_after(kind, after))
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.of(|| self.inner.delete(name))
    }
}

fn patience(tries: u32) -> Patience {
    Patience {
        tries: NonZeroU32::new(tries).expect("not 0"),
        first_pause: Duration::ZERO,
        ..Patience::default()
    }
}

fn new(letter: u8) -> NewHeader {
    let header = NewHeader::new();
    header.write_at(0, &vec![letter; HEADER_LEN]).expect("written");
    header
}

fn open(store: &Arc<dyn ObjectStore>) -> HeaderObject {
    HeaderObject::open(Arc::clone(store), patience(1), false).expect("an answer").expect("a header")
}

fn letter(header: &HeaderObject) -> u8 {
    let mut all = vec![0; HEADER_LEN];
    header.read_at(0, &mut all).expect("read");
    assert!(all.iter().all(|byte| *byte == all[0]), "a header in pieces");
    all[0]
}

#[test]
fn a_change_that_any_request_fails_leaves_the_old_header_or_the_new_one() {
    for done in [false, true] {
        for fails in 1..12 {
            let failing = Failing { inner: MemoryStore::new(), left: AtomicU32::new(0), done };
            assert_eq!(HeaderObject::create(&failing, patience(1), new(b'a')), Ok(true));
            let failing = Arc::new(failing);
            let store: Arc<dyn ObjectStore> = failing.clone();
            let header = open(&store);
            header.write_at(0, &vec![b'b'; HEADER_LEN]).expect("in memory");
            failing.left.store(fails, Ordering::Relaxed);
            let told = header.flush();
            let failed = !(1..12).contains(&failing.left.load(Ordering::Relaxed));
            failing.left.store(0, Ordering::Relaxed);
            assert_eq!(told.is_err(), failed, "request {fails}");
            let found = letter(&open(&store));
            assert!(found == b'b' || told.is_err() && found == b'a', "request {fails}: {found}");
            // Once more, as a program does that knows of no fault: the same bytes are taken for what they are.
            header.write_at(0, b"b").expect("in memory");
            header.flush().expect("a flush");
            assert_eq!(letter(&open(&store)), b'b');
            let left = store.list_after(Kind::Header, None).expect("a list");
            assert_eq!(left.len(), 1, "request {fails}: {left:?}");
        }
    }
}

/// A store where one may put and not delete.
struct Keeping(MemoryStore);

impl ObjectStore for Keeping {
    fn delete(&self, _: &str) -> Result<(), StoreError> {
        Err(StoreError::Refused { status: 403 })
    }

    through!(0: put_new, put, get, get_range, list_after);
}

#[test]
fn a_change_counts_where_what_it_replaces_stays_and_says_so() {
    let refused = Cause::Refused { status: 403 };
    let store: Arc<dyn ObjectStore> = Arc::new(Keeping(MemoryStore::new()));
    assert_eq!(HeaderObject::create(&*store, patience(1), new(b'a')), Ok(true));
    let header = open(&store);
    header.write_at(0, &vec![b'b'; HEADER_LEN]).expect("in memory");
    assert_eq!(header.commit(), Ok(Replaced::Stays(refused)));
    assert_eq!(letter(&open(&store)), b'b');
    assert_eq!(header.commit(), Ok(Replaced::Gone), "nothing is changed");
    header.write_at(0, &vec![b'c'; HEADER_LEN]).expect("in memory");
    assert_eq!(header.flush().expect_err("what was removed is there").cause, refused);
    assert_eq!(letter(&open(&store)), b'c');
}

#[test]
fn of_two_who_change_it_one_is_taken_and_the_other_is_told() {
    let store: Arc<dyn ObjectStore> = Arc::new(MemoryStore::new());
    assert_eq!(HeaderObject::create(&*store, patience(1), new(b'a')), Ok(true));
    assert_eq!(HeaderObject::create(&*store, patience(1), new(b'x')), Ok(false));
    let (one, other) = (open(&store), open(&store));
    one.write_at(0, &vec![b'b'; HEADER_LEN]).expect("in memory");
    one.flush().expect("a flush");
    other.write_at(0, &vec![b'c'; HEADER_LEN]).expect("in memory");
    assert_eq!(other.flush().expect_err("too late").cause, Cause::Busy);
    assert_eq!(letter(&open(&store)), b'b');
    // Whoever looks under the lock sees what is there now; what was written and not stored is never shown as stored.
    let third = open(&store);
    one.write_at(0, &vec![b'd'; HEADER_LEN]).expect("in memory");
    one.flush().expect("a flush");
    assert_eq!(letter(&third), b'b');
    third.lock_metadata(LockMode::Exclusive).expect("a look");
    assert_eq!(letter(&third), b'd');
    // Between locking and unlocking it is one header.
    one.write_at(0, &vec![b'e'; HEADER_LEN]).expect("in memory");
    one.flush().expect("a flush");
    let mut first = [0];
    assert_eq!(third.read_media_at(0, &mut first).expect_err("another header").cause, Cause::Busy);
    assert_eq!(letter(&third), b'd');
    third.unlock_metadata();
    third.read_media_at(0, &mut first).expect("a look");
    assert_eq!((first, letter(&third)), ([b'e'], b'e'));
}

/// Who is late finds the numbers behind his own free again, as each change takes the smaller ones away.
#[test]
fn who_read_the_header_before_others_changed_it_several_times_stores_nothing() {
    let store: Arc<dyn ObjectStore> = Arc::new(MemoryStore::new());
    assert_eq!(HeaderObject::create(&*store, patience(1), new(b'a')), Ok(true));
    let (late, other) = (open(&store), open(&store));
    let write = |header: &HeaderObject, letter: u8| {
        header.write_at(0, &vec![letter; HEADER_LEN]).expect("in memory");
        header.flush().map_err(|error| error.cause)
    };
    for letter in *b"bcde" {
        assert_eq!(write(&other, letter), Ok(()));
    }
    for letter_of_late in *b"wxyz" {
        assert_eq!(write(&late, letter_of_late), Err(Cause::Busy));
        assert_eq!(letter(&open(&store)), b'e');
    }
    let left = store.list_after(Kind::Header, None).expect("a list");
    assert_eq!(left, [names::header(5)], "what did not count is gone");
    assert_eq!(write(&other, b'f'), Ok(()));
    assert_eq!(letter(&open(&store)), b'f');
}

#[test]
fn where_no_header_is_left_a_new_one_goes_behind_what_is_there() {
    let store: Arc<dyn ObjectStore> = Arc::new(MemoryStore::new());
    let blank = HeaderObject::open_or_blank(Arc::clone(&store), patience(1)).expect("zeros");
    assert_eq!(letter(&blank), 0);
    assert_eq!(store.put_new(&names::header(7), b"cut short"), Ok(Put::Stored));
    let blank = HeaderObject::open_or_blank(Arc::clone(&store), patience(1)).expect("zeros");
    assert_eq!(letter(&blank), 0);
    blank.write_at(0, &vec![b'a'; HEADER_LEN]).expect("in memory");
    blank.flush().expect("a flush");
    assert_eq!(store.list_after(Kind::Header, None), Ok(vec![names::header(8)]));
    let there = HeaderObject::open_or_blank(Arc::clone(&store), patience(1)).expect("a header");
    assert_eq!(letter(&there), b'a');
}

#[test]
fn an_object_that_is_no_header_by_its_length_does_not_count_and_a_reader_writes_nothing() {
    let store: Arc<dyn ObjectStore> = Arc::new(MemoryStore::new());
    assert!(HeaderObject::open(Arc::clone(&store), patience(1), true).expect("an answer").is_none());
    assert_eq!(HeaderObject::create(&*store, patience(1), new(b'a')), Ok(true));
    for (number, len) in [(2, 0), (3, HEADER_LEN - 1), (4, HEADER_LEN + 1)] {
        assert_eq!(store.put_new(&names::header(number), &vec![b'x'; len]), Ok(Put::Stored));
    }
    assert_eq!(letter(&open(&store)), b'a');
    let reader = HeaderObject::open(Arc::clone(&store), patience(1), true).expect("an answer").expect("it");
    assert_eq!(reader.write_at(0, b"b").expect_err("refused").cause, Cause::ReadOnly);
    reader.flush().expect("nothing to store");
    let mut past = [0; 2];
    assert!(reader.read_at(HEADER_LEN as u64 - 1, &mut past).is_err());
}
