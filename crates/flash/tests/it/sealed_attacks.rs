//! A million attacks on sealed volumes without a file system: whatever is put back, moved or changed, a unit reads as it was stored
//! last, or as tampered with, or the volume does not open.

use std::collections::BTreeMap;

use crate::sealed::{BLOCKS, Bench, OPTIONS, Units, Volume};
use atrest_cipher::aead::AsconAead128;
use atrest_device::{FlashCause, FlashDevice, TrustedStoreError};
use atrest_flash::sealed::{SealedOptions, Tickets};
use atrest_testkit::flash::{Adversary, EmulatedFlash, FlashRecording, SharedFlash, TrustedMemory};
use atrest_testkit::{Campaign, Random};

const UNITS: u64 = 10;

type Answer = Result<Vec<u8>, FlashCause>;

/// A volume in use and anchored, what each of its units reads as, and who watched it.
struct Case {
    bench: Bench,
    adversary: Adversary,
    answers: BTreeMap<(u64, u64), Answer>,
}

fn used(seed: u64, tickets: Tickets, closed: bool) -> Case {
    let mut random = Random::new(seed);
    let bench = Bench::new(SealedOptions { tickets, ..OPTIONS });
    bench.medium.lock().record();
    let mut volume: Volume<AsconAead128> = bench.format().expect("format");
    let mut fills = [UNITS; BLOCKS as usize];
    let mut copies = Vec::new();
    for step in 0..200 {
        if step % 25 == 24 {
            // Closed in good order, or not, and opened again; what was refused may come in the next session.
            refuse(&bench, 0);
            bench.store.fail(None);
            match random.below(3) {
                0 => volume.anchor().expect("anchor"),
                _ => volume.close().expect("close"),
            }
            drop(volume);
            if step % 75 == 74 {
                copies.push(use_copy(&bench, step as u8));
            }
            volume = bench.mount().expect("mount");
            for (block, fill) in (0..).zip(&mut fills) {
                *fill = free(&mut volume, block);
            }
        }
        refuse(&bench, if step % 3 == 0 { random.draw() } else { 0 });
        let failing = random.below(20) == 0;
        bench.store.fail(failing.then_some(TrustedStoreError::Driver(1)));
        let block = random.below(BLOCKS);
        let fill = &mut fills[block as usize];
        let more = 1 + random.below(4);
        if *fill + more > UNITS || random.below(10) == 0 {
            *fill = if volume.clear(block).is_ok() { 0 } else { UNITS };
        }
        for _ in 0..more.min(UNITS - *fill) {
            *fill = if volume.put(block, *fill, step as u8).is_ok() { *fill + 1 } else { UNITS };
            if *fill == UNITS {
                break;
            }
        }
        if random.below(4) == 0 {
            let _ = volume.sync();
        }
    }
    refuse(&bench, 0);
    bench.store.fail(None);
    if closed {
        volume.close().expect("close")
    } else {
        volume.anchor().expect("anchor")
    }
    drop(volume);
    let recording = bench.medium.lock().finish_recording();
    let withheld = std::mem::take(&mut bench.medium.lock().refusals().withheld);
    assert!(withheld.len() > 5, "programs were refused");
    let adversary = Adversary::new(&recording).with_withheld(withheld);
    let adversary = copies.iter().fold(adversary, Adversary::with_copy);
    let mut case = Case { adversary, bench, answers: BTreeMap::new() };
    let copy = case.copy();
    let mut volume: Volume<AsconAead128> = copy.mount().expect("mount");
    case.answers = read(&mut volume);
    assert!(case.answers.values().filter(|answer| answer.is_ok()).count() > 50, "it is in use");
    case
}

/// Somebody goes on with a copy of medium and store, under the same serials.
fn use_copy(bench: &Bench, data: u8) -> FlashRecording {
    let copy = bench.snapshot();
    copy.medium.lock().record();
    let mut volume: Volume<AsconAead128> = copy.mount().expect("mount");
    for block in 0..BLOCKS {
        volume.clear(block).expect("erase");
        (0..=block % UNITS).for_each(|unit| volume.put(block, unit, !data).expect("program"));
    }
    drop(volume);
    copy.medium.lock().finish_recording()
}

/// The first unit of a block that can be programmed.
fn free(volume: &mut Volume<AsconAead128>, block: u64) -> u64 {
    let is_free = |unit: &u64| {
        let (address, len) = volume.at(block, *unit);
        volume.is_blank(address, len as u64, &mut []) == Ok(true)
    };
    (0..UNITS).find(is_free).unwrap_or(UNITS)
}

/// From now on one operation of six is refused, or none.
fn refuse(bench: &Bench, seed: u64) {
    let mut medium = bench.medium.lock();
    medium.refusals().at_random = (seed != 0).then(|| (Random::new(seed), 6));
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

fn read(volume: &mut Volume<AsconAead128>) -> BTreeMap<(u64, u64), Answer> {
    let all = (0..BLOCKS).flat_map(|block| (0..UNITS).map(move |unit| (block, unit)));
    all.map(|(block, unit)| ((block, unit), volume.unit(block, unit))).collect()
}

#[test]
fn no_attack_goes_undetected() {
    let cases: Vec<Case> = (0..12)
        .map(|seed| used(seed, if seed % 2 == 0 { Tickets::Slot } else { Tickets::Store }, seed % 3 == 0))
        .collect();
    let [mut nothing, mut refused, mut tampered, mut harmless] = [0_u64; 4];
    Campaign::new("sealed attacks", 2_000, 1_000_000).run(|_, random: &mut Random| {
        let case = random.pick(&cases);
        let (bench, live) = (case.copy(), random.below(3) == 0);
        let mut open = live.then(|| bench.mount::<AsconAead128>().expect("mount"));
        let attack = case.adversary.draw(random);
        if !case.adversary.attack(bench.medium.lock().image_mut(), attack) {
            nothing += 1;
        }
        if open.is_none() {
            match bench.mount() {
                Ok(volume) => open = Some(volume),
                Err(_) => refused += 1,
            }
        }
        let Some(mut volume) = open else { return };
        let mut found = 0;
        for ((block, unit), answer) in read(&mut volume) {
            let expected = &case.answers[&(block, unit)];
            match answer {
                Err(FlashCause::Tampered { block: b, unit: u }) => {
                    assert_eq!((b, u64::from(u)), (block, unit));
                    assert!(expected.is_ok(), "{attack}: {block}.{unit}");
                    found += 1;
                }
                // Behind the last unit of a block it may be that nothing more is taken.
                Ok(bytes) if bytes.iter().all(|byte| *byte == 0) => {
                    let blank = |bytes: &Vec<u8>| bytes.iter().all(|byte| [0, 0xff].contains(byte));
                    assert!(expected.as_ref().is_ok_and(blank), "{attack}: {block}.{unit}");
                }
                other => assert_eq!(&other, expected, "undetected: {attack}, live: {live}: {block}.{unit}"),
            }
        }
        *(if found > 0 { &mut tampered } else { &mut harmless }) += 1;
    });
    println!(
        "{refused} refused, {tampered} with units reported, {harmless} read as before; {nothing} attacks changed nothing"
    );
}
