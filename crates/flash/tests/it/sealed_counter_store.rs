//! A log beside a counter by itself: at every cut of every write it holds the old record or the new one; blocks that go bad, and media
//! that held something else before.

use std::cell::Cell;
use std::rc::Rc;

use crate::faces::AnyCounter as CounterStore;
use atrest_device::{FlashGeometry, TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError};
use atrest_flash::sealed::SealedKey;
use atrest_flash::sealed::store::MonotonicCounter;
use atrest_testkit::Random;
use atrest_testkit::flash::{BadBlock, EmulatedCard, EmulatedFlash, SharedFlash};

const KEY: SealedKey<'_> = SealedKey { volume_key: &[0x42; 32], uuid: &[0x24; 16], header: None };

/// What is used up at its end.
#[derive(Clone)]
struct Counter(Rc<Cell<u64>>, u64);

impl Counter {
    fn at(value: u64) -> Self {
        Self(Rc::new(Cell::new(value)), u64::MAX)
    }

    fn now(&self) -> u64 {
        self.0.get()
    }
}

impl MonotonicCounter for Counter {
    fn value(&mut self) -> Result<u64, TrustedStoreError> {
        Ok(self.now())
    }

    fn increment(&mut self) -> Result<(), TrustedStoreError> {
        if self.now() >= self.1 {
            return Err(TrustedStoreError::WornOut);
        }
        self.0.set(self.now() + 1);
        Ok(())
    }
}

type Store = CounterStore<Counter, SharedFlash, 104>;

/// Blocks of four entries.
fn flash(blocks: u64) -> SharedFlash {
    SharedFlash::new(EmulatedFlash::new(FlashGeometry::new(1, 8, 416, blocks).expect("a geometry")))
}

fn store_on(log: &SharedFlash, counter: &Counter) -> Store {
    Store::new(log.clone(), counter.clone(), &KEY).expect("large enough")
}

/// The two blocks that a log has at least, one of them bad: it goes on as long as the other has room, which is then said by name; what
/// was stored last stays. With a third block it goes on for ever.
#[test]
fn a_bad_block_of_two_stops_a_log_in_the_end_and_of_three_never() {
    for (blocks, how) in [2, 3].into_iter().flat_map(|blocks| BadBlock::ALL.map(|how| (blocks, how))) {
        for (bad, already) in (0..blocks).flat_map(|bad| (0..9).map(move |already| (bad, already))) {
            let (log, counter) = (flash(blocks), Counter::at(5));
            let mut store = store_on(&log, &counter);
            (0..already)
                .for_each(|number| store.store(&[number; TRUSTED_RECORD_LEN]).expect("nothing is bad yet"));
            log.lock().break_block(bad as usize, how);
            let mut last = already.checked_sub(1);
            let mut stopped = None;
            for number in already..already + 40 {
                match store.store(&[number; TRUSTED_RECORD_LEN]) {
                    Ok(()) => last = Some(number),
                    Err(error) => stopped = stopped.or(Some(error)),
                }
                if stopped.is_none() && number % 5 == 0 {
                    store = store_on(&log, &counter);
                    assert_eq!(
                        store.load(),
                        Ok(last.map(|number| [number; TRUSTED_RECORD_LEN])),
                        "{blocks}, {how:?}, {bad}, {already}"
                    );
                    stopped = store.claim().err();
                }
            }
            let name = format!("{how:?}, block {bad} of {blocks}, after {already}: {stopped:?}, {last:?}");
            if blocks == 3 {
                assert_eq!(stopped, None, "{name}");
            } else {
                assert_eq!(stopped, Some(TrustedStoreError::WornOut), "{name}");
            }
            if how != BadBlock::ReadError || blocks == 3 {
                assert_eq!(
                    store_on(&log, &counter).load(),
                    Ok(last.map(|number| [number; TRUSTED_RECORD_LEN])),
                    "{name}"
                );
            }
        }
    }
}

/// Bits that go wrong in entries that do not count change nothing, one in the entry that counts is told.
#[test]
fn a_bad_cell_costs_its_entry_alone() {
    let (log, counter) = (flash(2), Counter::at(5));
    let mut store = store_on(&log, &counter);
    (0..6).for_each(|number| store.store(&[number; TRUSTED_RECORD_LEN]).expect("store"));
    for entry in 0..6 {
        let broken = SharedFlash::new(EmulatedFlash::with_image(log.lock().image().clone()));
        broken.lock().image_mut().flip(entry / 4, entry % 4 * 104 + 11, 3);
        let found = store_on(&broken, &counter).load();
        assert_eq!(
            found,
            if entry == 5 { Err(TrustedStoreError::Damaged) } else { Ok(Some([5; TRUSTED_RECORD_LEN])) }
        );
    }
}

/// While a store is in use it knows what counts: that the log can't be read costs nothing but the next opening.
#[test]
fn a_store_in_use_needs_no_log_to_go_on() {
    let (log, counter) = (flash(2), Counter::at(5));
    let mut store = store_on(&log, &counter);
    (0..3).for_each(|number| store.store(&[number; TRUSTED_RECORD_LEN]).expect("store"));
    (0..3).for_each(|unit| log.lock().image_mut().flip(0, unit * 104, 0));
    assert_eq!(store_on(&log, &counter).load(), Err(TrustedStoreError::Damaged));
    store.store(&[9; TRUSTED_RECORD_LEN]).expect("store");
    assert_eq!(store_on(&log, &counter).load(), Ok(Some([9; TRUSTED_RECORD_LEN])));
}

#[test]
fn a_counter_that_is_used_up_says_so_and_what_counts_is_still_read() {
    let (log, mut counter) = (flash(2), Counter::at(5));
    counter.1 = 12;
    let mut store = store_on(&log, &counter);
    let stored = (0..20).take_while(|number| store.store(&[*number; TRUSTED_RECORD_LEN]).is_ok()).count();
    assert_eq!((stored, counter.now()), (6, 12), "one to begin with, one for each");
    assert_eq!(store.store(&[99; TRUSTED_RECORD_LEN]), Err(TrustedStoreError::WornOut));
    let mut store = store_on(&log, &counter);
    assert_eq!(store.load(), Ok(Some([5; TRUSTED_RECORD_LEN])));
    assert_eq!(store.claim(), Err(TrustedStoreError::WornOut));
    assert_eq!(store_on(&log, &counter).load(), Ok(Some([5; TRUSTED_RECORD_LEN])));
}

/// What is used for the first time may hold anything.
#[test]
fn a_used_chip_and_a_card_are_prepared_by_name() {
    let mut random = Random::new(8);
    let (chip, counter) = (flash(2), Counter::at(40));
    (0..104).for_each(|unit| chip.lock().image_mut().put_unit(unit / 52, unit % 52, &random.bytes(8)));
    let mut store = store_on(&chip, &counter);
    assert_eq!(store.load(), Err(TrustedStoreError::Damaged));
    store.prepare().expect("prepare");
    assert_eq!((store.load(), counter.now()), (Ok(None), 40));
    store.store(&[1; TRUSTED_RECORD_LEN]).expect("store");
    let before = chip.lock().image().to_bytes();
    store_on(&chip, &counter).prepare().expect("nothing to do");
    assert_eq!(chip.lock().image().to_bytes(), before, "what counts is kept");
    chip.lock().break_block(1, BadBlock::EraseError);
    chip.lock().image_mut().flip(0, 3, 1);
    assert_eq!(store_on(&chip, &counter).prepare(), Err(TrustedStoreError::WornOut));

    let geometry = FlashGeometry::new(512, 512, 1536, 2).expect("a geometry");
    let card = EmulatedCard::used(geometry, &mut random);
    let on_card =
        || CounterStore::<_, _, 512>::new(card.clone(), counter.clone(), &KEY).expect("large enough");
    assert_eq!(on_card().load(), Err(TrustedStoreError::Damaged));
    on_card().prepare().expect("prepare");
    assert_eq!(on_card().load(), Ok(None));
    on_card().store(&[7; TRUSTED_RECORD_LEN]).expect("store");
    assert_eq!(on_card().load(), Ok(Some([7; TRUSTED_RECORD_LEN])));
}

/// A block that is bad before anything was stored, blank or with something else in it: prepared by name, and by nothing else, the log
/// works from then on.
#[test]
fn a_log_with_a_bad_block_from_the_start_is_prepared_and_then_goes_on_for_ever() {
    let mut random = Random::new(9);
    for (used, how, bad) in [false, true].into_iter().flat_map(|used| {
        BadBlock::ALL.into_iter().flat_map(move |how| (0..3).map(move |bad| (used, how, bad)))
    }) {
        let name = format!("{used}, {how:?}, block {bad}");
        let (log, counter) = (flash(3), Counter::at(40));
        for unit in (0..156).filter(|_| used) {
            log.lock().image_mut().put_unit(unit / 52, unit % 52, &random.bytes(8));
        }
        log.lock().break_block(bad, how);
        let mut store = store_on(&log, &counter);
        let doubtful = used || how == BadBlock::ReadError;
        let found = if doubtful { Err(TrustedStoreError::Damaged) } else { Ok(None) };
        assert_eq!(store.load(), found, "{name}");
        store.prepare().expect(&name);
        assert_eq!((store.load(), counter.now()), (Ok(None), 40), "{name}");
        if how == BadBlock::ReadError {
            let another = store_on(&log, &counter).load();
            assert_eq!(another, Err(TrustedStoreError::Damaged), "{name}: a record may have been there");
        }
        for number in 0..40 {
            store.store(&[number; TRUSTED_RECORD_LEN]).expect(&name);
            if number % 5 == 0 {
                store = store_on(&log, &counter);
                assert_eq!(store.load(), Ok(Some([number; TRUSTED_RECORD_LEN])), "{name}");
                store.prepare().expect("nothing to do");
                store.claim().expect(&name);
            }
        }
        // What was prepared once is not taken for empty when what counts can't be read any more.
        (0..156).for_each(|unit| log.lock().image_mut().put_unit(unit / 52, unit % 52, &random.bytes(8)));
        assert_eq!(store.load(), Err(TrustedStoreError::Damaged), "{name}");
        log.lock().break_block((bad + 1) % 3, BadBlock::EraseError);
        log.lock().break_block((bad + 2) % 3, BadBlock::EraseError);
        let stopped = store_on(&log, &counter).prepare();
        assert_eq!(stopped, Err(TrustedStoreError::WornOut), "{name}: one block is left, or none");
    }
}

/// A card has no blank places and loses what was not synced: entries are written over old ones.
#[test]
fn a_log_on_a_card_holds_the_old_record_or_the_new_one_at_every_cut() {
    let geometry = FlashGeometry::new(512, 512, 1536, 2).expect("a geometry");
    let card = EmulatedCard::used(geometry, &mut Random::new(3));
    let on = |card: &EmulatedCard, counter: &Counter| {
        CounterStore::<_, _, 512>::new(card.clone(), counter.clone(), &KEY).expect("large enough")
    };
    let counter = Counter::at(100);
    card.record();
    let mut store = on(&card, &counter);
    assert_eq!(store.load(), Err(TrustedStoreError::Damaged), "what was on the card before");
    for number in 1..=60 {
        store.store(&[number; TRUSTED_RECORD_LEN]).expect("store");
        card.acknowledge();
        if number % 3 == 0 {
            store = on(&card, &counter);
            assert_eq!(store.load(), Ok(Some([number; TRUSTED_RECORD_LEN])));
        }
    }
    let recording = card.finish_recording();
    let mut cases = 0;
    // The counter was incremented once to begin with, and then after each write.
    let cuts = recording.cuts().into_iter().map(|cut| (recording.aftermath(cut), 101 + cut.write as u64));
    let unvouched = (1..recording.len())
        .map(|write| ((recording.before(write).0, recording.before(write - 1).1), 100 + write as u64));
    for ((left, done), shown) in cuts.chain(unvouched) {
        let (done, counter) = (done as u8, Counter::at(shown));
        let found = on(&left, &counter).load();
        let allowed = [Ok(Some([done; TRUSTED_RECORD_LEN])), Ok(Some([done + 1; TRUSTED_RECORD_LEN]))];
        let none = done == 0 && found == Err(TrustedStoreError::Damaged);
        assert!(allowed.contains(&found) || none, "{shown}: {found:?} after {done}");
        for number in 100..110 {
            let mut store = on(&left, &counter);
            store.store(&[number; TRUSTED_RECORD_LEN]).expect("store");
            assert_eq!(on(&left, &counter).load(), Ok(Some([number; TRUSTED_RECORD_LEN])), "{shown}");
        }
        cases += 1;
    }
    println!("{cases} cuts of a log on a card");
    assert!(cases > 300);
}

/// `vectors/sealed-flash.py` computes it.
#[test]
fn an_entry_is_that_of_an_independent_implementation() {
    let log = SharedFlash::new(EmulatedFlash::new(FlashGeometry::new(1, 104, 208, 2).expect("a geometry")));
    let (volume_key, uuid) =
        (std::array::from_fn::<_, 32, _>(|i| i as u8), std::array::from_fn(|i| 0x10 + i as u8));
    let key = SealedKey { volume_key: &volume_key, uuid: &uuid, header: None };
    let mut store = CounterStore::<_, _, 104>::new(log.clone(), Counter::at(7), &key).expect("large enough");
    store.store(&std::array::from_fn(|i| i as u8)).expect("store");
    let entry: String =
        log.lock().image().unit(0, 0)[..104].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        entry,
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f\
         303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f0900000000000000086259e06977b421c06ba6d293408574"
    );
}

#[test]
fn a_counter_store_takes_no_key_that_was_never_filled_in() {
    let log = SharedFlash::new(EmulatedFlash::new(FlashGeometry::new(1, 104, 208, 2).expect("a geometry")));
    for key in [
        SealedKey { volume_key: &[], ..KEY },
        SealedKey { volume_key: &[0; 32], ..KEY },
        SealedKey { uuid: &[0; 16], ..KEY },
    ] {
        let store = CounterStore::<_, _, 104>::new(log.clone(), Counter::at(7), &key);
        assert_eq!(store.map(|_| ()), Err(TrustedStoreError::NoKey));
    }
}

#[test]
fn a_counter_store_says_what_is_wrong() {
    let geometry = FlashGeometry::new(1, 8, 208, 2).expect("a geometry");
    let log = SharedFlash::new(EmulatedFlash::new(geometry));
    let counter = Counter::at(41);
    let store = || CounterStore::<_, _, 104>::new(log.clone(), counter.clone(), &KEY).expect("large enough");
    assert_eq!(store().load(), Ok(None));
    assert_eq!(counter.now(), 41, "nothing to be claimed");
    store().store(&[1; TRUSTED_RECORD_LEN]).expect("store");
    assert_eq!(
        (store().load(), counter.now()),
        (Ok(Some([1; TRUSTED_RECORD_LEN])), 43),
        "looking changes nothing"
    );
    let mut kept = store();
    assert_eq!((kept.load(), kept.claim()), (Ok(Some([1; TRUSTED_RECORD_LEN])), Ok(())));
    (2..9).for_each(|number| kept.store(&[number; TRUSTED_RECORD_LEN]).expect("store"));
    assert_eq!(counter.now(), 45 + 7, "one increment for each");
    // Somebody else increments the counter.
    counter.0.set(counter.now() + 1);
    let before = log.lock().image().to_bytes();
    assert_eq!(kept.store(&[9; TRUSTED_RECORD_LEN]), Err(TrustedStoreError::Busy));
    assert_eq!(
        kept.store(&[9; TRUSTED_RECORD_LEN]),
        Err(TrustedStoreError::Busy),
        "what counted does not any more"
    );
    assert_eq!(
        (log.lock().image().to_bytes(), counter.now()),
        (before, 53),
        "seen before anything is written"
    );
    assert_eq!(store().load(), Err(TrustedStoreError::Damaged));
    // To be replaced by name only; then it begins anew.
    store().store(&[10; TRUSTED_RECORD_LEN]).expect("store");
    assert_eq!(store().load(), Ok(Some([10; TRUSTED_RECORD_LEN])));
    counter.0.set(u64::MAX);
    assert_eq!(store().store(&[11; TRUSTED_RECORD_LEN]), Err(TrustedStoreError::WornOut));
    let small = |prog, erase, count| {
        let flash = EmulatedFlash::new(FlashGeometry::new(1, prog, erase, count).expect("a geometry"));
        CounterStore::<_, _, 104>::new(flash, Counter::at(0), &KEY).err()
    };
    assert_eq!(small(8, 32, 2), Some(TrustedStoreError::TooSmall { needs: 208, has: 64 }));
    assert_eq!(small(104, 104, 1), Some(TrustedStoreError::TooSmall { needs: 208, has: 104 }));
    assert_eq!(small(128, 128, 2), Some(TrustedStoreError::TooSmall { needs: 128, has: 104 }));
    assert_eq!(small(104, 104, 2), None);
}

/// A block that reads blank may be half erased where something was cut: the first entry goes to one that is erased before.
#[test]
fn the_first_entry_goes_to_an_erased_block_unless_nothing_stands_anywhere() {
    for torn in [&[][..], &[0], &[1], &[2], &[0, 1], &[1, 2], &[0, 1, 2]] {
        let (log, counter) = (flash(3), Counter::at(5));
        torn.iter().for_each(|block| log.lock().image_mut().put_unit(*block, 3, &[0x11; 8]));
        let mut store = store_on(&log, &counter);
        assert_eq!(store.load(), Ok(None), "{torn:?}: one entry in a block that is not whole was cut");
        store.store(&[1; TRUSTED_RECORD_LEN]).expect("store");
        let erases = log.lock().wear().erases.clone();
        assert_eq!(erases, [u32::from(!torn.is_empty()), 0, 0], "{torn:?}");
        assert_eq!(log.lock().image().unit(0, 0), [1; 8], "{torn:?}");
        assert_eq!(store_on(&log, &counter).load(), Ok(Some([1; TRUSTED_RECORD_LEN])));
    }
    // Two that are not whole in one block are something else.
    for (places, expected) in [
        ([0, 12], Ok(None)),
        ([0, 13], Err(TrustedStoreError::Damaged)),
        ([13, 14], Err(TrustedStoreError::Damaged)),
    ] {
        let (log, counter) = (flash(3), Counter::at(5));
        places.iter().for_each(|unit| log.lock().image_mut().put_unit(1, *unit, &[0x11; 8]));
        assert_eq!(store_on(&log, &counter).load(), expected, "{places:?}");
    }
}

#[test]
fn a_place_is_read_once_if_it_is_blank_or_counts_and_three_times_otherwise() {
    let (log, counter) = (flash(2), Counter::at(5));
    let reads = |counter: &Counter| {
        let before = log.lock().wear().transfers;
        let _ = store_on(&log, counter).load();
        log.lock().wear().transfers - before
    };
    assert_eq!(reads(&counter), 8);
    store_on(&log, &counter).store(&[1; TRUSTED_RECORD_LEN]).expect("store");
    assert_eq!(reads(&counter), 8);
    assert_eq!(reads(&Counter::at(9)), 8 + 2, "an entry that does not count");
}
