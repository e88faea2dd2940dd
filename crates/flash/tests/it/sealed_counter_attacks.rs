//! Everything on a chip beside which nothing is trusted but a counter put back, moved, damaged and wiped.

use std::collections::{BTreeMap, BTreeSet};

use crate::counter_rig::{BLOCKS, Chip, Run, half_the_suite, read};
use crate::littlefs::{Change, Tree, play_on, read_all_on, suite};
use crate::sealed_rig::{OPTIONS, STRIDE, on};
use atrest_device::TrustedStoreError;
use atrest_flash::sealed::{SealedError, SealedOptions};
use atrest_testkit::flash::{Adversary, Attack, FlashImage, Withheld};
use atrest_testkit::{Campaign, Random};

/// What came of attacks.
#[derive(Debug, Default)]
struct Tally {
    /// Another state than the last was shown.
    undetected: u32,
    /// Nothing was changed, and something was reported.
    false_alarms: u32,
    /// Refused, of each kind of attack, of a chip that was off and of one in use.
    refused: BTreeMap<&'static str, [u32; 2]>,
    harmless: u32,
    nothing: u32,
}

fn kind(attack: Attack) -> &'static str {
    match attack {
        Attack::FlipBit { .. } => "flip",
        Attack::Scramble { .. } => "scramble",
        Attack::ReplayUnit { .. } => "unit",
        Attack::ReplayBlock { .. } => "block",
        Attack::ReplayImage { .. } => "image",
        Attack::SwapUnits { .. } => "swap units",
        Attack::SwapBlocks { .. } => "swap blocks",
        Attack::Truncate { .. } => "truncate",
        Attack::Deliver { .. } => "deliver",
    }
}

/// A chip whose last state is anchored, and programs that were refused before: of units, and of entries of the log.
fn used() -> (Chip, Run, Vec<Withheld>) {
    let changes = suite(64 * 640);
    let (before, after) = changes.split_at(changes.len() - 40);
    let (chip, tree, withheld) = (1..).find_map(|seed| with_refusals(before, seed)).expect("a seed");
    let run = chip.record(tree, after, true);
    (chip, run, withheld)
}

/// Sessions that end with an operation that is refused, and are closed in good order; the next one tries the same change again. None if
/// littlefs gives up, or not programs of units and of the log were refused.
fn with_refusals(changes: &[Change], seed: u64) -> Option<(Chip, Tree, Vec<Withheld>)> {
    let chip = Chip::formatted(SealedOptions { anchor_every: 5, ..OPTIONS });
    let (mut tree, mut left) = (Tree::new(), changes);
    for session in 0..8 {
        let mut storage = on(chip.open(true).ok()?);
        chip.medium.lock().refusals().at_random = Some((Random::new(seed * 100 + session), 50));
        let (played, result) = play_on(&mut storage, tree, left, |_| {});
        chip.medium.lock().refusals().at_random = None;
        tree = read_all_on(&mut storage).ok()?;
        storage.into_device().close().ok()?;
        left = &left[played.states.len() - 1..];
        if result.is_ok() {
            break;
        }
    }
    let withheld = std::mem::take(&mut chip.medium.lock().refusals().withheld);
    let units = withheld.iter().filter(|(address, _)| address / u64::from(STRIDE * 11) < BLOCKS).count();
    (left.is_empty() && units > 0 && units < withheld.len()).then_some((chip, tree, withheld))
}

impl Tally {
    /// Whether each kind of attack was refused, and most on a mounted volume, too.
    fn has_refused_each_kind(&self) -> bool {
        let off = self.refused.values().filter(|[off, _]| *off > 0).count();
        let live = self.refused.values().filter(|[_, live]| *live > 0).count();
        // A program that was refused before reaches a block that takes no more, where one unit that fails costs itself alone.
        let delivered = usize::from(self.refused.contains_key("deliver"));
        off - delivered == 8 && live >= 6
    }

    /// One attack; on a counter as well, if whoever changes the medium can change what that answers.
    fn attack(
        &mut self,
        (chip, run, _): &(Chip, Run, Vec<Withheld>),
        adversary: &Adversary,
        forge: bool,
        random: &mut Random,
    ) {
        let attacked = chip.copy();
        let live = random.below(3) == 0;
        let open = live.then(|| attacked.open(true).expect("mount"));
        let attack = adversary.draw(random);
        let changed = adversary.attack(attacked.medium.lock().image_mut(), attack);
        if let Attack::ReplayImage { step } = attack
            && forge
        {
            attacked.counter.0.borrow_mut().value = run.shown(step);
        }
        let found = match open {
            Some(volume) => read_all_on(&mut on(volume)).map_err(|error| error.code().to_string()),
            None => read(&attacked),
        };
        match found {
            Ok(found) if Some(&found) != run.played.states.last() => {
                self.undetected += 1;
                if !forge {
                    println!("undetected: {attack}, live: {live}");
                }
            }
            Ok(_) => *(if changed { &mut self.harmless } else { &mut self.nothing }) += 1,
            Err(trouble) if !changed => {
                self.false_alarms += 1;
                println!("a false alarm: {attack}: {trouble}");
            }
            Err(_) => self.refused.entry(kind(attack)).or_default()[usize::from(live)] += 1,
        }
    }
}

#[test]
fn no_attack_on_a_chip_beside_a_counter_goes_undetected() {
    let used = used();
    let adversary = Adversary::new(&used.1.recording).with_withheld(used.2.clone());
    let mut tally = Tally::default();
    Campaign::new("counter store, attacks", 400, 50_000).run(|_, random: &mut Random| {
        tally.attack(&used, &adversary, false, random);
        assert_eq!((tally.undetected, tally.false_alarms), (0, 0));
    });
    println!("{tally:?}");
    let refused: u32 = tally.refused.values().flatten().sum();
    assert!(refused > (tally.harmless + tally.nothing) / 2, "most attacks hit something");
    // Some kinds are drawn a few times in a sample, and may all have been harmless.
    for seed in 1..=4_000 {
        if tally.has_refused_each_kind() {
            return;
        }
        tally.attack(&used, &adversary, false, &mut Random::new(seed));
        assert_eq!((tally.undetected, tally.false_alarms), (0, 0));
    }
    panic!("a kind of attack is never refused: {tally:?}");
}

/// Attacks a chip whose counter breaks its contract: its answers can be rolled back with the medium. Some attacks must then
/// go undetected, or the test above would show nothing.
#[test]
fn a_counter_whose_answers_can_be_put_back_protects_from_nothing() {
    let used = used();
    let adversary = Adversary::new(&used.1.recording).with_withheld(used.2.clone());
    let mut tally = Tally::default();
    for seed in 1..=400 {
        tally.attack(&used, &adversary, true, &mut Random::new(seed));
    }
    println!("{tally:?}");
    assert!(tally.undetected > 10 && tally.false_alarms == 0);
}

/// Every image that the chip ever held, with the counter of the end: none opens but the last. Nor does any with the newest log, or the
/// newest with any log, but for those that differ in nothing that counts.
#[test]
fn a_chip_that_was_put_back_does_not_open() {
    let (chip, run, _) = used();
    let last = run.recording.images().last().expect("an image").clone();
    let tree = run.played.states.last();
    let (mut refused, mut opened) = ([0; 3], [0; 3]);
    let opens = |which: usize, image: FlashImage| {
        let chip = Chip::new(image, chip.counter.now(), chip.options);
        match chip.open(true) {
            Err(SealedError::Store(TrustedStoreError::Damaged) | SealedError::StoreEmpty) if which != 1 => {
                false
            }
            Err(SealedError::NotAnchored { .. } | SealedError::Gap { .. }) if which == 1 => false,
            Err(error) => panic!("{which}: {error:?}"),
            Ok(_) => {
                assert_eq!(read(&chip).as_ref().ok(), tree);
                true
            }
        }
    };
    // From one image to the next only the volume or only the log changes: every second mixture is the one before.
    let mut before = [const { (Vec::new(), false) }; 3];
    for image in run.recording.images() {
        let mixed = [image.clone(), join(image, &last), join(&last, image)];
        for (which, image) in mixed.into_iter().enumerate() {
            let bytes = image.to_bytes();
            if before[which].0 != bytes {
                before[which] = (bytes, opens(which, image));
            }
            *(if before[which].1 { &mut opened[which] } else { &mut refused[which] }) += 1;
        }
    }
    println!("older images, volumes and logs: {refused:?} refused, {opened:?} opened");
    assert!(opened[0] == 1 && refused.iter().all(|refused| *refused > 250));
}

/// The volume of one image and the log of another.
fn join(volume: &FlashImage, log: &FlashImage) -> FlashImage {
    let (mut joined, geometry) = (volume.clone(), log.geometry());
    for block in BLOCKS as usize..geometry.block_count() as usize {
        for unit in 0..geometry.units_per_block() as usize {
            joined.put_unit(block, unit, log.unit(block, unit));
        }
    }
    joined
}

/// Somebody wipes volume and log, and the owner takes the chip for new: no serial seals twice, and what is put back from before the wipe does not open.
#[test]
fn a_chip_that_was_wiped_seals_nothing_under_a_serial_that_was_used() {
    let (chip, run, _) = used();
    let mut seen = serials(&chip, run.recording.images());
    let first = seen.len();
    assert!(first > 200);
    for _ in 0..3 {
        chip.medium
            .lock()
            .image_mut()
            .clone_from(&FlashImage::erased(run.recording.images().next().expect("one").geometry()));
        assert_eq!(chip.open(true).expect_err("wiped"), SealedError::StoreEmpty);
        let mut storage = on(chip.open(false).expect("format"));
        littlefs2::fs::Filesystem::format(&mut storage).expect("format");
        storage.into_device().close().expect("close");
        let again = chip.record(Tree::new(), &half_the_suite(), true);
        let new = serials(&chip, again.recording.images());
        assert!(new.len() > 200 && seen.is_disjoint(&new), "a serial twice");
        seen.extend(new);
        for image in run.recording.images().step_by(7) {
            let put_back = Chip::new(image.clone(), chip.counter.now(), chip.options);
            let error = put_back.open(true).expect_err("from before");
            assert!(matches!(
                error,
                SealedError::Store(TrustedStoreError::Damaged) | SealedError::StoreEmpty
            ));
        }
    }
    println!("{first} serials before, {} in all", seen.len());
}

/// Serials of everything that stood in a unit.
fn serials<'a>(chip: &Chip, images: impl Iterator<Item = &'a FlashImage>) -> BTreeSet<u64> {
    let payload = chip.open(true).expect("mount").layout().payload() as usize;
    let mut found = BTreeSet::new();
    for image in images {
        for (block, unit) in (0..BLOCKS as usize).flat_map(|block| (0..10).map(move |unit| (block, unit))) {
            if !image.is_blank(block, unit) {
                let serial = &image.unit(block, unit)[payload..payload + 5];
                found.insert(serial.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)));
            }
        }
    }
    found
}
