//! Damage costs what was damaged: a sealed volume opens, shows everything else as it was stored, names the unit, and can be written.

use crate::any::{any_flash, any_store};
use crate::sealed;
use std::collections::BTreeSet;

use crate::sealed::{BLOCKS, Bench, ERASE, FIRST, OPTIONS, STRIDE, Units, Volume};
use atrest_cipher::aead::{Aead, Aes128CcmTag96, AsconAead128, ChaCha20Poly1305};
use atrest_device::{FlashCause, FlashDevice};
use atrest_flash::sealed::{SealedError, SealedLayout, SealedMedium, SealedOptions, Tickets, UnitState};
use atrest_secret::OsRandom;
use atrest_testkit::flash::{EmulatedFlash, SharedFlash, TrustedMemory};
use atrest_testkit::{Campaign, Random};

const UNITS: u64 = 10;

fn all() -> impl Iterator<Item = (u64, u64)> {
    (0..BLOCKS).flat_map(|block| (0..UNITS).map(move |unit| (block, unit)))
}

type Answer = Result<Vec<u8>, FlashCause>;

fn read<A: Aead>(volume: &mut Volume<A>) -> Vec<((u64, u64), Answer)> {
    all().map(|(block, unit)| ((block, unit), volume.unit(block, unit))).collect()
}

/// Six blocks of which the first holds one unit, the next two, …; closed.
fn stairs<A: Aead>(options: SealedOptions) -> Bench {
    let bench = Bench::new(options);
    let mut volume = bench.format::<A>().expect("format");
    for block in 0..6 {
        volume.clear(block).expect("erase");
        (0..=block).for_each(|unit| volume.put(block, unit, (16 * block + unit) as u8 + 1).expect("program"));
    }
    volume.close().expect("close");
    bench
}

/// A byte of a unit, in its block.
fn byte_of(unit: u64, byte: u64) -> u64 {
    let salt = if unit == 0 { 0 } else { FIRST - STRIDE };
    unit * STRIDE as u64 + salt as u64 + byte
}

/// The unit that a byte of a block belongs to.
fn unit_of(byte: u64) -> u64 {
    let salt = (FIRST - STRIDE) as u64;
    byte.saturating_sub(salt) / STRIDE as u64
}

fn flip(bench: &Bench, block: u64, byte: u64, bit: u8) {
    bench.medium.lock().image_mut().flip(block as usize, byte as usize, bit);
}

/// Opens, compares all but the units named, which are tampered with, uses the volume, closes it, and does so again.
fn costs_only<A: Aead>(bench: &Bench, whole: &[((u64, u64), Answer)], lost: &[(u64, u64)], what: &str) {
    let tampered = |(block, unit): (u64, u64)| Err(FlashCause::Tampered { block, unit: unit as u32 });
    for round in 0..2 {
        let mut volume =
            bench.mount::<A>().unwrap_or_else(|error| panic!("{what}, round {round}: {error:?}"));
        for ((place, expected), (_, found)) in whole.iter().zip(read(&mut volume)) {
            let block_is_damaged = lost.iter().any(|(block, _)| *block == place.0);
            match expected {
                _ if lost.contains(place) => assert_eq!(found, tampered(*place), "{what}: {place:?}"),
                // A damaged block takes no more.
                Ok(bytes) if block_is_damaged && bytes.iter().all(|byte| *byte == 0xff) => {
                    assert_eq!(found, Ok(vec![0; bytes.len()]), "{what}: {place:?}");
                }
                // Written in the round before, below.
                _ if place.0 == 11 => {}
                expected => assert_eq!(&found, expected, "{what}: {place:?}"),
            }
        }
        assert!(!volume.is_stopped(), "{what}: known damage stops nothing");
        volume.clear(11).expect("erase");
        volume.put(11, 0, 0x77).expect("program");
        volume.anchor().expect("anchor");
        for (block, _) in lost {
            let full = FlashCause::Closed { block: *block };
            let is_closed = |answer: Answer| answer.is_ok_and(|bytes| bytes.iter().all(|byte| *byte == 0));
            let next = (0..UNITS).find(|unit| is_closed(volume.unit(*block, *unit)));
            if let Some(next) = next {
                assert_eq!(volume.put(*block, next, 1), Err(full), "{what}: a damaged block takes no more");
            }
        }
        if round == 0 { volume.close().expect("close") } else { volume.anchor().expect("anchor") }
    }
    // A block with damage can be used again.
    let mut volume = bench.mount::<A>().expect("mount");
    for block in lost.iter().map(|(block, _)| *block).collect::<BTreeSet<_>>() {
        volume.clear(block).expect("erase");
        volume.put(block, 0, 0x99).expect("program");
        assert!(volume.unit(block, 0).is_ok_and(|bytes| bytes.iter().all(|byte| *byte == 0x99)), "{what}");
    }
    volume.close().expect("close");
    drop(volume);
    let mut volume = bench.mount::<A>().expect("mount");
    assert!(read(&mut volume).iter().all(|(_, found)| !matches!(found, Err(FlashCause::Tampered { .. }))));
}

fn one_bit<A: Aead>(options: SealedOptions) {
    let bench = stairs::<A>(options);
    let whole = read(&mut bench.snapshot().mount::<A>().expect("mount"));
    let serial = whole.iter().find_map(|(_, answer)| answer.as_ref().ok()).expect("a unit").len() as u64;
    let behind_tag = serial + 5 + A::TAG_LEN as u64;
    for (block, unit) in (0..6).flat_map(|block| (0..=block).map(move |unit| (block, unit))) {
        // Payload, serial, tag.
        for byte in [0, 9, serial - 1, serial, serial + 2, serial + 4, serial + 5, behind_tag - 1] {
            let bench = bench.snapshot();
            flip(&bench, block, byte_of(unit, byte), (byte % 8) as u8);
            let what = format!("{}, bit in byte {byte} of unit {unit} of block {block}", A::NAME);
            costs_only::<A>(&bench, &whole, &[(block, unit)], &what);
        }
        if behind_tag < STRIDE as u64 {
            let bench = bench.snapshot();
            flip(&bench, block, byte_of(unit, behind_tag), 1);
            costs_only::<A>(&bench, &whole, &[], "filling");
        }
    }
}

/// The salt stands twice behind the first unit. A wrong bit, or a whole copy that is wrong, costs nothing, and `unit_state` finds it.
#[test]
fn a_salt_that_is_wrong_in_one_place_costs_nothing() {
    const SALT: u64 = 7;
    let bench = stairs::<ChaCha20Poly1305>(OPTIONS);
    let whole = read(&mut bench.snapshot().mount::<ChaCha20Poly1305>().expect("mount"));
    for (block, copy) in (0..6).flat_map(|block| [0, 1].map(|copy| (block, copy))) {
        let first = FIRST as u64 - (2 - copy) * SALT;
        for byte in 0..SALT {
            let bench = bench.snapshot();
            let bit = (byte + block) % 8;
            flip(&bench, block, first + byte, bit as u8);
            costs_only::<ChaCha20Poly1305>(&bench.snapshot(), &whole, &[], "one bit of a salt");
            let mut volume = bench.mount::<ChaCha20Poly1305>().expect("mount");
            assert!(!volume.is_damaged());
            let wrong = UnitState::OneBit { bit: ((first + byte) * 8 + bit) as u32 };
            assert_eq!(volume.unit_state(block as u32, 0), Ok(wrong));
        }
        let bench = bench.snapshot();
        (0..SALT).for_each(|byte| flip(&bench, block, first + byte, 5));
        costs_only::<ChaCha20Poly1305>(&bench, &whole, &[], "a whole copy of a salt");
    }
    // With both copies gone nothing says what the block holds.
    let bench = bench.snapshot();
    [SALT, 2 * SALT].iter().for_each(|back| flip(&bench, 4, FIRST as u64 - back, 5));
    assert!(matches!(bench.mount::<ChaCha20Poly1305>(), Err(SealedError::NotAnchored { .. })));
}

#[test]
fn one_bit_costs_its_unit_and_nothing_else() {
    one_bit::<ChaCha20Poly1305>(OPTIONS);
    one_bit::<AsconAead128>(SealedOptions { tickets: Tickets::Store, ..OPTIONS });
    one_bit::<Aes128CcmTag96>(SealedOptions { medium: SealedMedium::Cached, ..OPTIONS });
}

/// More than a bit, where the place is known from what stands beside it, or from the record.
#[test]
fn a_lost_unit_costs_itself_wherever_it_lies() {
    let bench = stairs::<ChaCha20Poly1305>(OPTIONS);
    let whole = read(&mut bench.snapshot().mount::<ChaCha20Poly1305>().expect("mount"));
    let scramble = |bench: &Bench, block: u64, unit: u64| {
        for byte in 0..93 {
            flip(bench, block, byte_of(unit, byte), (byte % 7) as u8);
        }
    };
    for (block, unit) in (1..6).flat_map(|block| (0..=block).map(move |unit| (block, unit))) {
        let bench = bench.snapshot();
        scramble(&bench, block, unit);
        costs_only::<ChaCha20Poly1305>(
            &bench,
            &whole,
            &[(block, unit)],
            &format!("unit {unit} of block {block}"),
        );
    }
    // Several: any number between others, and one block whose last units are lost.
    let several = bench.snapshot();
    let lost = [(2, 1), (3, 0), (4, 2), (4, 3), (5, 1), (5, 4), (5, 5)];
    lost.iter().for_each(|(block, unit)| scramble(&several, *block, *unit));
    let alone = bench.snapshot();
    scramble(&alone, 5, 4);
    scramble(&alone, 5, 5);
    costs_only::<ChaCha20Poly1305>(&alone, &whole, &[(5, 4), (5, 5)], "two last units");
    let lost = [(2, 1), (4, 2), (4, 3), (5, 1), (5, 3), (5, 5)];
    let inner = bench.snapshot();
    lost.iter().for_each(|(block, unit)| scramble(&inner, *block, *unit));
    costs_only::<ChaCha20Poly1305>(&inner, &whole, &lost, "several");
    // Single bits can be in any number of last and first units.
    let bits = bench.snapshot();
    let lost = [(0, 0), (1, 0), (1, 1), (2, 2), (3, 0), (3, 3), (4, 4), (5, 0), (5, 5)];
    lost.iter().for_each(|(block, unit)| flip(&bits, *block, byte_of(*unit, 11), 3));
    costs_only::<ChaCha20Poly1305>(&bits, &whole, &lost, "a bit in many units");
}

/// What nothing proves is refused, as before: two blocks that each may have held more, a block that is lost as a whole, an older block.
#[test]
fn what_nothing_proves_is_refused_and_nothing_is_changed() {
    let bench = stairs::<ChaCha20Poly1305>(OPTIONS);
    let refused = |change: &dyn Fn(&Bench), what: &str| {
        let bench = bench.snapshot();
        change(&bench);
        let (before, record) = (bench.medium.lock().image().to_bytes(), bench.store.record());
        let error = bench.mount::<ChaCha20Poly1305>().expect_err(what);
        assert!(matches!(error, SealedError::NotAnchored { .. }), "{what}: {error:?}");
        assert_eq!(
            (bench.medium.lock().image().to_bytes(), bench.store.record()),
            (before, record),
            "{what}"
        );
    };
    let scramble = |bench: &Bench, block: u64, unit: u64| {
        (0..93).for_each(|byte| flip(bench, block, byte_of(unit, byte), (byte % 7) as u8));
    };
    refused(
        &|bench| [(2, 2), (3, 3)].iter().for_each(|(block, unit)| scramble(bench, *block, *unit)),
        "two ends",
    );
    refused(&|bench| (0..4).for_each(|unit| scramble(bench, 3, unit)), "a whole block");
    refused(
        &|bench| bench.medium.clone().erase(3 * ERASE as u64, ERASE as u64).expect("erase"),
        "an erased block",
    );
    let bench = Bench::new(OPTIONS);
    let mut volume = bench.format::<ChaCha20Poly1305>().expect("format");
    for block in [2, 3, 5] {
        volume.clear(block).expect("erase");
        (0..block).for_each(|unit| volume.put(block, unit, 1).expect("program"));
    }
    volume.anchor().expect("anchor");
    let older = bench.snapshot();
    volume.put(3, 3, 1).expect("program");
    volume.put(2, 2, 1).expect("program");
    volume.clear(5).expect("erase");
    volume.close().expect("close");
    drop(volume);
    let now = bench.snapshot();
    for block in [2, 3, 5] {
        let bench = now.snapshot();
        let mut bytes = vec![0; ERASE];
        older.medium.clone().read(block * ERASE as u64, &mut bytes).expect("read");
        bench.medium.clone().erase(block * ERASE as u64, ERASE as u64).expect("erase");
        for (at, unit) in (block * ERASE as u64..).step_by(32).zip(bytes.chunks(32)) {
            if unit != [0xff; 32] {
                bench.medium.clone().prog(at, unit).expect("program");
            }
        }
        match bench.mount::<ChaCha20Poly1305>() {
            // A unit less at the end of a block is a unit lost there: its reading fails, and shows nothing older.
            // What stands in a void block is not shown.
            Ok(mut volume) if block == 5 => assert_eq!(volume.unit(5, 0), Err(FlashCause::Void { block: 5 })),
            Ok(_) => panic!("an older block {block}"),
            Err(error) => assert!(matches!(error, SealedError::NotAnchored { .. }), "{error:?}"),
        }
    }
}

/// A volume in use, left in any way, and what each of its units reads as.
struct Case {
    bench: Bench,
    answers: Vec<((u64, u64), Answer)>,
    /// Units whose loss a power loss may cause as well: what was done since the record was written.
    since: BTreeSet<(u64, u64)>,
}

fn used(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let tickets = *random.pick(&[Tickets::Slot, Tickets::Store]);
    let medium = *random.pick(&[SealedMedium::Ordered, SealedMedium::Ordered, SealedMedium::Cached]);
    let anchor_every = *random.pick(&[1, 3, 20]);
    let bench = Bench::new(SealedOptions { tickets, medium, anchor_every, ..OPTIONS });
    let mut volume: Volume<AsconAead128> = bench.format().expect("format");
    let (mut fills, mut since) = ([UNITS; BLOCKS as usize], BTreeSet::new());
    let mut writes = bench.store.count();
    // Whatever writes the record does so before it changes the medium.
    let mut anchored = |since: &mut BTreeSet<(u64, u64)>| {
        if std::mem::replace(&mut writes, bench.store.count()) != bench.store.count() {
            since.clear();
        }
    };
    for step in 0..100 + random.below(60) {
        let block = random.below(BLOCKS);
        let fill = &mut fills[block as usize];
        if *fill == UNITS || random.below(10) == 0 {
            volume.clear(block).expect("erase");
            anchored(&mut since);
            *fill = 0;
        }
        for _ in 0..=random.below(4).min(UNITS - 1 - *fill) {
            volume.put(block, *fill, 1 + step as u8).expect("program");
            anchored(&mut since);
            since.insert((block, *fill));
            *fill += 1;
        }
        if random.below(6) == 0 {
            volume.sync().expect("sync");
            anchored(&mut since);
        }
    }
    match random.below(3) {
        0 => volume.close().expect("close"),
        1 => volume.anchor().expect("anchor"),
        _ => {}
    }
    anchored(&mut since);
    drop(volume);
    let mut case = Case { bench, answers: Vec::new(), since };
    case.answers = read(&mut case.copy().mount::<AsconAead128>().expect("mount"));
    case
}

impl Case {
    fn copy(&self) -> Bench {
        let image = self.bench.medium.lock().image().clone();
        Bench {
            medium: SharedFlash::new(EmulatedFlash::with_image(image)),
            store: TrustedMemory::with_record(self.bench.store.record()),
            options: self.bench.options,
        }
    }
}

/// One bit anywhere, in volumes that were closed, anchored, or lost power: always opened, and one unit at most is missing.
#[test]
fn one_bit_anywhere_costs_one_unit_at_most() {
    let cases: Vec<Case> = (0..24).map(used).collect();
    let [mut harmless, mut lost, mut taken_back] = [0_u64; 3];
    Campaign::new("sealed flash, one flipped bit", 2_000, 10_000).run(|_, random: &mut Random| {
        let case = random.pick(&cases);
        let bench = case.copy();
        let (block, byte, bit) = (random.below(BLOCKS), random.below(ERASE as u64), random.below(8) as u8);
        flip(&bench, block, byte, bit);
        let what = format!("bit {bit} of byte {byte} of block {block}");
        let mut volume = match bench.mount::<AsconAead128>() {
            Ok(volume) => volume,
            Err(error) => panic!("{what}: {error:?}, {:?}", bench.options),
        };
        let place = (block, unit_of(byte));
        let (mut missing, mut shorter) = (0, 0);
        for ((at, expected), (_, found)) in case.answers.iter().zip(read(&mut volume)) {
            let blank = |answer: &Answer| match answer {
                Ok(bytes) => bytes.iter().all(|byte| [0, 0xff].contains(byte)),
                Err(cause) => matches!(cause, FlashCause::Void { .. }),
            };
            match found {
                Err(FlashCause::Tampered { .. }) => {
                    assert_eq!(*at, place, "{what}");
                    missing += 1;
                }
                ref found if found == expected => {}
                ref found if blank(found) && blank(expected) => {}
                // The last thing done before the power loss.
                ref found if blank(found) && case.since.contains(at) => shorter += 1,
                found => panic!("{what}: {at:?}: {found:?} instead of {expected:?}"),
            }
        }
        assert!(!volume.is_stopped(), "{what}");
        volume.clear(0).expect("erase");
        volume.put(0, 0, 0xee).expect("program");
        volume.close().expect("close");
        drop(volume);
        bench.mount::<AsconAead128>().unwrap_or_else(|error| panic!("{what}, again: {error:?}"));
        assert!(shorter == 0 || missing == 0, "{what}");
        *(if missing > 0 {
            &mut lost
        } else if shorter > 0 {
            &mut taken_back
        } else {
            &mut harmless
        }) += 1;
    });
    println!(
        "{lost} cost their unit, {taken_back} what was done last before a power loss, {harmless} nothing; none refused"
    );
    assert!(lost > 500);
}

/// What `atrest repair` stands on: each unit's state, contents with a bit put right, and an anchor over what is left.
#[test]
fn units_are_told_apart_and_one_wrong_bit_is_put_right() {
    let bench = stairs::<ChaCha20Poly1305>(OPTIONS);
    let before = bench.medium.lock().image().to_bytes();
    flip(&bench, 4, byte_of(2, 30), 5);
    (0..93).for_each(|byte| flip(&bench, 5, byte_of(1, byte), (byte % 7) as u8));
    let mut volume = bench.mount::<ChaCha20Poly1305>().expect("mount");
    assert_eq!(volume.unit_state(4, 1), Ok(UnitState::Whole));
    assert_eq!(volume.unit_state(4, 2), Ok(UnitState::OneBit { bit: 30 * 8 + 5 }));
    assert_eq!(volume.unit_state(5, 1), Ok(UnitState::Failed));
    assert_eq!(
        (volume.unit_state(4, 5), volume.unit_state(9, 0)),
        (Ok(UnitState::Absent), Ok(UnitState::Absent))
    );
    let outside = FlashCause::OutOfBounds { size: volume.geometry().size() };
    assert_eq!((volume.unit_state(12, 0), volume.unit_state(0, 10)), (Err(outside), Err(outside)));
    let mut payload = [0; 72];
    assert_eq!((volume.correct(4, 2, &mut payload), payload), (Ok(true), [16 * 4 + 2 + 1; 72]));
    assert_eq!(
        (volume.correct(5, 1, &mut [0; 72]), volume.correct(12, 0, &mut [0; 72])),
        (Ok(false), Err(outside))
    );
    assert!(!volume.is_stopped());
    drop(volume);
    // The bit is the one that was flipped: where the layout says.
    let at = volume_layout(&bench).unit_address(4, 2) + 30;
    flip(&bench, at / ERASE as u64, at % ERASE as u64, 5);
    let after = bench.medium.lock().image().to_bytes();
    assert_eq!(before[..5 * ERASE], after[..5 * ERASE]);
}

fn volume_layout(bench: &Bench) -> SealedLayout {
    *bench.snapshot().mount::<ChaCha20Poly1305>().expect("mount").layout()
}

/// The owner gives up freshness, and nothing else: what verifies is there, what fails between says so, no serial comes again, and the
/// state that was given up is refused from then on.
#[test]
fn what_nobody_confirms_is_anchored_when_the_owner_says_so() {
    let bench = stairs::<ChaCha20Poly1305>(OPTIONS);
    let whole = bench.snapshot();
    let scramble = |bench: &Bench, block: u64, unit: u64| {
        (0..93).for_each(|byte| flip(bench, block, byte_of(unit, byte), (byte % 7) as u8));
    };
    [(2, 2), (3, 3), (5, 2)].iter().for_each(|(block, unit)| scramble(&bench, *block, *unit));
    assert!(matches!(bench.mount::<ChaCha20Poly1305>(), Err(SealedError::NotAnchored { .. })));
    let adopt = |bench: &Bench| {
        let (table, buffer) = (vec![Default::default(); BLOCKS as usize], vec![0; FIRST]);
        Volume::<ChaCha20Poly1305>::adopt(
            any_flash(bench.medium.clone()),
            any_store(bench.store.clone()),
            &sealed::KEY,
            OPTIONS,
            table,
            buffer,
            &mut OsRandom,
        )
    };
    let mut volume = adopt(&bench).expect("adopted");
    assert!(volume.is_damaged());
    let check = |volume: &mut Volume| {
        assert_eq!(volume.unit(2, 1).expect("it verifies")[0], 34);
        assert_eq!(volume.unit(2, 2), Ok(vec![0; 72]), "what fails at the end is not there");
        assert_eq!(volume.unit(5, 2), Err(FlashCause::Tampered { block: 5, unit: 2 }));
        assert_eq!(volume.unit(5, 5).expect("it verifies")[0], 86);
    };
    check(&mut volume);
    volume.clear(7).expect("erase");
    volume.put(7, 0, 9).expect("program");
    volume.close().expect("close");
    drop(volume);
    check(&mut bench.mount().expect("mount"));
    let put_back = Bench { store: bench.store.clone(), ..whole.snapshot() };
    assert!(put_back.mount::<ChaCha20Poly1305>().is_err(), "given up");
    // What can't be adopted: without a record, with another's, or an older one.
    let lost = bench.snapshot();
    lost.store.put(None);
    assert_eq!(adopt(&lost).expect_err("no record"), SealedError::StoreEmpty);
    let mut other = bench.store.record().expect("a record");
    other[0] ^= 1;
    lost.store.put(Some(other));
    assert_eq!(adopt(&lost).expect_err("another's"), SealedError::OtherVolume);
    lost.store.put(whole.store.record());
    assert!(matches!(adopt(&lost), Err(SealedError::StoreOlder { .. })));
}
