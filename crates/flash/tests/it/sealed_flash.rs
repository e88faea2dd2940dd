//! A sealed volume in use: what is stored comes back, what is not as it was stored never does, and each way in which the
//! parts can fail to belong together has its own error.

use crate::any::{any_flash, any_store};
use crate::sealed::{BLOCKS, Bench, ERASE, FIRST, KEY, OPTIONS, Reader, STRIDE, Units, Volume};
use atrest_cipher::aead::{
    Aead, Aes128Ccm, Aes128CcmTag96, Aes128Gcm, Aes128GcmTag96, Aes256Ccm, Aes256CcmTag96, Aes256Gcm,
    Aes256GcmTag96, AsconAead128, ChaCha20Poly1305,
};
use atrest_device::{FlashCause, FlashDevice, TrustedStoreError};
use atrest_flash::sealed::{SealedError, SealedKey, SealedMedium, SealedOptions, Tickets, Verdict, Verify};
use atrest_secret::OsRandom;

/// Some blocks with something in them, synced.
fn used<A: Aead>(bench: &Bench) -> Volume<A> {
    let mut volume = bench.format::<A>().expect("format");
    for block in [3, 5, 0] {
        volume.clear(block).expect("erase");
        for unit in 0..=block {
            volume.put(block, unit, (16 * block + unit) as u8).expect("program");
        }
    }
    volume.sync().expect("sync");
    volume
}

fn holds(volume: &mut impl FlashDevice) {
    for block in [3, 5, 0] {
        for unit in 0..=block {
            let bytes = volume.unit(block, unit).expect("read");
            assert!(bytes.iter().all(|byte| u64::from(*byte) == 16 * block + unit), "{block}.{unit}");
        }
    }
}

fn works<A: Aead>() {
    for tickets in [Tickets::Slot, Tickets::Store] {
        let bench = Bench::new(SealedOptions { tickets, ..OPTIONS });
        let mut volume = used::<A>(&bench);
        holds(&mut volume);
        assert_eq!(volume.unit(3, 4).expect("blank").first(), Some(&0xff));
        assert_eq!(volume.unit(1, 0), Err(FlashCause::Void { block: 1 }));
        drop(volume);
        // Power was lost: what was begun is closed.
        let mut volume = bench.mount::<A>().expect("mount");
        holds(&mut volume);
        assert_eq!(volume.unit(3, 4).expect("closed").first(), Some(&0));
        assert_eq!(volume.put(3, 4, 1), Err(FlashCause::Closed { block: 3 }));
        volume.clear(8).expect("erase");
        volume.put(8, 0, 8).expect("program");
        volume.clear(3).expect("erase with a ticket");
        for unit in 0..=3 {
            volume.put(3, unit, 48 + unit as u8).expect("program");
        }
        volume.close().expect("close");
        drop(volume);
        // In good order: blocks that were begun before are closed all the same.
        let mut volume = bench.mount::<A>().expect("mount");
        holds(&mut volume);
        assert_eq!(volume.put(3, 4, 52), Err(FlashCause::Closed { block: 3 }));
        volume.clear(9).expect("erase");
        (0..4).for_each(|unit| volume.put(9, unit, 9).expect("program"));
        volume.put(9, 4, 52).expect("append");
        assert_eq!(volume.put(9, 4, 52).map_err(|_| ()), Err(()), "once");
        assert_eq!(volume.put(9, 7, 52), Err(FlashCause::OutOfOrder { next: 5 }));
        volume.put(9, 6, 54).expect("one may be left out");
        assert_eq!(volume.unit(9, 5).expect("read").first(), Some(&0xff));
        assert_eq!(volume.unit(9, 6).expect("read").first(), Some(&54));
        assert_eq!(volume.unit(9, 4).expect("read").first(), Some(&52));
        holds(&mut bench.without_freshness::<A>().expect("open"));
    }
}

#[test]
fn what_is_stored_comes_back_with_every_cipher() {
    works::<AsconAead128>();
    works::<ChaCha20Poly1305>();
    works::<Aes128Gcm>();
    works::<Aes256Gcm>();
    works::<Aes128GcmTag96>();
    works::<Aes256GcmTag96>();
    works::<Aes128Ccm>();
    works::<Aes256Ccm>();
    works::<Aes128CcmTag96>();
    works::<Aes256CcmTag96>();
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// By a program of its own, in Python with the standard library's SHA-256 and HMAC: `vectors/sealed-flash.py`.
#[test]
fn units_tickets_and_records_are_those_of_an_independent_implementation() {
    let bench = Bench::new(OPTIONS);
    let stored = || hex(&bench.store.record().expect("a record"));
    let raw = |block: usize, from: usize, len: usize| {
        let image = bench.medium.lock().image().to_bytes();
        hex(&image[block * ERASE + from..][..len])
    };
    let zeros = |count: usize| "00".repeat(count);
    // Mark, version, state, anchor, salt.
    let head = |state: &str, anchor: u8| format!("956902{state}{anchor:02x}00000000c0c1c2c3c4c5c6");
    let (table, buffer) = (vec![Default::default(); 12], vec![0; FIRST]);
    let (medium, store) = (any_flash(bench.medium.clone()), any_store(bench.store.clone()));
    let mut volume =
        Volume::<ChaCha20Poly1305>::format(medium, store, &KEY, OPTIONS, table, buffer, &mut Drawn)
            .expect("format");
    assert_eq!(stored(), format!("{}{}9bdacfb72422511285ba23f1f36c6e78", head("60", 1), zeros(48)));
    volume.clear(3).expect("erase");
    volume.put(3, 0, 0xa0).expect("program");
    volume.put(3, 1, 0xa1).expect("program");
    volume.clear(5).expect("erase");
    volume.put(5, 0, 0xa0).expect("program");
    volume.sync().expect("sync");
    let first = "5d063fefbb476efd1fbfce9255bba954c367b74a8823111b22c71445d0f9afb952b7b16f0ed489e2c41206c832b09ba6b60c5507\
                 2959cad149eb27975ef99b536cf95a83a504be0b010000000047b8a4f330ad611d0ec7736a579d6711";
    assert_eq!(raw(3, 0, 128), format!("{first}{}c0c1c2c3c4c5c6c0c1c2c3c4c5c6", zeros(21)));
    let second = "4abc391cfa8505f65022522f78c107f0976223acc1af4f96537aaebc57e60e1c0a247a9e5af61bcdc049f320f1c3b881932a7456\
                  1fa0e7b9ad027d935eaa19b48308fcb78d27fc210200000000aa65a4372a244069ba3a076e0fe9cf43";
    assert_eq!(raw(3, 128, 96), format!("{second}{}", zeros(3)));
    assert_eq!(stored(), format!("{}{}3682ce2fd736fa5e3e972adabf14b4fc", head("60", 4), zeros(48)));
    volume.clear(3).expect("erase");
    let ticket = "45bd752bab28eeffbc0f3db78eebe3aadba40400000000fa4c970dc507ac92e3b797decbca445f";
    assert_eq!(raw(5, 992, 64), format!("{ticket}{}", zeros(25)));
    volume.close().expect("close");
    assert_eq!(stored(), format!("{}{}f948a8a1ebb0c6d33915c64a76fe57b5", head("61", 5), zeros(48)));
}

/// The salt of the vectors.
struct Drawn;

impl atrest_secret::Random for Drawn {
    fn fill(&mut self, out: &mut [u8]) -> Result<(), atrest_secret::RandomError> {
        (0xc0..).zip(out).for_each(|(byte, to)| *to = byte);
        Ok(())
    }
}

#[test]
fn a_unit_that_was_changed_is_reported_and_ends_all_writing() {
    let bench = Bench::new(SealedOptions { verify: Verify::AtOpening, ..OPTIONS });
    let mut volume = used::<AsconAead128>(&bench);
    bench.medium.lock().image_mut().flip(5, FIRST + STRIDE + 7, 3);
    assert_eq!(volume.unit(5, 2), Err(FlashCause::Tampered { block: 5, unit: 2 }));
    assert_eq!(volume.unit(5, 1).expect("the others").first(), Some(&81));
    let writes = bench.store.count();
    assert_eq!(volume.clear(7), Err(FlashCause::Stopped));
    assert_eq!(volume.put(5, 6, 1), Err(FlashCause::Stopped));
    assert_eq!(volume.anchor(), Err(FlashCause::Stopped));
    assert_eq!(volume.close(), Err(FlashCause::Stopped));
    assert_eq!(bench.store.count(), writes);
    drop(volume);
    // The next opening knows of it, and stops at nothing else. `sealed_damage.rs` has the rest.
    let mut volume = bench.snapshot().mount::<AsconAead128>().expect("mount");
    assert!(volume.is_damaged() && !volume.is_stopped());
    assert_eq!(volume.unit(5, 2), Err(FlashCause::Tampered { block: 5, unit: 2 }));
    assert_eq!(volume.put(5, 6, 1), Err(FlashCause::Closed { block: 5 }));
    volume.clear(7).expect("erase");
    // A unit that fails since is as bad as before.
    bench.medium.lock().image_mut().flip(5, FIRST + STRIDE + 7, 3);
    let bench = bench.snapshot();
    let mut volume = bench.mount::<AsconAead128>().expect("mount");
    assert!(!volume.is_damaged());
    bench.medium.lock().image_mut().flip(5, FIRST + STRIDE + 7, 3);
    assert_eq!(volume.unit(5, 2), Err(FlashCause::Tampered { block: 5, unit: 2 }));
    assert_eq!(volume.clear(7), Err(FlashCause::Stopped));
    drop(volume);
    // What is left can be read, and what is not says so.
    let mut reader = bench.without_freshness::<AsconAead128>().expect("open");
    assert_eq!(reader.verdict(5, 2), Ok(Verdict::Tampered));
    assert!(matches!(reader.verdict(5, 3), Ok(Verdict::Sealed { .. })));
    assert_eq!(reader.verdict(5, 6), Ok(Verdict::Absent));
    assert_eq!(reader.unit(5, 2), Err(FlashCause::Tampered { block: 5, unit: 2 }));
    assert_eq!(reader.clear(5), Err(FlashCause::ReadOnly));
    assert_eq!(reader.put(5, 6, 0), Err(FlashCause::ReadOnly));
}

#[test]
fn a_unit_that_the_opening_has_not_read_is_reported_and_stops_nothing() {
    let bench = Bench::new(OPTIONS);
    let mut volume = used::<AsconAead128>(&bench);
    volume.close().expect("close");
    drop(volume);
    bench.medium.lock().image_mut().flip(5, FIRST + STRIDE + 7, 3);
    let mut volume = bench.mount::<AsconAead128>().expect("mount");
    assert!(!volume.is_damaged(), "nobody has read it");
    for _ in 0..2 {
        assert_eq!(volume.unit(5, 2), Err(FlashCause::Tampered { block: 5, unit: 2 }));
        assert!(volume.is_damaged() && !volume.is_stopped());
    }
    assert_eq!(volume.unit(5, 1).expect("the others").first(), Some(&81));
    assert_eq!(volume.put(5, 6, 1), Err(FlashCause::Closed { block: 5 }));
    volume.clear(7).expect("erase");
    volume.put(7, 0, 9).expect("program");
    volume.anchor().expect("anchor");
    // What was programmed since stops all writing.
    bench.medium.lock().image_mut().flip(7, 7, 3);
    assert_eq!(volume.unit(7, 0), Err(FlashCause::Tampered { block: 7, unit: 0 }));
    assert!(volume.is_stopped());
    assert_eq!(volume.clear(5), Err(FlashCause::Stopped));
}

#[test]
fn parts_that_do_not_belong_together_are_told_apart() {
    let bench = Bench::new(OPTIONS);
    let mut volume = used::<AsconAead128>(&bench);
    let earlier = bench.snapshot();
    volume.clear(3).expect("erase");
    volume.put(3, 0, 1).expect("program");
    volume.close().expect("close");
    drop(volume);
    let refusal = |bench: &Bench| bench.mount::<AsconAead128>().expect_err("refused");
    let changed = |change: &dyn Fn(&mut Bench)| {
        let mut copy = bench.snapshot();
        change(&mut copy);
        let before = copy.medium.lock().image().to_bytes();
        let error = refusal(&copy);
        assert_eq!(copy.medium.lock().image().to_bytes(), before, "nothing is changed on refusal");
        error
    };
    assert!(bench.snapshot().mount::<AsconAead128>().is_ok());
    assert_eq!(changed(&|b| b.store.put(None)), SealedError::StoreEmpty);
    let damaged = TrustedStoreError::Damaged;
    assert_eq!(changed(&|b| b.store.fail(Some(damaged))), SealedError::Store(damaged));
    let rolled_back = changed(&|b| b.medium = earlier.snapshot().medium);
    assert!(matches!(rolled_back, SealedError::NotAnchored { .. }), "{rolled_back:?}");
    assert_eq!(changed(&|b| b.options.payload = 40), SealedError::OtherVolume);
    assert_eq!(changed(&|b| b.options.tickets = Tickets::Store), SealedError::OtherVolume);
    assert_eq!(bench.mount::<Aes128Gcm>().expect_err("another cipher"), SealedError::OtherVolume);
    assert_eq!(changed(&|b| b.options.reserve = 2), SealedError::Option);
    assert_eq!(changed(&|b| b.options.anchor_every = 0), SealedError::Option);
    // Reserves from 3 on are ours; 0 is that of a volume in another store's hands.
    let with_reserve = |reserve: u8| {
        move |b: &mut Bench| {
            let mut record = b.store.record().expect("a record");
            record[3] = record[3] & 7 | reserve << 3;
            b.store.put(Some(record));
        }
    };
    assert_eq!(changed(&with_reserve(1)), SealedError::LaterVersion);
    assert_eq!(changed(&with_reserve(2)), SealedError::LaterVersion);
    assert_eq!(changed(&with_reserve(0)), SealedError::HandedOver { header: 0 });
    let of_version = |version: u8| {
        move |b: &mut Bench| {
            let mut record = b.store.record().expect("a record");
            record[2] = version;
            b.store.put(Some(record));
        }
    };
    assert_eq!(changed(&of_version(1)), SealedError::EarlierVersion);
    assert_eq!(changed(&of_version(3)), SealedError::LaterVersion);
    assert_eq!(bench.format::<AsconAead128>().expect_err("in use"), SealedError::StoreInUse);
    let lost = bench.snapshot();
    lost.store.put(None);
    assert_eq!(lost.format::<AsconAead128>().expect_err("used"), SealedError::KeyInUse { block: 0 });
}

#[test]
fn a_store_that_is_older_than_the_medium_is_recognised() {
    let bench = Bench::new(SealedOptions { reserve: 3, ..OPTIONS });
    let mut volume = used::<AsconAead128>(&bench);
    let old = bench.store.record();
    volume.clear(9).expect("erase");
    (0..10).for_each(|unit| volume.put(9, unit, 1).expect("program"));
    volume.sync().expect("sync");
    drop(volume);
    bench.store.put(old);
    let error = bench.mount::<AsconAead128>().expect_err("refused");
    assert!(matches!(error, SealedError::StoreOlder { limit, found } if found >= limit), "{error:?}");
}

#[test]
fn memory_that_does_not_suffice_is_refused_with_numbers() {
    let bench = Bench::new(OPTIONS);
    let mount = |table: usize, buffer: usize| {
        let table = vec![Default::default(); table];
        let (medium, store) = (any_flash(bench.medium.clone()), any_store(bench.store.clone()));
        Volume::<AsconAead128>::format(medium, store, &KEY, OPTIONS, table, vec![0; buffer], &mut OsRandom)
            .map(|_| ())
    };
    assert_eq!(mount(11, 128), Err(SealedError::TableTooSmall { needs: BLOCKS, has: 11 }));
    assert_eq!(mount(12, 127), Err(SealedError::BufferTooSmall { needs: 128, has: 127 }));
    assert_eq!(mount(13, 129), Ok(()));
}

#[test]
fn another_identifier_makes_another_volume() {
    let bench = Bench::new(OPTIONS);
    drop(used::<AsconAead128>(&bench));
    let key = SealedKey { uuid: &[9; 16], ..KEY };
    let mount = |store: &atrest_testkit::flash::TrustedMemory| {
        let (table, buffer) = (vec![Default::default(); 12], vec![0; FIRST]);
        Volume::<AsconAead128>::mount(
            any_flash(bench.medium.clone()),
            any_store(store.clone()),
            &key,
            OPTIONS,
            table,
            buffer,
            &mut OsRandom,
        )
    };
    assert_eq!(mount(&bench.store).expect_err("refused"), SealedError::OtherVolume);
}

/// The device and all memory are the caller's again, whether the volume was refused at once or after a look at the medium.
#[test]
fn what_was_passed_for_a_volume_that_does_not_open_comes_back() {
    let bench = Bench::new(OPTIONS);
    drop(used::<AsconAead128>(&bench));
    let other = SealedKey { uuid: &[9; 16], ..KEY };
    let open = |key, medium, store, table, buffer| {
        Volume::<AsconAead128>::try_mount(medium, store, key, OPTIONS, table, buffer, &mut OsRandom)
    };
    let (medium, store) = (any_flash(bench.medium.clone()), any_store(bench.store.clone()));
    let small =
        open(&KEY, medium, store, vec![Default::default(); 11], vec![0; FIRST]).expect_err("a small table");
    assert_eq!(small.error, SealedError::TableTooSmall { needs: BLOCKS, has: 11 });
    assert_eq!((small.table.len(), small.buffer.len()), (11, FIRST));
    let table = vec![Default::default(); 12];
    let refused = open(&other, small.device, small.store, table, small.buffer).expect_err("another volume");
    assert_eq!(refused.error, SealedError::OtherVolume);
    assert_eq!(
        SealedError::from(
            open(&other, refused.device, refused.store, refused.table, refused.buffer).expect_err("again")
        ),
        SealedError::OtherVolume
    );
    let (medium, store) = (any_flash(bench.medium.clone()), any_store(bench.store.clone()));
    let refused = open(&other, medium, store, vec![Default::default(); 12], vec![0; FIRST])
        .expect_err("another volume");
    assert!(open(&KEY, refused.device, refused.store, refused.table, refused.buffer).is_ok());
}

#[test]
fn what_was_passed_for_a_volume_that_can_not_be_made_comes_back() {
    let bench = Bench::new(OPTIONS);
    drop(used::<AsconAead128>(&bench));
    let other = SealedKey { uuid: &[9; 16], ..KEY };
    let make = |key, medium, store, table, buffer| {
        Volume::<AsconAead128>::try_format(medium, store, key, OPTIONS, table, buffer, &mut OsRandom)
    };
    let (medium, store) = (any_flash(bench.medium.clone()), any_store(bench.store.clone()));
    let refused =
        make(&KEY, medium, store, vec![Default::default(); 11], vec![0; 1]).expect_err("it is used");
    assert_eq!(refused.error, SealedError::StoreInUse);
    bench.store.fail(Some(TrustedStoreError::Driver(3)));
    let refused = make(&KEY, refused.device, refused.store, refused.table, refused.buffer);
    let refused = refused.expect_err("the store fails");
    assert_eq!(refused.error, SealedError::Store(TrustedStoreError::Driver(3)));
    bench.store.fail(None);
    bench.store.put(None);
    let refused = make(&KEY, refused.device, refused.store, refused.table, vec![0; FIRST]);
    let refused = refused.expect_err("a small table");
    assert_eq!(refused.error, SealedError::TableTooSmall { needs: BLOCKS, has: 11 });
    let refused = make(&KEY, refused.device, refused.store, vec![Default::default(); 12], refused.buffer);
    let refused = refused.expect_err("units of this key are there");
    assert!(matches!(refused.error, SealedError::KeyInUse { .. }), "{}", refused.error);
    assert!(make(&other, refused.device, refused.store, refused.table, refused.buffer).is_ok());
}

#[test]
fn nothing_is_written_to_the_store_while_nothing_changes_and_syncs_can_be_batched() {
    let bench = Bench::new(SealedOptions { anchor_every: 3, ..OPTIONS });
    let mut volume = bench.format::<AsconAead128>().expect("format");
    let count = |what: &str, expected: u64| assert_eq!(bench.store.count(), expected, "{what}");
    count("format", 1);
    (0..9).for_each(|_| volume.sync().expect("sync"));
    count("nothing has changed", 1);
    volume.clear(0).expect("erase");
    volume.sync().expect("sync");
    count("the syncs before counted", 2);
    for unit in 0..6 {
        volume.put(0, unit, 1).expect("program");
        volume.sync().expect("sync");
    }
    count("every third", 4);
    volume.put(0, 6, 1).expect("program");
    volume.anchor().expect("anchor");
    volume.anchor().expect("anchor");
    count("when asked", 5);
    volume.close().expect("close");
    volume.close().expect("close");
    count("closed once", 6);
    volume.put(0, 7, 1).expect("program");
    count("marked as in use before the first change", 7);
    let cached = Bench::new(SealedOptions { anchor_every: 3, medium: SealedMedium::Cached, ..OPTIONS });
    let mut volume = cached.format::<AsconAead128>().expect("format");
    volume.clear(0).expect("erase");
    volume.sync().expect("sync");
    assert_eq!(cached.store.count(), 2, "a medium with a cache is anchored by every sync");
}

#[test]
fn whether_gaps_are_accepted_is_up_to_the_medium_on_which_they_came_about() {
    let media = [SealedMedium::Ordered, SealedMedium::Cached];
    for (wrote, opens) in media.iter().flat_map(|wrote| media.map(|opens| (*wrote, opens))) {
        let bench = Bench::new(SealedOptions { medium: wrote, ..OPTIONS });
        let mut volume = bench.format::<AsconAead128>().expect("format");
        volume.clear(3).expect("erase");
        volume.clear(5).expect("erase");
        volume.anchor().expect("anchor");
        volume.put(3, 0, 1).expect("program");
        volume.put(5, 0, 2).expect("program");
        drop(volume);
        // The first of the two programs is lost, the second is not.
        bench.medium.lock().erase(3 * ERASE as u64, ERASE as u64).expect("erase");
        let bench = Bench { options: SealedOptions { medium: opens, ..OPTIONS }, ..bench };
        match bench.mount::<AsconAead128>() {
            Ok(mut volume) if wrote == SealedMedium::Cached => {
                assert_eq!(volume.unit(5, 0), Ok(vec![2; 72]), "{opens:?}")
            }
            Err(SealedError::Gap { anchor: 1, newest: 2, found: 1 }) if wrote == SealedMedium::Ordered => {}
            outcome => panic!("{wrote:?}, opened as {opens:?}: {:?}", outcome.map(drop)),
        }
    }
}

/// Whether a record that could not be stored is the one that counts nobody knows. If it says that the volume was closed, numbers for sealing
/// would be used again at the next opening.
#[test]
fn after_a_close_that_failed_nothing_is_changed_before_the_store_is_written() {
    let bench = Bench::new(OPTIONS);
    let mut volume = used::<ChaCha20Poly1305>(&bench);
    bench.store.fail_late(TrustedStoreError::Driver(3));
    assert_eq!(volume.close(), Err(FlashCause::TrustedStore(TrustedStoreError::Driver(3))));
    let closed = |bench: &Bench| bench.store.record().expect("a record")[3] & 1 == 1;
    assert!(closed(&bench));
    assert_eq!(volume.put(3, 4, 1), Err(FlashCause::TrustedStore(TrustedStoreError::Driver(3))));
    bench.store.fail(None);
    volume.put(3, 4, 1).expect("program");
    assert!(!closed(&bench), "written before the unit was");
}

#[test]
fn a_key_that_was_never_filled_in_opens_and_formats_nothing() {
    let bench = Bench::new(OPTIONS);
    drop(used::<AsconAead128>(&bench));
    let (medium, record) = (bench.medium.lock().image().clone(), bench.store.record());
    let keys = [
        SealedKey { volume_key: &[], uuid: &[0; 16], header: None },
        SealedKey { volume_key: &[], ..KEY },
        SealedKey { volume_key: &[0], ..KEY },
        SealedKey { volume_key: &[0; 32], ..KEY },
        SealedKey { uuid: &[0; 16], ..KEY },
    ];
    for key in keys {
        let memory = || (vec![Default::default(); 12], vec![0; FIRST]);
        let fresh = Bench::new(OPTIONS);
        let (table, buffer) = memory();
        let made = Volume::<AsconAead128>::format(
            any_flash(fresh.medium.clone()),
            any_store(fresh.store.clone()),
            &key,
            OPTIONS,
            table,
            buffer,
            &mut OsRandom,
        );
        assert_eq!(made.map(|_| ()), Err(SealedError::NoKey));
        assert_eq!(fresh.store.record(), None);
        let opens = [Volume::<AsconAead128>::format_over, Volume::<AsconAead128>::mount];
        for open in opens {
            let (table, buffer) = memory();
            let (medium, store) = (any_flash(bench.medium.clone()), any_store(bench.store.clone()));
            let opened = open(medium, store, &key, OPTIONS, table, buffer, &mut OsRandom);
            assert_eq!(opened.map(|_| ()), Err(SealedError::NoKey));
        }
        let (table, buffer) = memory();
        let read = Reader::<AsconAead128>::open_without_freshness(
            any_flash(bench.medium.clone()),
            &key,
            OPTIONS,
            table,
            buffer,
        );
        assert_eq!(read.map(|_| ()), Err(SealedError::NoKey));
    }
    assert!(*bench.medium.lock().image() == medium, "the medium was changed");
    assert_eq!(bench.store.record(), record);
    // One byte suffices: keys and identifiers may begin or end with zeros.
    let mut last = [0; 32];
    last[31] = 1;
    let key = SealedKey {
        volume_key: &last,
        uuid: &[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        header: None,
    };
    let (table, buffer) = (vec![Default::default(); 12], vec![0; FIRST]);
    let other = Volume::<AsconAead128>::mount(
        any_flash(bench.medium.clone()),
        any_store(bench.store.clone()),
        &key,
        OPTIONS,
        table,
        buffer,
        &mut OsRandom,
    );
    assert_eq!(other.map(|_| ()), Err(SealedError::OtherVolume));
}
