//! A million attacks on sealed volumes without a file system: whatever is put back, moved or changed, a unit reads as it was stored
//! last, or as tampered with, or the volume does not open.

mod sealed;

use std::collections::BTreeMap;

use atrest_cipher::aead::AsconAead128;
use atrest_device::{FlashCause, FlashDevice};
use atrest_flash::sealed::{SealedOptions, Tickets};
use atrest_testkit::flash::{Adversary, EmulatedFlash, SharedFlash, TrustedMemory};
use atrest_testkit::{Campaign, Random};
use sealed::{BLOCKS, Bench, OPTIONS, Units, Volume};

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
    for step in 0..150 {
        let block = random.below(BLOCKS);
        let fill = &mut fills[block as usize];
        if *fill == UNITS || random.below(10) == 0 {
            volume.clear(block).expect("erase");
            *fill = 0;
        }
        for _ in 0..=random.below(4).min(UNITS - 1 - *fill) {
            volume.put(block, *fill, step as u8).expect("program");
            *fill += 1;
        }
        if random.below(4) == 0 {
            volume.sync().expect("sync");
        }
    }
    if closed {
        volume.close().expect("close")
    } else {
        volume.anchor().expect("anchor")
    }
    drop(volume);
    let recording = bench.medium.lock().finish_recording();
    let mut case = Case { adversary: Adversary::new(&recording), bench, answers: BTreeMap::new() };
    let copy = case.copy();
    let mut volume: Volume<AsconAead128> = copy.mount().expect("mount");
    case.answers = read(&mut volume);
    assert!(case.answers.values().filter(|answer| answer.is_ok()).count() > 50, "it is in use");
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
    Campaign::new("sealed attacks", 4_000, 1_000_000).run(|_, random: &mut Random| {
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
