//! What follows in the log: an object made with the key is the next one only if all that it says of the history is so.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use atrest_device::BlockDevice as _;
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::{Keys, LogObject, Prelude, Record, Summary, names, open_log, seal_log};
use atrest_sealedvolume::store::{MemoryStore, ObjectStore as _};
use atrest_sealedvolume::volume::{Access, Freshness, OpenError, Settings};
use atrest_secret::VolumeKey;

use crate::rig::plain::{Cell, Plain, settings};

/// The newest object of a volume whose writer ended without closing it.
fn left_open() -> (Plain, LogObject) {
    let plain = Plain::in_memory(64);
    let volume = plain.open(Access::Write).expect("it opens");
    volume.write_at(0, &[1; 4096]).expect("a write");
    volume.flush().expect("a flush");
    let number = volume.head().expect("a head").number;
    let bytes = plain.store.get(&names::log(number), 1 << 20).expect("an answer").expect("it is there");
    let object = open_log(&plain.keys, number, &bytes).expect("a log object");
    (plain, object)
}

/// The object that its writer would have sealed next.
fn next(last: &LogObject) -> (Prelude, Summary) {
    let number = last.summary.successor;
    let prelude = Prelude { number, salt: [77; 16], ..last.prelude };
    let (before, before_chain) = (last.prelude.number, last.chain);
    let extents = Vec::new();
    (prelude, Summary { before, before_chain, successor: number + 1, extents, ..last.summary.clone() })
}

/// The head at which the volume opens with one object more, without a trusted store and with one.
fn heads(plain: &Plain, next: (Prelude, Summary)) -> [u64; 2] {
    heads_with(plain, &plain.keys, next)
}

fn heads_with(plain: &Plain, maker: &Keys, (prelude, summary): (Prelude, Summary)) -> [u64; 2] {
    let sealed = seal_log(maker, prelude, summary, &[]).expect("an object");
    let name = names::log(prelude.number);
    plain.store.put(&name, &sealed.bytes).expect("it is stored");
    let (store, keys) = (Arc::clone(&plain.store), plain.keys.clone());
    let without = SealedVolume::open(store, keys, Freshness::Unverified, Access::Read, settings(8));
    let opened = [without, plain.open(Access::Read)];
    let heads = opened.map(|volume| volume.expect("it opens").head().expect("a head").number);
    plain.store.delete(&name).expect("it is deleted");
    heads
}

#[test]
fn an_object_follows_only_if_all_that_it_says_of_the_history_is_so() {
    let (plain, last) = left_open();
    let number = last.prelude.number;
    assert_eq!(heads(&plain, next(&last)), [number + 1; 2]);
    type Change = fn(&mut Prelude, &mut Summary);
    let changes: [(&str, Change); 8] = [
        ("another number before it", |_, summary| summary.before -= 1),
        ("another history before it", |_, summary| summary.before_chain[31] ^= 1),
        ("another session", |prelude, _| prelude.session[0] ^= 1),
        ("another ordinal", |_, summary| summary.ordinal += 1),
        ("numbers skipped", |_, summary| summary.successor += 1),
        ("another size", |_, summary| summary.blocks += 1),
        ("a begin that skips no number", |_, summary| {
            (summary.begin, summary.ordinal) = (true, summary.ordinal + 1);
        }),
        ("a begin of the same session's ordinal", |_, summary| {
            (summary.begin, summary.successor) = (true, summary.successor + 3);
        }),
    ];
    for (what, change) in changes {
        let (mut prelude, mut summary) = next(&last);
        change(&mut prelude, &mut summary);
        assert_eq!(heads(&plain, (prelude, summary)), [number; 2], "{what}");
    }
    // A begin as it has to be.
    let (prelude, summary) = next(&last);
    let (ordinal, successor) = (summary.ordinal + 1, prelude.number + 4);
    let begin = Summary { begin: true, ordinal, successor, ..summary };
    assert_eq!(heads(&plain, (prelude, begin)), [number + 1; 2]);
}

/// A copy that was cut short at the number where the next session begins: with the trusted store, which names each flush, it is
/// replaced. Without, or where the store names not each, it may have been acknowledged, and is never replaced.
#[test]
fn what_cannot_be_read_bars_no_writer_that_knows_it_was_not_acknowledged() {
    for bytes in [&[][..], &[7; 5000]] {
        let (plain, last) = left_open();
        let number = last.summary.successor;
        let name = names::log(number);
        let there = |plain: &Plain| plain.store.get(&name, 1 << 20).expect("an answer");
        plain.store.put(&name, bytes).expect("it is stored");
        let every_third = Settings { anchor_every: NonZeroU32::new(3).expect("not 0"), ..settings(8) };
        let refused = plain.open_with(Access::Write, every_third).map(drop);
        assert_eq!(refused, Err(OpenError::Unreadable { number }));
        assert_eq!(there(&plain).as_deref(), Some(bytes));
        let volume = plain.open(Access::Write).expect("it opens");
        volume.write_at(4096, &[2; 4096]).expect("a write");
        volume.close().expect("closed");
        let volume = plain.open(Access::Read).expect("it opens");
        for (block, value) in [1, 2].into_iter().enumerate() {
            let mut read = [0; 4096];
            volume.read_at(block as u64 * 4096, &mut read).expect("a read");
            assert!(read == [value; 4096]);
        }
    }
    let store = Arc::new(MemoryStore::new());
    let keys = Plain::in_memory(64).keys;
    SealedVolume::format(store.clone(), keys.clone(), &mut Freshness::Nothing, (64, 4), &mut settings(8))
        .expect("a new volume");
    let name = names::log(1);
    store.put(&name, b"cut").expect("it is stored");
    let open =
        || SealedVolume::open(store.clone(), keys.clone(), Freshness::Nothing, Access::Write, settings(8));
    assert_eq!(open().map(drop), Err(OpenError::Unreadable { number: 1 }));
    assert_eq!(store.get(&name, 10), Ok(Some(b"cut".to_vec())));
    store.delete(&name).expect("it is deleted");
    open().expect("it opens");
}

/// The record says that the session has ended: whatever comes up of it later was never acknowledged.
#[test]
fn a_session_that_was_closed_goes_on_no_more() {
    let (plain, last) = left_open();
    let record = plain.cell.0.lock().expect("the cell").expect("a record");
    let record = Record::decode(&record).expect("a record");
    *plain.cell.0.lock().expect("the cell") = Some(Record { closed: true, ..record }.encode());
    let number = last.prelude.number;
    assert_eq!(heads(&plain, next(&last)), [number + 1, number]);
}

/// Whoever has the key of before and the store says nothing behind the change of the key, and bars no writer by what he puts there.
#[test]
fn an_earlier_key_makes_nothing_that_follows_a_later_one() {
    let mut plain = Plain::in_memory(64);
    let before = plain.keys.clone();
    let [old, new] = [[9; 32], [10; 32]].map(|key| VolumeKey::copy_from(&key));
    let volume = plain.open(Access::Write).expect("it opens");
    volume.write_at(0, &[1; 4096]).expect("a write");
    volume.rekey(&old, &new, || Ok(())).expect("another key");
    volume.write_at(4096, &[2; 4096]).expect("a write");
    volume.flush().expect("a flush");
    let number = volume.head().expect("a head").number;
    drop(volume);
    let later = Keys::at_epoch(&new, before.format(), 1).expect("keys");
    plain.keys = Keys::new(&new, before.format()).expect("keys");
    let name = names::log(number);
    let bytes = plain.store.get(&name, 1 << 20).expect("an answer").expect("it is there");
    let last = open_log(&later, number, &bytes).expect("a log object");
    assert_eq!(heads_with(&plain, &later, next(&last)), [number + 1; 2]);
    let (prelude, summary) = next(&last);
    let (ordinal, successor) = (summary.ordinal + 1, prelude.number + 4);
    let begin = Summary { begin: true, ordinal, successor, ..summary.clone() };
    for summary in [summary, begin] {
        assert_eq!(heads_with(&plain, &before, (prelude, summary.clone())), [number; 2]);
        let forged = seal_log(&before, prelude, summary, &[]).expect("an object");
        plain.store.put(&names::log(prelude.number), &forged.bytes).expect("it is stored");
        let store = MemoryStore::new();
        for (name, bytes) in plain.objects() {
            store.put(&name, &bytes).expect("it is stored");
        }
        let record = *plain.cell.0.lock().expect("the cell");
        let cell = Cell(Arc::new(Mutex::new(record)));
        let copy = Plain { store: Arc::new(store), cell, keys: plain.keys.clone() };
        let volume = copy.open(Access::Write).expect("it opens");
        let mut read = [0; 4096];
        for (block, value) in [1, 2].into_iter().enumerate() {
            volume.read_at(block as u64 * 4096, &mut read).expect("a read");
            assert!(read == [value; 4096]);
        }
        plain.store.delete(&names::log(prelude.number)).expect("it is deleted");
    }
}
