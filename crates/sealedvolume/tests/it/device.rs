//! The volume as a block device, and what a person is told.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use atrest_device::{BlockDevice as _, Cause, Extent, TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError};
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::{Keys, Kind};
use atrest_sealedvolume::store::{MemoryStore, ObjectStore, StoreError};
use atrest_sealedvolume::volume::{Access, Freshness, OpenError, Settings, VolumeError};
use atrest_secret::VolumeKey;
use atrest_testkit::{Campaign, Random};

use crate::rig::bytes;
use crate::rig::plain::{Cell, Plain, settings};
use crate::rig::through::through;

const BLOCKS: u64 = 64;
const SIZE: u64 = BLOCKS * 4096;

/// Any range of bytes, written, trimmed, read, reopened, compacted: as an array of bytes.
#[test]
fn it_is_an_array_of_bytes() {
    Campaign::new("sealed volume, any bytes", 20, 3_000).run(|_, random| {
        let plain = Plain::in_memory(BLOCKS);
        let mut array = vec![0_u8; SIZE as usize];
        let mut snapshots: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut volume = plain.open(Access::Write).expect("it opens");
        for _ in 0..60 {
            let (offset, len) = range(random);
            let place = offset as usize..(offset + len) as usize;
            match random.below(20) {
                0..8 => {
                    random.fill(&mut array[place.clone()]);
                    volume.write_at(offset, &array[place]).expect("a write");
                }
                8 => {
                    volume.discard(offset, len).expect("a trim");
                    let (first, end) = (offset.div_ceil(4096) * 4096, (offset + len) / 4096 * 4096);
                    (first..end).for_each(|at| array[at as usize] = 0);
                }
                9 => {
                    volume.write_zeroes(offset, len).expect("zeros");
                    array[place].fill(0);
                }
                10 => volume.flush().expect("a flush"),
                11 => volume.checkpoint().expect("a checkpoint"),
                12 => {
                    volume.compact(90, 16).expect("compacted");
                }
                13 => volume.collect(volume.garbage().expect("garbage")).expect("collected"),
                14 if snapshots.len() < 3 => {
                    snapshots.push((volume.add_snapshot("a").expect("a snapshot"), array.clone()));
                }
                15 => {
                    volume.close().expect("closed");
                    volume = plain.open(Access::Write).expect("it opens again");
                }
                18 => {
                    // Smaller and as large as before: what was behind the end is zeros.
                    let blocks = 1 + random.below(BLOCKS);
                    volume.resize(blocks).expect("smaller");
                    assert_eq!(volume.size(), blocks * 4096);
                    assert!(blocks == BLOCKS || volume.write_at(blocks * 4096, &[1]).is_err());
                    match random.below(3) {
                        0 => volume.checkpoint().expect("a checkpoint"),
                        1 => {
                            volume.close().expect("closed");
                            volume = plain.open(Access::Write).expect("it opens again");
                            assert_eq!(volume.size(), blocks * 4096);
                        }
                        _ => {}
                    }
                    volume.resize(BLOCKS).expect("as before");
                    array[blocks as usize * 4096..].fill(0);
                }
                _ => {
                    let mut read = vec![1; len as usize];
                    volume.read_at(offset, &mut read).expect("a read");
                    assert!(read == array[place], "{offset} {len}");
                }
            }
        }
        volume.flush().expect("a flush");
        let reader = plain.open(Access::Read).expect("a reader");
        for (held, device) in [(&array, &volume), (&array, &reader)] {
            let mut all = vec![1; SIZE as usize];
            device.read_at(0, &mut all).expect("all of it");
            assert!(all == *held);
        }
        for (id, held) in &snapshots {
            let mut all = vec![1; SIZE as usize];
            volume.snapshot(*id).expect("a snapshot").read_at(0, &mut all).expect("all of it");
            assert!(all == *held);
        }
        holes_are_zeros(&volume, &array);
    });
}

fn range(random: &mut Random) -> (u64, u64) {
    let offset = random.below(SIZE);
    let len = random.below(SIZE - offset + 1).min(1 + random.below(40_000));
    if random.below(3) == 0 { (offset / 4096 * 4096, len / 4096 * 4096) } else { (offset, len) }
}

fn holes_are_zeros(volume: &SealedVolume, array: &[u8]) {
    let mut at = 0;
    while at < SIZE {
        let Extent { len, hole } = volume.extent(at, SIZE - at).expect("an extent");
        assert!(len > 0 && at + len <= SIZE);
        assert!(!hole || array[at as usize..(at + len) as usize].iter().all(|byte| *byte == 0));
        at += len;
    }
}

#[test]
fn what_was_never_written_is_a_hole_and_a_trim_makes_one() {
    let plain = Plain::in_memory(1 << 31);
    let volume = plain.open(Access::Write).expect("it opens");
    assert_eq!(volume.size(), 4096 << 31);
    assert_eq!(volume.extent(0, 4096 << 31), Ok(Extent { len: 4096 << 31, hole: true }));
    volume.write_at(4096 * 10, &[1; 8192]).expect("a write");
    volume.checkpoint().expect("a checkpoint");
    assert_eq!(volume.extent(4096 * 9, 4096 * 9), Ok(Extent { len: 4096, hole: true }));
    assert_eq!(volume.extent(4096 * 10 + 5, 4096 * 9), Ok(Extent { len: 8187, hole: false }));
    // All of it at once: nothing is made for what has nothing.
    volume.discard(0, 4096 << 31).expect("a trim");
    volume.checkpoint().expect("a checkpoint");
    assert_eq!(volume.extent(4096 * 10, 100), Ok(Extent { len: 100, hole: true }));
    assert!(plain.bytes() < 30_000, "{}", plain.bytes());
}

#[test]
fn compaction_and_collection_give_space_back_and_snapshots_keep_theirs() {
    let plain = Plain::in_memory(BLOCKS);
    let volume = plain.open(Access::Write).expect("it opens");
    let fill = |value: u8| {
        for block in 0..BLOCKS {
            volume.write_at(block * 4096, &[value; 4096]).expect("a write");
        }
        volume.flush().expect("a flush");
    };
    let collect = || {
        // What the older of two checkpoints reaches stays until there are two newer ones.
        for _ in 0..3 {
            volume.collect(volume.garbage().expect("garbage")).expect("collected");
        }
    };
    fill(1);
    collect();
    let once = plain.bytes();
    (2..6).for_each(fill);
    assert!(plain.bytes() > 4 * once);
    collect();
    assert!(plain.bytes() < once + once / 8, "{} of {once}", plain.bytes());
    let id = volume.add_snapshot("kept").expect("a snapshot");
    fill(6);
    collect();
    assert!(plain.bytes() > once + once * 3 / 4);
    let mut block = [0; 4096];
    volume.snapshot(id).expect("a snapshot").read_at(4096 * 5, &mut block).expect("a read");
    assert_eq!(block, [5; 4096]);
    volume.remove_snapshot(id).expect("removed");
    collect();
    assert!(plain.bytes() < once + once / 8, "{} of {once}", plain.bytes());
    // One block of each object is live: compaction moves them together.
    for block in (0..BLOCKS).filter(|block| block % 8 != 3) {
        volume.write_at(block * 4096, &[7; 4096]).expect("a write");
    }
    volume.flush().expect("a flush");
    let moved = volume.compact(50, 1000).expect("compacted");
    assert_eq!(moved, BLOCKS / 8);
    collect();
    assert!(plain.bytes() < once + once / 4, "{} of {once}", plain.bytes());
    for block in 0..BLOCKS {
        let mut buf = [0; 4096];
        volume.read_at(block * 4096, &mut buf).expect("a read");
        assert_eq!(buf, [if block % 8 == 3 { 6 } else { 7 }; 4096]);
    }
}

/// All objects together, map and checkpoints included, against what is live, after many random writes, trims and what `atrest gc` does.
#[test]
fn after_a_churn_the_store_takes_little_more_than_what_is_live() {
    Campaign::new("sealed volume, churn", 1, 60).run(|_, random| {
        let plain = Plain::in_memory(4096);
        let settings = || Settings { checkpoint_every: 64, ..settings(128) };
        let volume = plain.open_with(Access::Write, settings()).expect("it opens");
        let write = |block: u64, value: u8| {
            volume.write_at(block * 4096, &[value; 4096]).expect("a write");
        };
        (0..2000).for_each(|block| write(block, 1));
        for round in 1..5 {
            for _ in 0..1200 {
                write(random.below(2000), round);
            }
            volume.discard(random.below(1900) * 4096, 40 * 4096).expect("a trim");
            volume.flush().expect("a flush");
            while volume.compact(75, 1 << 16).expect("compacted") > 0 {}
            for _ in 0..3 {
                volume.touch().expect("touched");
                volume.collect(volume.garbage().expect("garbage")).expect("collected");
            }
            let (live, bytes) = (volume.usage().expect("it is counted").live * 4096, plain.bytes() as u64);
            assert!(bytes * 100 <= live * 135, "{bytes} bytes for {live} that are live");
        }
    });
}

/// The newest checkpoint may be lost: the one before it, its map and the log behind it are never garbage.
#[test]
fn what_the_older_checkpoint_needs_is_not_collected() {
    let plain = Plain::in_memory(BLOCKS);
    let volume = plain.open(Access::Write).expect("it opens");
    volume.write_at(0, &[1; 8192]).expect("a write");
    volume.checkpoint().expect("a checkpoint");
    for value in [2, 3] {
        volume.write_at(4096, &[value; 4096]).expect("a write");
        volume.flush().expect("a flush");
    }
    volume.collect(volume.garbage().expect("garbage")).expect("collected");
    let checkpoints = plain.store.list_after(Kind::Checkpoint, None).expect("a list");
    assert_eq!(checkpoints.len(), 2);
    plain.store.delete(&checkpoints[1]).expect("it is deleted");
    let reader = plain.open(Access::Read).expect("it opens");
    assert_eq!(reader.head(), volume.head());
    let mut blocks = [0; 8192];
    reader.read_at(0, &mut blocks).expect("a read");
    assert!(blocks[..4096] == [1; 4096] && blocks[4096..] == [3; 4096]);
}

/// A few blocks at a time, whatever can't be read is passed over, and all that can be is moved.
#[test]
fn compaction_in_small_steps_comes_to_an_end_and_passes_what_is_damaged() {
    let plain = Plain::in_memory(BLOCKS);
    let volume = plain.open(Access::Write).expect("it opens");
    for (value, from) in [(1, 0), (2, 1)] {
        for block in (0..64).filter(|block| block % 8 >= from) {
            volume.write_at(block * 4096, &[value; 4096]).expect("a write");
        }
        volume.flush().expect("a flush");
    }
    volume.close().expect("closed");
    // The first eight objects that have blocks are those of the first round: each has one live block, the first.
    let full = |(name, object): &(String, Vec<u8>)| name.starts_with('l') && bytes::slots(object) == 8;
    let first: Vec<_> = plain.objects().into_iter().filter(full).take(8).collect();
    assert_eq!(first.len(), 8);
    for (name, object) in first.iter().step_by(2) {
        let mut object = object.clone();
        let live = bytes::slot(&object, 0).start;
        object[live] ^= 1;
        plain.store.put(name, &object).expect("it is stored");
    }
    let volume = plain.open(Access::Write).expect("it opens");
    let steps: Vec<u64> = (0..9).map(|_| volume.compact(50, 1).expect("compacted")).collect();
    assert_eq!(steps, [1, 1, 1, 1, 0, 0, 0, 0, 0]);
    for block in 0..64 {
        let mut read = [0; 4096];
        let told = volume.read_at(block * 4096, &mut read);
        let damaged = block % 16 == 0;
        assert_eq!(told.is_err(), damaged, "block {block}");
        assert!(damaged || read == [if block % 8 == 0 { 1 } else { 2 }; 4096], "block {block}");
    }
}

/// What a fenced writer takes for garbage may be what the one that fenced it has written.
#[test]
fn garbage_that_another_opening_has_found_is_not_collected() {
    let plain = Plain::in_memory(BLOCKS);
    let first = plain.open(Access::Write).expect("it opens");
    first.write_at(0, &[1; 8192]).expect("a write");
    first.checkpoint().expect("a checkpoint");
    let second = plain.open(Access::Write).expect("it opens");
    second.write_at(0, &[2; 4096]).expect("a write");
    second.checkpoint().expect("a checkpoint");
    let found = first.garbage().expect("garbage");
    assert!(!found.names().is_empty());
    let third = plain.open(Access::Write).expect("it opens");
    let before = plain.bytes();
    assert_eq!(third.collect(found.clone()), Err(VolumeError::NotFoundHere));
    assert!(matches!(first.collect(found), Err(VolumeError::Fenced { .. })));
    assert_eq!(plain.bytes(), before);
    let mut blocks = [0; 8192];
    third.read_at(0, &mut blocks).expect("a read");
    assert!(blocks[..4096] == [2; 4096] && blocks[4096..] == [1; 4096]);
}

#[test]
fn a_second_writer_takes_over_and_the_first_one_fails_closed() {
    let plain = Plain::in_memory(BLOCKS);
    let first = plain.open(Access::Write).expect("it opens");
    first.write_at(0, &[1; 4096]).expect("a write");
    first.flush().expect("a flush");
    first.write_at(0, &[2; 4096]).expect("a write");
    let second = plain.open(Access::Write).expect("it opens");
    assert_eq!(first.flush().map_err(|error| error.cause), Err(Cause::Busy));
    assert_eq!(first.write_at(0, &[3; 4096]).map_err(|error| error.cause), Err(Cause::EarlierFlushFailed));
    assert_eq!(first.flush().map_err(|error| error.cause), Err(Cause::EarlierFlushFailed));
    assert_eq!(first.close(), Err(VolumeError::EarlierFlushFailed));
    let mut block = [0; 4096];
    second.read_at(0, &mut block).expect("a read");
    assert_eq!(block, [1; 4096]);
}

#[test]
fn what_can_not_be_opened_says_why() {
    let plain = Plain::in_memory(BLOCKS);
    assert_eq!(plain.format(BLOCKS), Err(OpenError::NotEmpty));
    let error = |plain: &Plain| plain.open(Access::Write).map(|_| ()).expect_err("it is refused");
    let other_key = Keys::new(&VolumeKey::copy_from(&[8; 32]), [1; 16]).expect("keys");
    let told = error(&Plain { keys: other_key, ..plain.clone() }).to_string();
    assert_eq!(
        told,
        "no checkpoint of the volume can be read; of the newest: it was made with another key, or was changed"
    );
    let other_volume = Keys::new(&VolumeKey::copy_from(&[9; 32]), [2; 16]).expect("keys");
    assert_eq!(error(&Plain { keys: other_volume, ..plain.clone() }), OpenError::AnotherVolume);
    let empty = Plain { store: Arc::new(MemoryStore::new()), ..plain.clone() };
    assert_eq!(error(&empty), OpenError::NoVolume);
    *plain.cell.0.lock().expect("the cell") = None;
    assert_eq!(error(&plain), OpenError::NoRecord);
    *plain.cell.0.lock().expect("the cell") = Some([1; 80]);
    assert!(matches!(error(&plain), OpenError::Record(_)));
    let sizes = [(0, 4), ((1 << 48) + 1, 4), (1, 0), (1, 65)];
    for (blocks, window) in sizes {
        let (store, keys) = (Arc::new(MemoryStore::new()), plain.keys.clone());
        let made =
            SealedVolume::format(store, keys, &mut Freshness::Nothing, (blocks, window), &mut settings(8));
        assert_eq!(made, Err(OpenError::Size));
    }
}

#[test]
fn a_reader_writes_nothing() {
    let plain = Plain::in_memory(BLOCKS);
    plain.open(Access::Write).expect("it opens").close().expect("closed");
    let before = (plain.objects(), *plain.cell.0.lock().expect("the cell"));
    let reader = plain.open(Access::Read).expect("it opens");
    assert!(reader.is_read_only());
    assert_eq!(reader.write_at(0, &[1]).map_err(|error| error.cause), Err(Cause::ReadOnly));
    assert_eq!(reader.discard(0, 4096).map_err(|error| error.cause), Err(Cause::ReadOnly));
    assert_eq!(
        (reader.checkpoint(), reader.close()),
        (Err(VolumeError::ReadOnly), Err(VolumeError::ReadOnly))
    );
    assert!(reader.add_snapshot("no").is_err() && reader.garbage().is_err() && reader.flush().is_ok());
    assert_eq!(before, (plain.objects(), *plain.cell.0.lock().expect("the cell")));
}

/// Opening reads what is behind the newest checkpoint, and no more.
#[test]
fn after_a_close_nothing_is_replayed() {
    let plain = Plain::in_memory(BLOCKS);
    let volume = plain.open(Access::Write).expect("it opens");
    for value in 0..100 {
        volume.write_at(0, &[value; 4096]).expect("a write");
        volume.flush().expect("a flush");
    }
    volume.close().expect("closed");
    let newest = volume.head().expect("a head").number;
    let checkpoints: Vec<String> =
        plain.objects().into_iter().map(|(name, _)| name).filter(|name| name.starts_with('c')).collect();
    assert_eq!(checkpoints.last(), Some(&format!("c/{newest:016x}")));
    assert!(checkpoints.len() >= 100 / 16, "{checkpoints:?}");
}

/// Each opening draws a salt, and so does each object.
#[test]
fn no_salt_comes_twice() {
    let plain = Plain::in_memory(BLOCKS);
    for value in 0..3 {
        let volume = plain.open(Access::Write).expect("it opens");
        volume.write_at(0, &[value; 4096]).expect("a write");
        volume.checkpoint().expect("a checkpoint");
    }
    let objects = plain.objects();
    let salts = |range: std::ops::Range<usize>| -> BTreeSet<Vec<u8>> {
        objects.iter().map(|(_, bytes)| bytes[range.clone()].to_vec()).collect()
    };
    assert_eq!((salts(48..80).len(), salts(80..96).len()), (4, objects.len()));
}

/// A store in which something happens before checkpoints are listed.
struct Meanwhile {
    store: Arc<dyn ObjectStore>,
    happens: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl ObjectStore for Meanwhile {
    fn list_after(&self, kind: Kind, after: Option<&str>) -> Result<Vec<String>, StoreError> {
        let happens = self.happens.lock().expect("the hook").take();
        happens.into_iter().for_each(|happens| happens());
        self.store.list_after(kind, after)
    }

    through!(store: put_new, put, get, get_range, delete);
}

/// Who opens while somebody writes has read a record that is older than what the store shows then.
#[test]
fn a_record_that_moves_on_during_an_opening_is_no_rollback() {
    for access in [Access::Read, Access::Write] {
        let plain = Plain::in_memory(BLOCKS);
        let writer = plain.open(Access::Write).expect("it opens");
        let happens = move || {
            writer.write_at(0, &[5; 4096]).expect("a write");
            writer.checkpoint().expect("a checkpoint");
        };
        let happens = Mutex::new(Some(Box::new(happens) as Box<dyn FnOnce() + Send>));
        let store = Arc::new(Meanwhile { store: Arc::clone(&plain.store), happens });
        let opened = Plain { store, ..plain }.open(access).expect("it opens");
        let mut block = [0; 4096];
        opened.read_at(0, &mut block).expect("a read");
        assert_eq!(block, [5; 4096]);
    }
}

/// A trusted store that takes one record, the begin's, and no more.
struct Once(Cell, bool);

impl TrustedStore for Once {
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        self.0.load()
    }

    fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        if std::mem::replace(&mut self.1, true) {
            Err(TrustedStoreError::Driver(5))
        } else {
            self.0.store(record)
        }
    }
}

#[test]
fn a_flush_that_could_not_be_anchored_is_the_last() {
    let plain = Plain::in_memory(BLOCKS);
    let freshness = Freshness::Record(Box::new(Once(plain.cell.clone(), false)));
    let (store, keys) = (Arc::clone(&plain.store), plain.keys.clone());
    let volume = SealedVolume::open(store, keys, freshness, Access::Write, settings(8)).expect("it opens");
    volume.write_at(0, &[1; 4096]).expect("a write");
    assert_eq!(volume.flush().map_err(|error| error.cause), Err(Cause::Silent));
    assert_eq!(volume.flush().map_err(|error| error.cause), Err(Cause::EarlierFlushFailed));
    assert_eq!(volume.write_at(0, &[1; 4096]).map_err(|error| error.cause), Err(Cause::EarlierFlushFailed));
}
