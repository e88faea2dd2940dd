//! Attacks on a volume whose key is rotated, by an adversary who has seen every state of medium and scratch: whatever is put back, moved
//! or changed, a unit reads as it was stored last, or as tampered with, or the volume does not open.

use std::collections::BTreeMap;

use atrest_device::{FlashCause, FlashDevice};
use atrest_flash::sealed::{SealedError, SealedOptions, Tickets};
use atrest_testkit::flash::{Adversary, FlashImage, TrustedRecord};
use atrest_testkit::{Campaign, Random};

use crate::rotation_rig::{Chip, Op, Run, UNITS, contents, drawn, filled, play};
use crate::sealed::{BLOCKS, ERASE, OPTIONS, Units};

type Answers = BTreeMap<(u64, u64), Result<Vec<u8>, FlashCause>>;

/// Chip and store at a moment when all is anchored, and what each unit reads as.
struct Moment {
    image: FlashImage,
    record: TrustedRecord,
    answers: Answers,
}

struct Case {
    options: SealedOptions,
    adversary: Adversary,
    moments: Vec<Moment>,
}

/// Flags of a record: a block is named that was to be erased, or with both, that is moved.
const MOVING: u8 = 3;

/// Images with the record that counts, while nothing is in doubt: at the end, and in the middle of the move that ends there.
fn moments(run: &Run) -> Vec<(FlashImage, TrustedRecord)> {
    let images: Vec<_> = run.recording.images().cloned().collect();
    let [.., before, last] = &run.writes[..] else { panic!("writes of the store") };
    let mut found = vec![(images[images.len() - 1].clone(), last.after)];
    if before.after[3] & MOVING == MOVING {
        found.extend(images[before.step..=last.step].iter().map(|image| (image.clone(), before.after)));
    }
    found
}

fn read(volume: &mut impl FlashDevice) -> Answers {
    let all = (0..BLOCKS).flat_map(|block| (0..UNITS).map(move |unit| (block, unit)));
    all.map(|(block, unit)| ((block, unit), volume.unit(block, unit))).collect()
}

fn case(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let tickets = if seed.is_multiple_of(2) { Tickets::Slot } else { Tickets::Store };
    let options = SealedOptions { tickets, ..OPTIONS };
    let chip = Chip::new(options);
    chip.flash.lock().record();
    let model = filled(&chip);
    let before = chip.flash.lock().finish_recording();
    let mut ops: Vec<Op> = (0..5 + random.below(25)).map(|_| drawn(&mut random)).collect();
    // The last step moves a block, if one is left.
    ops.extend([Op::Sync, Op::Step]);
    let run = play(&chip, model, &ops, &mut random);
    let adversary = Adversary::new(&run.recording).with_copy(&before);
    let moments = moments(&run).into_iter().map(|(image, record)| {
        let copy = Chip::with(image.clone(), Some(record), options);
        let answers = read(&mut copy.rotating().expect("both keys"));
        Moment { image, record, answers }
    });
    Case { options, adversary, moments: moments.collect() }
}

#[test]
fn no_attack_on_a_rotation_goes_undetected() {
    let cases: Vec<Case> = (0..24).map(case).collect();
    let moves = cases.iter().filter(|case| case.moments.len() > 1).count();
    assert!(moves > 12, "{moves} end in a move");
    let [mut refused, mut tampered, mut harmless] = [0_u64; 3];
    Campaign::new("rotation attacks", 1_000, 30_000).run(|_, random: &mut Random| {
        let case = random.pick(&cases);
        let moment = random.pick(&case.moments);
        let chip = Chip::with(moment.image.clone(), Some(moment.record), case.options);
        let live = random.below(3) == 0;
        let mut open = live.then(|| chip.rotating().expect("both keys"));
        // Several at once: a block and the scratch, for instance.
        let attacks: Vec<_> = (0..=random.below(3)).map(|_| case.adversary.draw(random)).collect();
        for attack in &attacks {
            case.adversary.attack(chip.flash.lock().image_mut(), *attack);
        }
        if open.is_none() {
            match chip.rotating() {
                Ok(volume) => open = Some(volume),
                Err(_) => refused += 1,
            }
        }
        let Some(mut volume) = open else { return };
        // Moving blocks finds what reading does, and hides nothing.
        for _ in 0..random.below(4) {
            let _ = volume.rotate_step();
        }
        let mut found = 0;
        for (place, answer) in read(&mut volume) {
            let expected = &moment.answers[&place];
            match answer {
                Err(FlashCause::Tampered { block, unit }) => {
                    assert_eq!((block, unit.into()), place);
                    assert!(expected.is_ok(), "{attacks:?}: {place:?}");
                    found += 1;
                }
                // Behind the last unit of a block it may be that nothing more is taken.
                Ok(bytes) if bytes.iter().all(|byte| *byte == 0) => {
                    let blank = |bytes: &Vec<u8>| bytes.iter().all(|byte| [0, 0xff].contains(byte));
                    assert!(expected.as_ref().is_ok_and(blank), "{attacks:?}: {place:?}");
                }
                other => assert_eq!(&other, expected, "undetected: {attacks:?}, live: {live}: {place:?}"),
            }
        }
        *(if found > 0 { &mut tampered } else { &mut harmless }) += 1;
    });
    println!("{refused} refused, {tampered} with units reported, {harmless} read as before");
}

/// A block as it stands on the chip.
fn block(chip: &Chip, block: u64) -> Vec<u8> {
    chip.flash.lock().image().to_bytes()[block as usize * ERASE..][..ERASE].to_vec()
}

fn put_back(chip: &Chip, block: u64, bytes: &[u8]) {
    for (unit, bytes) in bytes.chunks(32).enumerate() {
        chip.flash.lock().image_mut().put_unit(block as usize, unit, bytes);
    }
}

#[test]
fn a_block_under_the_old_key_does_not_come_back_after_its_move() {
    let chip = Chip::new(OPTIONS);
    let model = filled(&chip);
    let old = block(&chip, 0);
    let mut volume = chip.rotating().expect("both keys");
    volume.rotate_step().expect("a step");
    let in_scratch = block(&chip, BLOCKS);
    assert_eq!(in_scratch[..128], block(&chip, 0)[..128], "sealed once, and copied");
    volume.close_all().expect("close");
    drop(volume);
    // Before the opening, and after.
    let closed = chip.snapshot();
    put_back(&closed, 0, &old);
    assert!(matches!(closed.rotating().map(drop), Err(SealedError::NotAnchored { .. })));
    let open = chip.snapshot();
    let mut volume = open.rotating().expect("both keys");
    put_back(&open, 0, &old);
    assert_eq!(volume.unit(0, 0), Err(FlashCause::Tampered { block: 0, unit: 0 }));
    // In the end, too.
    let mut volume = chip.rotating().expect("both keys");
    volume.rotate_all();
    assert_eq!(contents(&mut volume), model);
    drop(volume);
    put_back(&chip, 0, &old);
    let refused = chip.mount(&crate::rotation_rig::KEYS.key).map(drop);
    assert!(matches!(refused, Err(SealedError::NotAnchored { .. })), "{refused:?}");
}

#[test]
fn while_a_block_is_moved_the_scratch_counts_and_nothing_else() {
    let chip = Chip::new(OPTIONS);
    let model = filled(&chip);
    let mut volume = chip.rotating().expect("both keys");
    for _ in 0..2 {
        volume.rotate_step().expect("a step");
    }
    // Places of the scratch are taken in turns: this one held block 0, and comes to hold block 2.
    let (old, earlier) = (block(&chip, 2), block(&chip, BLOCKS));
    chip.flash.lock().record();
    chip.store.beside(&chip.flash);
    volume.rotate_step().expect("a step");
    drop(volume);
    let recording = chip.flash.lock().finish_recording();
    let [moving, _] = chip.store.writes()[..] else { panic!("two writes of the store") };
    assert_eq!((moving.after[2], moving.after[3] & 3), (3, 3), "the record names the scratch");
    let images: Vec<_> = recording.images().cloned().collect();
    for image in &images[moving.step..] {
        let at = || Chip::with(image.clone(), Some(moving.after), OPTIONS);
        assert_eq!(contents(&mut at().rotating().expect("both keys")), model);
        // Whatever stands in the block's own place, the scratch counts.
        for own in [&old, &earlier, &vec![0xff; ERASE], &vec![0; ERASE]] {
            let chip = at();
            put_back(&chip, 2, own);
            assert_eq!(contents(&mut chip.rotating().expect("both keys")), model);
        }
        // Without what stands there the block is not void, nor what it was: nothing opens, and nothing is changed.
        for scratch in [&old, &earlier, &vec![0xff; ERASE]] {
            let chip = at();
            put_back(&chip, BLOCKS, scratch);
            let before = block(&chip, 2);
            let refused = chip.rotating().map(drop);
            assert!(matches!(refused, Err(SealedError::NotAnchored { .. })), "{refused:?}");
            assert_eq!((block(&chip, 2), chip.store.record()), (before, Some(moving.after)));
        }
    }
    // Before that record the block's own place counts.
    for image in &images[..moving.step] {
        let chip = Chip::with(image.clone(), moving.before, OPTIONS);
        put_back(&chip, BLOCKS, &vec![0; ERASE]);
        assert_eq!(contents(&mut chip.rotating().expect("both keys")), model);
    }
}
