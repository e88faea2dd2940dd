//! The begin of a session where its number is not free, or may not be.

use std::sync::{Arc, Mutex};

use atrest_device::BlockDevice as _;
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::{Keys, Kind, names};
use atrest_sealedvolume::store::{MemoryStore, ObjectStore, Put, StoreError};
use atrest_sealedvolume::volume::{Access, Freshness, OpenError};
use atrest_secret::VolumeKey;

use crate::rig::plain::{Cell, Plain, settings};
use crate::rig::through::through;

/// Numbers that a session skips when it begins.
const WINDOW: u64 = 4;

/// A store in which something happens the first time that a new object of a name is to be stored.
#[derive(Default)]
struct Meddling {
    objects: MemoryStore,
    name: Mutex<Option<String>>,
    /// Somebody else's object, which is there just before. Without one the object is stored, and nobody is told so.
    before: Option<Vec<u8>>,
}

impl ObjectStore for Meddling {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, StoreError> {
        let meddled = self.name.lock().expect("no panic").take_if(|meddled| *meddled == name);
        match (meddled, &self.before) {
            (None, _) => self.objects.put_new(name, bytes),
            (Some(_), None) => self.objects.put_new(name, bytes).and(Err(StoreError::Silent)),
            (Some(_), Some(before)) => {
                self.objects.put_new(name, before)?;
                self.objects.put_new(name, bytes)
            }
        }
    }

    through!(objects: put, get, get_range, list_after, delete);
}

/// A copy of the volume by somebody who copied its objects and its record.
fn copied(plain: &Plain) -> Plain {
    let store = MemoryStore::new();
    for (name, bytes) in plain.objects() {
        store.put(&name, &bytes).expect("it is stored");
    }
    let record = *plain.cell.0.lock().expect("the cell");
    Plain { store: Arc::new(store), cell: Cell(Arc::new(Mutex::new(record))), keys: plain.keys.clone() }
}

/// A copy that goes by way of a meddling store, with what happens there when log object `number` is stored.
fn meddled(plain: &Plain, number: u64, before: Option<Vec<u8>>) -> Plain {
    let copy = copied(plain);
    let store = Meddling { name: Mutex::new(Some(names::log(number))), before, ..Meddling::default() };
    for (name, bytes) in copy.objects() {
        store.objects.put(&name, &bytes).expect("it is stored");
    }
    Plain { store: Arc::new(store), ..copy }
}

fn log(plain: &Plain, number: u64) -> Vec<u8> {
    plain.store.get(&names::log(number), 1 << 20).expect("an answer").expect("it is there")
}

/// Writes a block in a session that ends in good order.
fn write(plain: &Plain, value: u8) {
    let volume = plain.open(Access::Write).expect("it opens");
    volume.write_at(0, &[value; 4096]).expect("a write");
    volume.close().expect("closed");
}

fn holds(plain: &Plain, value: u8) {
    let mut read = [0; 4096];
    plain.open(Access::Read).expect("it opens").read_at(0, &mut read).expect("a read");
    assert!(read == [value; 4096]);
}

#[test]
fn a_begin_that_was_stored_and_not_confirmed_is_ones_own() {
    let plain = meddled(&Plain::in_memory(64), 1, None);
    let volume = plain.open(Access::Write).expect("it opens");
    assert_eq!(volume.head().expect("a head").number, 1);
    assert_eq!(plain.store.list_after(Kind::Log, None), Ok(vec![names::log(1)]), "it is stored once");
    volume.write_at(0, &[3; 4096]).expect("a write");
    volume.close().expect("closed");
    holds(&plain, 3);
}

#[test]
fn where_another_writer_was_faster_one_begins_behind_it_and_fences_it() {
    let volume = Plain::in_memory(64);
    let other = copied(&volume);
    let _faster = other.open(Access::Write).expect("it opens");
    let plain = meddled(&volume, 1, Some(log(&other, 1)));
    let slower = plain.open(Access::Write).expect("it opens");
    assert_eq!(slower.head().expect("a head").number, 1 + WINDOW);
    assert_eq!(log(&plain, 1), log(&other, 1), "nothing of the other one was replaced");
}

/// A branch that somebody has hidden: it is ours, and follows something else.
#[test]
fn what_is_off_the_history_is_replaced_by_whoever_holds_the_trusted_store_and_by_nobody_else() {
    let plain = Plain::in_memory(64);
    let other = copied(&plain);
    write(&plain, 1);
    let volume = other.open(Access::Write).expect("it opens");
    for value in 2..6 {
        volume.write_at(0, &[value; 4096]).expect("a write");
        volume.flush().expect("a flush");
    }
    // The begin, what was written, and the next one's begin.
    let number = 1 + WINDOW + 1;
    let hidden = log(&other, number);
    plain.store.put(&names::log(number), &hidden).expect("it is stored");
    write(&plain, 7);
    assert_ne!(log(&plain, number), hidden);
    holds(&plain, 7);

    let store = Arc::new(MemoryStore::new());
    let keys = Keys::new(&VolumeKey::copy_from(&[9; 32]), [1; 16]).expect("keys");
    SealedVolume::format(store.clone(), keys.clone(), &mut Freshness::Nothing, (64, 4), &mut settings(8))
        .expect("a new volume");
    // One of another volume under the same key and identifier, which follows something else.
    store.put(&names::log(1), &log(&plain, 1)).expect("it is stored");
    let open = SealedVolume::open(store.clone(), keys, Freshness::Nothing, Access::Write, settings(8));
    assert_eq!(open.map(drop), Err(OpenError::Contested { number: 1 }));
    assert_eq!(store.get(&names::log(1), 1 << 20), Ok(Some(log(&plain, 1))), "it was left alone");
}
