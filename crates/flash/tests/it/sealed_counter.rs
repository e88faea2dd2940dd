//! littlefs on a chip beside which nothing is trusted but a counter: power lost at every program, erase and increment, blocks of the
//! log gone bad, and media that are refused.

use std::cell::RefCell;

use crate::any::{AnyVolume, any_flash, any_store};
use crate::counter_rig::{BLOCKS, Chip, Counter, LOG, Store, Volume, afterwards, half_the_suite, read};
use crate::faces::AnyCounter as CounterStore;
use crate::littlefs::{Tree, play_on};
use crate::sealed_rig::{KEY, OPTIONS, STRIDE, on};
use atrest_cipher::aead::ChaCha20Poly1305;
use atrest_device::{FlashDevice, FlashGeometry, FlashRegion, TrustedStore, TrustedStoreError};
use atrest_flash::sealed::{BlockState, RecordFields, SealedError, SealedMedium, SealedOptions};
use atrest_testkit::flash::{BadBlock, Caching, EmulatedFlash, FlashImage};
use atrest_testkit::{Campaign, Random};

fn cut_everywhere(name: &'static str, options: SealedOptions, caching: Caching, sample: usize) {
    let run = Chip::formatted(options).record(Tree::new(), &half_the_suite(), false);
    let cuts = run.cuts(caching);
    let (steps, increments) = (run.recording.len(), run.increments.len());
    println!("{name}: {steps} programs and erases, {increments} increments, {} cuts", cuts.len());
    Campaign::matrix(name, sample).over(&cuts, |cut| {
        let (chip, found) = run.survive(*cut);
        let again = chip.record(found, &afterwards(), false);
        assert_eq!(again.played.refused, 0, "{cut:?}: there is room");
        assert_eq!(read(&chip).as_ref().ok(), again.played.states.last(), "{cut:?}");
    });
}

#[test]
fn no_cut_beside_a_counter_loses_what_was_synced_or_raises_an_alarm() {
    cut_everywhere("counter store power loss", OPTIONS, Caching::None, 80);
    let every = SealedOptions { anchor_every: 1, ..OPTIONS };
    cut_everywhere("counter store power loss, every sync anchored", every, Caching::None, 50);
}

#[test]
fn no_cut_beside_a_counter_on_a_medium_with_a_cache_loses_what_was_synced() {
    let medium = SealedMedium::Cached;
    let options = SealedOptions { medium, ..OPTIONS };
    cut_everywhere("counter store power loss, cached", options, Caching::UntilSync, 50);
}

#[test]
fn no_second_cut_beside_a_counter_loses_what_was_synced() {
    let run = Chip::formatted(OPTIONS).record(Tree::new(), &half_the_suite(), false);
    let first = run.cuts(Caching::None);
    Campaign::new("counter store power loss, two cuts", 50, 20_000).run(|_, random: &mut Random| {
        let (chip, _) = run.aftermath(*random.pick(&first));
        let start = read(&chip.copy()).expect("survived");
        let again = chip.record(start, &afterwards(), false);
        // Openings are a large part of it.
        again.survive(*random.pick(&again.cuts(Caching::None)));
    });
}

/// Each block of the log gone bad in each way, before the workload or in the middle of it: it goes on, opens again and again, and what is
/// put back is refused all the same.
#[test]
fn a_bad_block_of_the_log_locks_nobody_out() {
    let changes = half_the_suite();
    let mut cases = Vec::new();
    for how in BadBlock::ALL {
        cases.extend((0..LOG).flat_map(|block| [0, 1, 13, 20].map(|before| (how, block, before))));
    }
    Campaign::matrix("bad blocks of a log", 20).over(&cases, |&(how, block, before)| {
        let name = format!("block {block} of the log, {how:?}, before change {before}");
        let chip = Chip::formatted(SealedOptions { anchor_every: 1, ..OPTIONS });
        let mut storage = on(chip.open(true).expect("mount"));
        let (first, result) = play_on(&mut storage, Tree::new(), &changes[..before], |_| {});
        assert!(result.is_ok(), "{name}: nothing is bad yet");
        let older = chip.medium.lock().image().clone();
        chip.medium.lock().break_block((BLOCKS + block) as usize, how);
        let start = first.states.last().expect("a state").clone();
        let (played, result) = play_on(&mut storage, start, &changes[before..], |_| {});
        assert!(result.is_ok(), "{name}: {result:?}");
        drop(storage);
        for _ in 0..40 {
            assert_eq!(read(&chip).as_ref(), Ok(played.states.last().expect("a state")), "{name}");
        }
        let put_back = Chip::new(older, chip.counter.now(), chip.options);
        let refused = put_back.open(true).expect_err("older");
        assert!(
            matches!(refused, SealedError::Store(TrustedStoreError::Damaged) | SealedError::StoreEmpty),
            "{name}: {refused:?}"
        );
    });
}

/// Bad before the volume is made: that takes a log that was prepared, and then goes on.
#[test]
fn a_volume_is_made_beside_a_log_with_a_bad_block() {
    for (how, block) in BadBlock::ALL.into_iter().flat_map(|how| (0..LOG).map(move |block| (how, block))) {
        let geometry = FlashGeometry::new(1, STRIDE, STRIDE * 11, BLOCKS + LOG).expect("a geometry");
        let chip = Chip::new(FlashImage::erased(geometry), 1_000, OPTIONS);
        chip.medium.lock().break_block((BLOCKS + block) as usize, how);
        let part = |first, count| FlashRegion::new(chip.medium.clone(), first, count).expect("in range");
        let mut store = Store::new(part(BLOCKS, LOG), chip.counter.clone(), &KEY).expect("large enough");
        store.prepare().expect("two blocks are good");
        let (table, buffer) = (vec![BlockState::default(); BLOCKS as usize], vec![0; STRIDE as usize]);
        let made = Volume::format(
            any_flash(part(0, BLOCKS)),
            any_store(store),
            &KEY,
            OPTIONS,
            table,
            buffer,
            &mut atrest_secret::OsRandom,
        );
        let mut volume = made.unwrap_or_else(|error| panic!("{how:?}, {block}: {error:?}"));
        volume.close().expect("close");
        for _ in 0..20 {
            chip.open(true).unwrap_or_else(|error| panic!("{how:?}, {block}: {error:?}"));
        }
    }
}

/// A record that was written beside another counter, or in a store on the desk: used with this counter, the serials of a volume that is
/// made after a wipe would be its own.
#[test]
fn a_record_that_allows_more_than_the_counter_vouches_for_is_refused() {
    let elsewhere = Chip::formatted(OPTIONS);
    let log = |chip: &Chip| FlashRegion::new(chip.medium.clone(), BLOCKS, LOG).expect("in range");
    let store = |chip: &Chip| Store::new(log(chip), chip.counter.clone(), &KEY).expect("large enough");
    for close in [false, true] {
        let mut volume = elsewhere.open(true).expect("mount");
        if close {
            volume.close().expect("close");
        } else {
            let size = volume.geometry().erase_size();
            volume.erase(0, size.into()).expect("erase");
            volume.anchor().expect("anchor");
        }
        drop(volume);
        let record = store(&elsewhere).load().expect("load").expect("a record");
        let fields = RecordFields::of(&record).expect("a record");
        assert_eq!(fields.closed, close);
        let limit = fields.anchor + (1 << OPTIONS.reserve);
        let fits = (limit - 1) >> 16;
        // The first record stands under the second number.
        for number in [4, fits - 1, fits] {
            let here = Chip::new(elsewhere.medium.lock().image().clone(), number - 2, OPTIONS);
            let size = log(&here).geometry().size();
            log(&here).erase(0, size).expect("erase");
            store(&here).store(&record).expect("store");
            assert_eq!(here.counter.now(), number);
            let before = here.medium.lock().image().to_bytes();
            let opened = here.open(true).map(drop);
            if number == fits {
                assert_eq!(opened, Ok(()), "closed: {close}");
                continue;
            }
            let unused = (number + 1) << 16;
            assert_eq!(opened, Err(SealedError::CounterBehind { limit, unused }), "closed: {close}");
            let after = (here.medium.lock().image().to_bytes(), here.counter.now());
            assert!(after == (before, number), "something was changed");
        }
    }
}

/// What counts lies in a block that can't be read any more: that is said, and nothing is changed.
#[test]
fn a_log_that_can_not_be_read_is_refused_by_name() {
    let chip = Chip::formatted(OPTIONS);
    (0..LOG).for_each(|block| {
        chip.medium.lock().break_block((BLOCKS + block) as usize, BadBlock::ReadError);
    });
    let before = (chip.medium.lock().image().to_bytes(), chip.counter.now());
    let refused = chip.open(true).expect_err("nothing can be read");
    assert_eq!(refused, SealedError::Store(TrustedStoreError::Damaged));
    assert_eq!((chip.medium.lock().image().to_bytes(), chip.counter.now()), before);
}

/// Neither medium nor log nor counter, whatever the reason: so nobody who can change a medium uses up the counter.
#[test]
fn a_refused_medium_leaves_everything_as_it_is() {
    let chip = Chip::formatted(OPTIONS);
    let run = chip.record(Tree::new(), &half_the_suite(), true);
    let (mut refused, mut opened) = (0, 0);
    for block in 0..BLOCKS as usize {
        let copy = chip.copy();
        // More than is made up for: `sealed_damage.rs` has that.
        for byte in 0..copy.medium.geometry().erase_size() as usize {
            copy.medium.lock().image_mut().flip(block, byte, (byte % 7) as u8);
        }
        let before = (copy.medium.lock().image().to_bytes(), copy.counter.now());
        match copy.open(true) {
            Ok(_) => opened += 1,
            Err(SealedError::NotAnchored { .. } | SealedError::Gap { .. }) => {
                refused += 1;
                assert_eq!((copy.medium.lock().image().to_bytes(), copy.counter.now()), before);
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    println!("{refused} refused, {opened} opened: blocks without contents");
    assert!(refused > 30, "most blocks hold something");
    let before = (chip.medium.lock().image().to_bytes(), chip.counter.now());
    let error = chip.open_with(true, BLOCKS as usize - 1).expect_err("a small table");
    assert!(matches!(error, SealedError::TableTooSmall { .. }), "{error:?}");
    assert_eq!((chip.medium.lock().image().to_bytes(), chip.counter.now()), before);
    let options = SealedOptions { reserve: 17, ..OPTIONS };
    let large = Chip { options, ..chip.clone() };
    assert_eq!(large.open(true).expect_err("a large reserve"), SealedError::Option);
    assert_eq!((chip.medium.lock().image().to_bytes(), chip.counter.now()), before);
    assert_eq!(read(&chip).as_ref().ok(), run.played.states.last());
}

/// As firmware has it: one driver, two regions of it.
#[test]
fn a_chip_in_a_cell_holds_volume_and_log() {
    let geometry = FlashGeometry::new(1, 32, 1024, 10).expect("a geometry");
    let (chip, counter) = (RefCell::new(EmulatedFlash::new(geometry)), Counter::at(7));
    let open = |mount: bool| {
        let part = |first, count| FlashRegion::new(&chip, first, count).expect("in range");
        let store = CounterStore::<_, _, 128>::new(part(8, 2), counter.clone(), &KEY).expect("large enough");
        let (table, buffer) = (vec![BlockState::default(); 8], vec![0; 512]);
        let open = if mount {
            AnyVolume::<'_, ChaCha20Poly1305>::mount
        } else {
            AnyVolume::<ChaCha20Poly1305>::format
        };
        open(
            any_flash(part(0, 8)),
            any_store(store),
            &KEY,
            OPTIONS,
            table,
            buffer,
            &mut atrest_secret::OsRandom,
        )
    };
    let mut volume = open(false).expect("format");
    let sizes = volume.geometry();
    volume.erase(0, sizes.erase_size().into()).expect("erase");
    volume.prog(0, &vec![9; sizes.prog_size() as usize]).expect("program");
    volume.anchor().expect("anchor");
    drop(volume);
    // One to claim, one for the record of formatting, one for the anchor.
    assert_eq!(counter.now(), 7 + 3);
    let mut volume = open(true).expect("mount");
    assert_eq!(counter.now(), 10 + 2, "one to claim, one for what recovery anchors");
    volume.close().expect("close");
    drop(volume);
    let mut volume = open(true).expect("mount");
    assert_eq!(counter.now(), 13 + 2, "two to claim what nobody replaces");
    let mut found = vec![0; sizes.prog_size() as usize];
    volume.read(0, &mut found).expect("read");
    assert!(found.iter().all(|byte| *byte == 9));
}
