//! Each block of a sealed medium gone bad in each way, from the beginning or in use: littlefs writes elsewhere or gives up, as it does on a
//! medium alone; nothing synced is lost and nothing raises an alarm, but for what lay in a block that can't be read any more.

use std::collections::BTreeMap;

use crate::littlefs::{Tree, play_on, read_all_on, suite};
use crate::sealed_rig::{OPTIONS, Parts, Storage, Trouble, on, read_all};
use atrest_device::{FlashDevice, FlashGeometry};
use atrest_testkit::flash::{BadBlock, Caching, EmulatedFlash, PowerCut, SharedFlash};
use atrest_testkit::{Campaign, Random};
use littlefs2::fs::Filesystem;

use Outcome::{Alarm, GaveUp, Stuck, Survived};

/// What came of a medium with a bad block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// Everything was done and is there.
    Survived,
    /// littlefs gave up with this error, and everything up to then is there.
    GaveUp(i32),
    /// littlefs does not get along with what it finds afterwards, and says so with this error.
    Stuck(i32),
    /// What was stored in the block is reported as tampered with.
    Alarm,
}

/// Plays the suite; before a change of it the block goes bad.
fn sealed(block: usize, how: BadBlock, before: usize) -> Outcome {
    let parts = Parts::formatted(OPTIONS);
    let mut storage = on(parts.session());
    let played = play(&mut storage, before, || parts.medium.lock().break_block(block, how));
    let stopped = storage.device().is_stopped();
    drop(storage);
    match read_all(&parts) {
        Ok(found) => {
            assert!(!stopped, "block {block}, {how:?}: an alarm, and then none");
            judge(played, Ok(found))
        }
        Err(Trouble::Reading(_, true) | Trouble::Refused(_)) => Alarm,
        Err(Trouble::Reading(code, false)) => judge(played, Err(code.expect("an error"))),
    }
}

/// Plays the suite on a medium that is not sealed; before a change of it the block goes bad.
fn alone(block: usize, how: BadBlock, before: usize) -> Outcome {
    let geometry = FlashGeometry::new(64, 64, 640, 64).expect("a geometry");
    let medium = SharedFlash::new(EmulatedFlash::new(geometry));
    let mut storage = on(medium.clone());
    Filesystem::format(&mut storage).expect("format");
    let played = play(&mut storage, before, || medium.lock().break_block(block, how));
    judge(played, read_all_on(&mut on(medium)).map_err(|error| error.code()))
}

/// What is to be there, and littlefs's error if it did not come to the end.
type Suite = (Tree, Option<i32>);

fn play<D: FlashDevice>(storage: &mut Storage<D>, before: usize, go_bad: impl FnOnce()) -> Suite {
    let changes = suite(64 * 640);
    let (first, result) = play_on(storage, Tree::new(), &changes[..before], |_| {});
    assert!(result.is_ok(), "nothing is bad yet");
    go_bad();
    let start = first.states.last().expect("a state").clone();
    let (played, result) = play_on(storage, start, &changes[before..], |_| {});
    (played.states.last().expect("a state").clone(), result.err().map(|error| error.code()))
}

fn judge((tree, error): Suite, found: Result<Tree, i32>) -> Outcome {
    match found {
        Ok(found) => {
            assert_eq!(found, tree);
            error.map_or(Survived, GaveUp)
        }
        Err(code) => Stuck(code),
    }
}

/// How often which outcome came of 64 blocks, on sealed flash and on the medium alone.
type Counts = BTreeMap<Outcome, u32>;
type Tally = [(BadBlock, Counts, Counts); 5];

fn counts<const N: usize>(counts: [(Outcome, u32); N]) -> Counts {
    counts.into_iter().collect()
}

/// What docs/SEALED-FLASH.md publishes. Which blocks those are differs between the two; how many they are does not, but where littlefs alone
/// is worse off. The codes are littlefs's: -84 corruption, -28 no room, -36 a name that is too long, -2 no
/// such file.
fn published(in_use: bool) -> Tally {
    let unaware = || counts([(Survived, 62), (GaveUp(-36), 1), (Stuck(-28), 1)]);
    // In a session after the one that formatted the superblock's pair is compacted first: with one half of it bad littlefs gives up there.
    let sealed_unaware = || match in_use {
        true => unaware(),
        false => counts([(Survived, 62), (GaveUp(-36), 1), (GaveUp(-2), 1)]),
    };
    let noticed = || counts([(Survived, 61), (GaveUp(-84), 1), (GaveUp(-36), 1), (Stuck(-28), 1)]);
    let progs = || match in_use {
        true => noticed(),
        false => counts([(Survived, 27), (GaveUp(-84), 35), (GaveUp(-36), 2)]),
    };
    let sealed_progs = || match in_use {
        true => noticed(),
        false => counts([(Survived, 27), (GaveUp(-84), 35), (GaveUp(-36), 1), (GaveUp(-2), 1)]),
    };
    let unreadable = match in_use {
        true => (
            counts([(Survived, 48), (Alarm, 16)]),
            counts([(Survived, 50), (GaveUp(-84), 1), (Stuck(-84), 11), (Stuck(-28), 2)]),
        ),
        false => (counts([(Survived, 62), (Alarm, 2)]), progs()),
    };
    [
        (BadBlock::ProgError, sealed_progs(), progs()),
        (BadBlock::EraseError, sealed_unaware(), unaware()),
        (BadBlock::ProgNoop, sealed_progs(), progs()),
        (BadBlock::EraseNoop, sealed_unaware(), noticed()),
        (BadBlock::ReadError, unreadable.0, unreadable.1),
    ]
}

/// Each block in some ways: two of the five, as only the counts of all blocks can be compared.
fn every_block(name: &'static str, before: usize, published: &Tally) {
    Campaign::matrix(name, 2).over(published, |(how, on_sealed, on_medium)| {
        let (mut was_sealed, mut was_alone) = (Counts::new(), Counts::new());
        for block in 0..64 {
            *was_sealed.entry(sealed(block, *how, before)).or_default() += 1;
            *was_alone.entry(alone(block, *how, before)).or_default() += 1;
        }
        println!("{how:?}: sealed {was_sealed:?}, the medium alone {was_alone:?}");
        assert_eq!((&was_sealed, &was_alone), (on_sealed, on_medium), "{how:?}");
    });
}

#[test]
fn a_block_that_is_bad_from_the_beginning_loses_nothing() {
    every_block("sealed bad blocks", 0, &published(false));
}

#[test]
fn a_block_that_goes_bad_in_use_loses_nothing_but_what_can_not_be_read_in_it() {
    every_block("sealed blocks gone bad", 40, &published(true));
}

#[test]
fn no_cut_on_a_medium_with_a_bad_block_loses_what_was_synced() {
    let ways = [BadBlock::ProgError, BadBlock::EraseError, BadBlock::ProgNoop, BadBlock::EraseNoop];
    let mut runs = Vec::new();
    for (at, how) in (0..).zip(ways.iter().cycle().take(12)) {
        // Blocks 0 and 1 hold littlefs's superblock.
        let block = 2 + (at * 5) % 62;
        if sealed(block, *how, 0) != Survived {
            continue;
        }
        let parts = Parts::formatted(OPTIONS);
        parts.medium.lock().break_block(block, *how);
        let run = parts.record(Tree::new(), &suite(64 * 640)[..60], false);
        let cuts = run.recording.cuts(Caching::None);
        runs.push((block, *how, run, cuts));
    }
    assert!(runs.len() >= 6, "most are survived");
    Campaign::new("sealed bad blocks and power loss", 150, 20_000).run(|_, random: &mut Random| {
        let (block, how, run, cuts) = random.pick(&runs);
        let cut: PowerCut = *random.pick(cuts);
        let (parts, done) = run.aftermath(cut);
        parts.medium.lock().break_block(*block, *how);
        let found = read_all(&parts).unwrap_or_else(|trouble| panic!("{block}, {how:?}, {cut}: {trouble:?}"));
        let states = &run.played.states;
        assert!(states[done..(done + 2).min(states.len())].contains(&found), "{block}, {how:?}, {cut}: lost");
    });
}
