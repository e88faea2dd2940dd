//! A sealed volume read without its store: whatever does not verify is reported, wherever in its block it lies, and littlefs never goes on
//! with what is older. docs/SEALED-FLASH.md has what is not found out, and what a power loss makes look the same.

use crate::littlefs::{Tree, read_all_on, suite};
use crate::sealed::{BLOCKS, Bench, FIRST, OPTIONS, Reader, STRIDE, Units};
use crate::sealed_rig;
use crate::sealed_rig::{Parts, on};
use atrest_cipher::aead::ChaCha20Poly1305;
use atrest_device::FlashCause;
use atrest_flash::sealed::{SealedMedium, SealedOptions, Verdict};
use atrest_testkit::Campaign;
use atrest_testkit::flash::FlashImage;

/// Blocks that hold one unit, four, six and all ten; the others have never been touched.
const FILLS: [(u64, u64); 4] = [(0, 1), (3, 4), (5, 6), (9, 10)];

fn used(options: SealedOptions) -> Bench {
    let bench = Bench::new(options);
    let mut volume = bench.format::<ChaCha20Poly1305>().expect("format");
    for (block, fill) in FILLS {
        volume.clear(block).expect("erase");
        (0..fill).for_each(|unit| volume.put(block, unit, (16 * block + unit) as u8).expect("program"));
    }
    volume.close().expect("close");
    bench
}

fn reader(bench: &Bench) -> Reader {
    bench.without_freshness().expect("a reader")
}

/// Where a byte of a unit lies in its block: behind unit 0 and its salt.
fn place(unit: u64, byte: u64) -> usize {
    let head = if unit == 0 { 0 } else { FIRST - STRIDE };
    head + unit as usize * STRIDE + byte as usize
}

#[test]
fn a_changed_unit_is_reported_wherever_it_lies_and_so_is_everything_behind_the_last_that_verifies() {
    let bench = used(OPTIONS);
    for (block, fill) in FILLS {
        for (changed, byte) in (0..fill).flat_map(|unit| [0, 71, 72, 76, 77, 92].map(|byte| (unit, byte))) {
            let bench = bench.snapshot();
            bench.medium.lock().image_mut().flip(block as usize, place(changed, byte), 6);
            let mut reader = reader(&bench);
            let place = Err(FlashCause::Tampered { block, unit: changed as u32 });
            // Without its first unit nothing of a block verifies; in the last one nothing says how many there were.
            let lost = if changed == 0 || changed == fill - 1 { changed..10 } else { changed..changed + 1 };
            for unit in 0..10 {
                let read = reader.unit(block, unit);
                match unit {
                    unit if lost.contains(&unit) => assert_eq!(read, place, "{block}.{changed}: {unit}"),
                    unit if unit < fill => {
                        assert_eq!(
                            read,
                            Ok(vec![(16 * block + unit) as u8; 72]),
                            "{block}.{changed}: {unit}"
                        );
                    }
                    _ => assert_eq!(read, Ok(vec![0; 72]), "{block}.{changed}: {unit}"),
                }
                let verdict = reader.verdict(block as u32, unit as u32).expect("a verdict");
                let tampered = unit == changed || changed == 0 && unit < fill;
                assert_eq!(verdict == Verdict::Tampered, tampered, "{block}.{changed}: {unit}: {verdict:?}");
                assert_eq!(
                    verdict == Verdict::Absent,
                    unit >= fill,
                    "{block}.{changed}: {unit}: {verdict:?}"
                );
            }
        }
    }
}

#[test]
fn what_stands_where_nothing_was_sealed_is_reported_too_and_blank_blocks_are_void() {
    let bench = used(OPTIONS);
    for (block, byte) in [(1, 0), (1, 991), (3, place(4, 0)), (3, place(9, 50)), (0, 500)] {
        let bench = bench.snapshot();
        bench.medium.lock().image_mut().flip(block as usize, byte, 0);
        let mut reader = reader(&bench);
        let fill = FILLS.iter().find(|(used, _)| *used == block).map_or(0, |(_, fill)| *fill);
        let place = Err(FlashCause::Tampered { block, unit: fill as u32 });
        assert!((fill..10).all(|unit| reader.unit(block, unit) == place), "{block}, {byte}");
        assert!((0..fill).all(|unit| reader.unit(block, unit).is_ok()), "{block}, {byte}");
    }
    let mut reader = reader(&bench);
    let void = |block: &u64| !FILLS.iter().any(|(used, _)| used == block);
    for block in (0..BLOCKS).filter(void) {
        assert_eq!(reader.unit(block, 0), Err(FlashCause::Void { block }));
        assert_eq!(reader.verdict(block as u32, 0), Ok(Verdict::Absent));
    }
}

/// Which is what a card shows, where nobody knows what is blank.
#[test]
fn on_a_card_and_for_who_assumes_a_torn_unit_it_is_as_if_it_were_not_there() {
    let bench = used(OPTIONS);
    bench.medium.lock().image_mut().flip(3, place(3, 0), 0);
    bench.medium.lock().image_mut().flip(5, 0, 0);
    bench.medium.lock().image_mut().flip(9, place(4, 0), 0);
    let card = Bench { options: SealedOptions { medium: SealedMedium::Card, ..OPTIONS }, ..bench.clone() };
    for mut reader in [reader(&bench).assuming_torn(), reader(&card)] {
        assert_eq!(reader.unit(3, 2), Ok(vec![50; 72]));
        assert_eq!(reader.unit(3, 3), Ok(vec![0; 72]));
        assert_eq!(reader.unit(5, 0), Err(FlashCause::Void { block: 5 }));
        // Behind this one there are others.
        assert_eq!(reader.unit(9, 4), Err(FlashCause::Tampered { block: 9, unit: 4 }));
    }
    let listed = |bench: &Bench| {
        let mut reader = reader(bench).assuming_torn();
        let all = (0..BLOCKS as u32).flat_map(|block| (0..10).map(move |unit| (block, unit)));
        all.filter(|(block, unit)| reader.verdict(*block, *unit) == Ok(Verdict::Tampered)).collect::<Vec<_>>()
    };
    let behind = (0..6).map(|unit| (5, unit));
    assert_eq!(listed(&bench), [(3, 3)].into_iter().chain(behind).chain([(9, 4)]).collect::<Vec<_>>());
    assert_eq!(listed(&card), [(9, 4)]);
}

/// What littlefs reads of a medium, or its error.
fn read(image: &FlashImage, assume_torn: bool) -> Result<Tree, i32> {
    let parts = Parts::new(image.clone(), None, sealed_rig::OPTIONS);
    let reader = parts.without_freshness().expect("a reader");
    let reader = if assume_torn { reader.assuming_torn() } else { reader };
    read_all_on(&mut on(reader)).map_err(|error| error.code())
}

/// littlefs keeps metadata twice, and goes on with the older half if the newer one is void, or ends before the newest commit.
#[test]
fn no_changed_unit_makes_littlefs_show_what_is_older() {
    let parts = Parts::formatted(sealed_rig::OPTIONS);
    let run = parts.record(Tree::new(), &suite(64 * 640), true);
    let (image, tree) = (parts.medium.lock().image().clone(), run.played.states.last().expect("a state"));
    assert_eq!(read(&image, false).as_ref(), Ok(tree), "a false alarm");
    let stride = sealed_rig::STRIDE as usize;
    let bytes = image.to_bytes();
    let is_used = |block: usize, unit: usize| {
        bytes[(block * 11 + unit) * stride..][..stride] != [0xff; sealed_rig::STRIDE as usize]
    };
    let all = (0..64).flat_map(|block| (0..10).map(move |unit| (block, unit)));
    let used: Vec<(usize, usize)> = all.filter(|(block, unit)| is_used(*block, *unit)).collect();
    let [mut stopped, mut same, mut older] = [0; 3];
    Campaign::matrix("sealed flash without freshness, units changed below littlefs", 640).over(
        &used,
        |&(block, unit)| {
            let mut changed = image.clone();
            changed.flip(block, unit * stride + 20, 3);
            match read(&changed, false) {
                // littlefs's own word for an I/O error: it did not go on.
                Err(code) => {
                    assert_eq!(code, -5, "unit {unit} of block {block}");
                    stopped += 1;
                }
                Ok(found) => {
                    assert_eq!(&found, tree, "unit {unit} of block {block}");
                    same += 1;
                }
            }
            older += i32::from(read(&changed, true).is_ok_and(|found| &found != tree));
        },
    );
    println!(
        "{stopped} stopped, {same} not asked for; taken for torn {older} would have shown something older"
    );
    assert!(stopped > 100 && older > 5, "{stopped}, {older}");
}
