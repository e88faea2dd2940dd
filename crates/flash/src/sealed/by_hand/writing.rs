//! What is written, and in which order: serials, tickets and records between programs and erases that come right or fail.

use atrest_device::{FlashCause, FlashDevice, TrustedStoreError};
use atrest_testkit::flash::{BadBlock, TrustedMemory};

use super::super::layout::Tickets;
use super::super::options::SealedMedium;
use super::in_use::{address, open, read};
use super::{BlockState, ByHand, OPTIONS, SealedOptions, Volume, vec};

/// Blocks 1 to 8 hold one unit each.
fn eight(options: SealedOptions) -> (ByHand, Volume, TrustedMemory) {
    let mut hand = ByHand::with(options);
    (1..=8).for_each(|block| hand.anchored(block, &[10 * u64::from(block)], 1));
    let (volume, store) = open(&hand);
    (hand, volume, store)
}

fn put(volume: &mut Volume, block: u64, unit: u64) -> Result<(), FlashCause> {
    let at = address(volume, block, unit);
    volume.prog(at, &[block as u8; 72]).map_err(|error| error.cause)
}

fn clear(volume: &mut Volume, block: u64) -> Result<(), FlashCause> {
    let (at, len) = (address(volume, block, 0), volume.geometry().erase_size());
    volume.erase(at, len.into()).map_err(|error| error.cause)
}

/// Begins a block that held nothing: its slot is free then.
fn begin(volume: &mut Volume, block: u64) {
    clear(volume, block).expect("erase");
    put(volume, block, 0).expect("program");
}

/// The block that the record names as the next to be erased.
fn named(store: &TrustedMemory) -> Option<u8> {
    let record = store.record().expect("a record");
    (record[3] & 2 != 0).then_some(record[16])
}

/// What the next opening finds in a block.
fn opened_again(hand: &ByHand, store: &TrustedMemory, block: u32) -> u32 {
    let (table, buffer) = (vec![BlockState::VOID; super::BLOCKS as usize], vec![0; super::FIRST]);
    let (medium, store) = (hand.medium.clone(), TrustedMemory::with_record(store.record()));
    let volume = Volume::mount(medium, store, &super::KEY, hand.options, table, buffer, &mut super::OsRandom)
        .expect("no alarm");
    assert!(!volume.is_damaged());
    volume.state(block).fill()
}

#[test]
fn six_erases_are_announced_in_blocks_and_the_seventh_in_the_record() {
    let (hand, mut volume, store) = eight(OPTIONS);
    for (done, record) in [0, 0, 0, 0, 0, 0, 1, 1].into_iter().enumerate() {
        let block = 1 + done as u64;
        let before = store.count() - u64::from(done == 7);
        begin(&mut volume, 9 + block);
        clear(&mut volume, block).expect("erase");
        assert_eq!(store.count() - before, record, "block {block}");
        assert_eq!(named(&store), (done >= 6).then_some(7), "block {block}");
        assert_eq!(opened_again(&hand, &store, block as u32), 0);
    }
}

#[test]
fn a_slot_takes_one_ticket_and_without_a_slot_the_record_names_the_block() {
    let (hand, mut volume, store) = eight(OPTIONS);
    let before = store.count();
    begin(&mut volume, 10);
    clear(&mut volume, 1).expect("erase");
    assert_eq!((store.count(), named(&store)), (before, None));
    clear(&mut volume, 2).expect("erase");
    assert_eq!((store.count(), named(&store)), (before + 1, Some(2)));
    assert_eq!(opened_again(&hand, &store, 10), 1);
    // Nor is one written into a block that is about to be erased itself, nor where tickets go to the store.
    begin(&mut volume, 11);
    volume.anchor().expect("anchor");
    let before = store.count();
    clear(&mut volume, 11).expect("erase");
    assert_eq!((store.count(), named(&store)), (before + 1, Some(11)));
    let (_hand, mut volume, store) = eight(SealedOptions { tickets: Tickets::Store, ..OPTIONS });
    begin(&mut volume, 10);
    clear(&mut volume, 1).expect("erase");
    assert_eq!(named(&store), Some(1));
}

#[test]
fn the_last_serial_of_a_window_is_a_tickets_and_there_is_none_behind_it() {
    for (left, name) in [(1, None), (0, Some(1))] {
        let (_hand, mut volume, store) = eight(OPTIONS);
        begin(&mut volume, 10);
        volume.next = volume.limit - left;
        let (limit, before) = (volume.limit, store.count());
        clear(&mut volume, 1).expect("erase");
        assert_eq!((named(&store), store.count() - before), (name, 1 - left));
        assert_eq!(volume.next, limit, "{left}");
    }
}

/// A ticket beside a record that says that nothing is newer would be taken for an attack.
#[test]
fn after_a_close_or_a_gap_the_record_comes_before_an_erase() {
    let (hand, mut volume, store) = eight(OPTIONS);
    begin(&mut volume, 10);
    volume.close().expect("close");
    let before = store.count();
    clear(&mut volume, 1).expect("erase");
    assert_eq!((named(&store), store.count()), (Some(1), before + 1));
    assert_eq!(opened_again(&hand, &store, 1), 0);
    let (hand, mut volume, store) = eight(OPTIONS);
    begin(&mut volume, 10);
    volume.gap = true;
    let before = store.count();
    clear(&mut volume, 1).expect("erase");
    assert_eq!((named(&store), store.count(), volume.gap), (Some(1), before + 1, false));
    assert_eq!(opened_again(&hand, &store, 1), 0);
    // A block that holds nothing needs no name, but the record still comes first.
    volume.gap = true;
    clear(&mut volume, 15).expect("erase");
    assert_eq!((named(&store), store.count(), volume.gap), (None, before + 2, false));
}

#[test]
fn a_ticket_that_is_not_there_does_not_announce() {
    for (how, read_back, name) in [
        (BadBlock::ProgNoop, true, Some(1)),
        (BadBlock::ProgNoop, false, None),
        (BadBlock::ProgError, true, Some(1)),
        (BadBlock::ProgError, false, Some(1)),
    ] {
        let (hand, mut volume, store) = eight(SealedOptions { read_back, ..OPTIONS });
        begin(&mut volume, 10);
        hand.medium.lock().break_block(10, how);
        let before = store.count();
        clear(&mut volume, 1).expect("erase");
        assert_eq!(named(&store), name, "{how:?}, {read_back}");
        assert_eq!(store.count() - before, u64::from(name.is_some()), "{how:?}, {read_back}");
        assert!(!volume.gap);
    }
}

#[test]
fn a_ticket_is_durable_before_the_erase_that_it_announces() {
    for (medium, syncs) in [(SealedMedium::Ordered, 0), (SealedMedium::Cached, 1)] {
        let (hand, mut volume, store) = eight(SealedOptions { medium, ..OPTIONS });
        begin(&mut volume, 10);
        let before = (hand.medium.lock().wear().syncs, store.count());
        clear(&mut volume, 1).expect("erase");
        let after = (hand.medium.lock().wear().syncs, store.count());
        assert_eq!((after.0 - before.0, after.1 - before.1), (syncs, 0), "{medium:?}");
        // It fails: nothing is erased, and the next attempt begins with the record.
        begin(&mut volume, 11);
        hand.medium.lock().refusals().syncs = 1;
        let erased = clear(&mut volume, 2);
        assert_eq!(erased.is_err(), medium == SealedMedium::Cached, "{medium:?}");
        assert_eq!(volume.state(2).fill(), u32::from(medium == SealedMedium::Cached));
        assert_eq!(volume.gap, medium == SealedMedium::Cached);
    }
}

#[test]
fn no_serial_in_flight_vanishes_with_its_block() {
    let (hand, mut volume, store) = eight(OPTIONS);
    begin(&mut volume, 10);
    begin(&mut volume, 11);
    let before = store.count();
    clear(&mut volume, 10).expect("erase");
    assert_eq!((store.count(), named(&store)), (before + 1, None), "then announced in block 11");
    begin(&mut volume, 12);
    assert_eq!(opened_again(&hand, &store, 12), 1);
    assert_eq!(opened_again(&hand, &store, 10), 0);
}

#[test]
fn a_program_that_stores_nothing_is_met_by_reading_back() {
    let (hand, mut volume, store) = eight(OPTIONS);
    begin(&mut volume, 10);
    hand.medium.lock().break_block(10, BadBlock::ProgNoop);
    let before = store.count();
    assert_eq!(put(&mut volume, 10, 1), Err(FlashCause::BadBlock { block: 10 }));
    assert_eq!(store.count(), before + 1, "its serial is behind the next record");
    assert_eq!(put(&mut volume, 10, 1), Err(FlashCause::Closed { block: 10 }));
    assert_eq!((volume.state(10).fill(), opened_again(&hand, &store, 10)), (1, 1));
    // The first unit of a block: nothing is left of it.
    hand.medium.lock().break_block(11, BadBlock::ProgNoop);
    clear(&mut volume, 11).expect("erase");
    assert_eq!(put(&mut volume, 11, 0), Err(FlashCause::BadBlock { block: 11 }));
    assert_eq!(read(&mut volume, 11, 0), Err(FlashCause::Void { block: 11 }));
    let (hand, mut volume, _) = eight(SealedOptions { read_back: false, ..OPTIONS });
    clear(&mut volume, 11).expect("erase");
    hand.medium.lock().break_block(11, BadBlock::ProgNoop);
    assert_eq!(put(&mut volume, 11, 0), Ok(()), "who does not read back does not know");
}

#[test]
fn an_erase_that_changes_nothing_is_met_by_reading_back_and_what_is_left_counts() {
    for (how, read_back, fails) in [
        (BadBlock::EraseNoop, true, true),
        (BadBlock::EraseNoop, false, false),
        (BadBlock::EraseError, true, true),
        (BadBlock::EraseError, false, true),
    ] {
        let (hand, mut volume, store) = eight(SealedOptions { read_back, ..OPTIONS });
        hand.medium.lock().break_block(3, how);
        let before = store.count();
        let erased = clear(&mut volume, 3);
        if !fails {
            assert_eq!((erased, volume.state(3)), (Ok(()), BlockState::ERASED));
            continue;
        }
        assert_eq!(erased, Err(FlashCause::BadBlock { block: 3 }), "{how:?}, {read_back}");
        assert_eq!(store.count(), before + 2, "its name, and what is left");
        assert_eq!((volume.state(3).fill(), read(&mut volume, 3, 0)), (1, Ok(())));
        assert_eq!(put(&mut volume, 3, 1), Err(FlashCause::Closed { block: 3 }));
        assert_eq!(opened_again(&hand, &store, 3), 1);
    }
}

/// Neither half-open nor readable as blank, even while the record can't be written.
#[test]
fn a_block_that_a_failed_erase_has_emptied_is_void() {
    let (hand, mut volume, store) = eight(OPTIONS);
    hand.medium.lock().break_block(3, BadBlock::EraseError);
    (0..128).for_each(|byte| hand.medium.lock().image_mut().flip(3, byte, 1));
    clear(&mut volume, 15).expect("erase");
    put(&mut volume, 15, 0).expect("program");
    store.fail(Some(TrustedStoreError::Driver(4)));
    assert_eq!(clear(&mut volume, 3), Err(FlashCause::BadBlock { block: 3 }), "announced in block 15");
    assert_eq!(read(&mut volume, 3, 0), Err(FlashCause::Void { block: 3 }));
    assert_eq!(volume.state(3), BlockState::VOID);
    assert_eq!(put(&mut volume, 15, 1), Err(FlashCause::TrustedStore(TrustedStoreError::Driver(4))));
    store.fail(None);
    assert_eq!(put(&mut volume, 15, 1), Ok(()));
}

#[test]
fn what_can_be_programmed_is_blank_and_nothing_else_is() {
    let (_hand, mut volume, _store) = eight(OPTIONS);
    begin(&mut volume, 10);
    put(&mut volume, 10, 1).expect("program");
    clear(&mut volume, 11).expect("erase");
    let mut blank = |block, unit, units: u64| {
        let at = address(&volume, block, unit);
        volume.is_blank(at, units * 72, &mut []).map_err(|error| error.cause)
    };
    for (block, unit, units, is_blank) in [
        (10, 0, 1, false),
        (10, 1, 1, false),
        (10, 2, 1, true),
        (10, 2, 8, true),
        (10, 1, 2, false),
        (10, 9, 2, true),
        (11, 0, 10, true),
        (11, 9, 2, false),
        (1, 1, 1, false),
        (12, 0, 1, false),
    ] {
        assert_eq!(blank(block, unit, units), Ok(is_blank), "block {block}, {units} from {unit} on");
    }
    let outside = FlashCause::OutOfBounds { size: super::BLOCKS * 720 };
    assert_eq!(blank(super::BLOCKS - 1, 9, 2), Err(outside));
    assert_eq!(volume.erased_byte(), Some(0xff));
}

#[test]
fn behind_what_a_block_holds_stands_what_says_whether_it_can_be_programmed() {
    let (_hand, mut volume, _store) = eight(OPTIONS);
    begin(&mut volume, 10);
    clear(&mut volume, 11).expect("erase");
    let mut first = |block, unit| {
        let (at, mut bytes) = (address(&volume, block, unit), [0x5a; 72]);
        volume.read(at, &mut bytes).map(|()| bytes).map_err(|error| error.cause)
    };
    assert_eq!((first(10, 0), first(10, 1), first(11, 0)), (Ok([10; 72]), Ok([0xff; 72]), Ok([0xff; 72])));
    assert_eq!((first(1, 0), first(1, 1)), (Ok([1; 72]), Ok([0; 72])), "begun before it was opened");
    assert_eq!(first(12, 0), Err(FlashCause::Void { block: 12 }));
}

#[test]
fn a_failed_record_is_written_again_before_anything_is_changed() {
    let (hand, mut volume, store) = eight(OPTIONS);
    begin(&mut volume, 10);
    let failed = TrustedStoreError::Driver(4);
    for (late, unit) in [(false, 1), (true, 3)] {
        if late {
            store.fail_late(failed)
        } else {
            store.fail(Some(failed))
        }
        assert_eq!(volume.anchor(), Err(FlashCause::TrustedStore(failed)));
        let programmed = hand.medium.lock().wear().programmed_units();
        assert_eq!(put(&mut volume, 10, unit), Err(FlashCause::TrustedStore(failed)));
        assert_eq!(clear(&mut volume, 1), Err(FlashCause::TrustedStore(failed)));
        assert_eq!(clear(&mut volume, 15), Err(FlashCause::TrustedStore(failed)));
        assert_eq!(hand.medium.lock().wear().programmed_units(), programmed, "late: {late}");
        assert_eq!(read(&mut volume, 1, 0), Ok(()), "it was not erased");
        store.fail(None);
        let before = store.count();
        put(&mut volume, 10, unit).expect("program");
        assert_eq!(store.count(), before + 1, "late: {late}");
        put(&mut volume, 10, unit + 1).expect("program");
    }
    assert_eq!(opened_again(&hand, &store, 10), 5);
}

type Call = fn(&mut Volume) -> Result<(), FlashCause>;

#[test]
fn what_a_record_vouches_for_is_durable_before_it() {
    let refused = Err(FlashCause::Driver(0));
    let (hand, mut volume, store) = eight(OPTIONS);
    let calls: [Call; 3] =
        [Volume::anchor, Volume::close, |volume| volume.sync().map_err(|error| error.cause)];
    for (call, block) in calls.into_iter().zip(10..) {
        begin(&mut volume, block);
        let before = store.count();
        hand.medium.lock().refusals().syncs = 1;
        assert_eq!((call(&mut volume), store.count()), (refused, before));
        assert_eq!((call(&mut volume), store.count()), (Ok(()), before + 1));
        // There is nothing to write, but something may be in a cache.
        hand.medium.lock().refusals().syncs = 1;
        assert_eq!((call(&mut volume), store.count()), (refused, before + 1));
        assert_eq!((call(&mut volume), store.count()), (Ok(()), before + 1));
    }
}
