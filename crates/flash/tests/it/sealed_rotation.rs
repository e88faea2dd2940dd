//! The volume key of a sealed volume in use is rotated: whatever is cut, nothing is lost, nothing opens under the old key in the end, and
//! what it costs is what docs/SEALED-FLASH.md says.

use atrest_flash::sealed::{
    RotationError, RotationKeys, RotationProgress, SealedError, SealedKey, SealedMedium, SealedOptions,
    Tickets,
};
use atrest_testkit::flash::{Caching, PowerCut, TrustedWrite};
use atrest_testkit::{Campaign, Random};

use crate::rotation_rig::{Chip, Contents, KEYS, NEW_KEY, Op, Run, contents, drawn, filled, play};
use crate::sealed::{KEY, OPTIONS, UUID, Units, VOLUME_KEY};

#[test]
fn a_rotation_moves_every_block_and_the_old_key_opens_nothing_afterwards() {
    for tickets in [Tickets::Slot, Tickets::Store] {
        let chip = Chip::new(SealedOptions { tickets, ..OPTIONS });
        let model = filled(&chip);
        let mut volume = chip.rotating().expect("both keys");
        assert_eq!(volume.rotation(), RotationProgress { left: 10, blocks: 12, in_scratch: None });
        assert_eq!(contents(&mut volume), model);
        // One that is erased anyway needs no step.
        volume.clear(9).expect("erase");
        volume.put(9, 0, 200).expect("program");
        let mut model = model;
        model[9] = vec![200];
        assert_eq!(volume.rotation().left, 9);
        assert_eq!(volume.finish_rotation(), Err(RotationError::Left { blocks: 9 }));
        for left in (0..9).rev() {
            let (writes, erases) = (chip.store.count(), chip.flash.lock().wear().erased_blocks());
            assert_eq!(volume.rotate_step().expect("a step").left, left);
            assert_eq!(contents(&mut volume), model);
            assert_eq!(chip.store.count() - writes, 2);
            assert_eq!(chip.flash.lock().wear().erased_blocks() - erases, 2);
        }
        // Nothing is left to do.
        let writes = chip.store.count();
        assert_eq!(volume.rotate_step().map(|progress| progress.left), Ok(0));
        volume.finish_rotation().expect("the end");
        assert_eq!(chip.store.count() - writes, 1);
        volume.finish_rotation().expect("the end again");
        assert_eq!(chip.store.count() - writes, 1);
        assert_eq!(contents(&mut volume), model);
        volume.put(9, 1, 201).expect("goes on");
        model[9].push(201);
        volume.close_all().expect("close");
        drop(volume);
        assert_eq!(chip.mount(&KEY).map(drop), Err(SealedError::OtherVolume));
        assert_eq!(chip.under(&KEY), Vec::<u64>::new());
        assert_eq!(chip.under(&KEYS.key), (0..10).collect::<Vec<_>>());
        assert_eq!(contents(&mut chip.mount(&KEYS.key).expect("the new key")), model);
        // Whoever has not heard of the end comes with both keys.
        let mut again = chip.rotating().expect("both keys");
        assert_eq!((again.rotation().left, contents(&mut again)), (0, model));
    }
}

#[test]
fn a_volume_in_rotation_opens_with_both_keys_only() {
    let chip = Chip::new(OPTIONS);
    let model = filled(&chip);
    let wrong = |new: &'static [u8], previous: &'static [u8]| {
        let key = SealedKey { volume_key: new, uuid: &UUID, header: None };
        chip.rotating_with(&RotationKeys { key, previous }).map(drop)
    };
    let before = chip.store.record();
    assert_eq!(wrong(&VOLUME_KEY, &VOLUME_KEY), Err(SealedError::NotNewKey));
    assert_eq!(wrong(&NEW_KEY[..16], &VOLUME_KEY), Err(SealedError::NotNewKey));
    assert_eq!(wrong(&NEW_KEY, &VOLUME_KEY[..31]), Err(SealedError::NotNewKey));
    assert_eq!(wrong(&NEW_KEY, &[0; 32]), Err(SealedError::NoKey));
    assert_eq!(wrong(&NEW_KEY, &[3; 32]), Err(SealedError::OtherVolume));
    assert_eq!(chip.store.record(), before, "nothing was written");
    let mut volume = chip.rotating().expect("both keys");
    volume.rotate_step().expect("a step");
    volume.close_all().expect("close");
    drop(volume);
    let during = chip.store.record();
    assert_eq!(during.map(|record| record[2]), Some(3), "a version of its own");
    assert_eq!(chip.mount(&KEYS.key).map(drop), Err(SealedError::Rotating));
    assert_eq!(chip.mount(&KEY).map(drop), Err(SealedError::OtherVolume));
    assert_eq!(wrong(&[4; 32], &NEW_KEY), Err(SealedError::Rotating), "another rotation has to wait");
    // The record names the old key as well.
    assert!(matches!(wrong(&NEW_KEY, &[4; 32]), Err(SealedError::NotAnchored { .. })));
    assert_eq!(chip.store.record(), during, "nothing was written");
    assert_eq!(contents(&mut chip.rotating().expect("both keys")), model);
}

#[derive(Clone, Copy, Debug)]
enum Cut {
    Medium(PowerCut),
    Store(TrustedWrite),
}

impl Run {
    fn cuts(&self) -> Vec<Cut> {
        let caching = match self.options.medium {
            SealedMedium::Ordered => Caching::None,
            _ => Caching::UntilSync,
        };
        let medium = self.recording.cuts(caching).into_iter().map(Cut::Medium);
        medium.chain(self.writes.iter().copied().map(Cut::Store)).collect()
    }

    /// Chip and store after a cut, and how many operations were acknowledged.
    fn aftermath(&self, cut: Cut) -> (Chip, usize) {
        match cut {
            Cut::Medium(cut) => {
                let (image, promises) = self.recording.aftermath(cut);
                let before = self.writes.iter().rev().find(|write| write.step <= cut.step);
                let record = before.map_or(self.first, |write| Some(write.after));
                (Chip::with(image, record, self.options), promises.len())
            }
            Cut::Store(write) => {
                let image = self.recording.images().nth(write.step).expect("an image").clone();
                let promises =
                    match self.recording.cuts(Caching::None).into_iter().find(|cut| cut.step == write.step) {
                        Some(cut) => self.recording.aftermath(cut).1.len(),
                        None => self.states.len() - 1,
                    };
                (Chip::with(image, write.before, self.options), promises)
            }
        }
    }

    /// Opens what a cut has left and checks it against what was acknowledged: the chip, and what it holds now.
    fn survive(&self, cut: Cut) -> (Chip, Contents) {
        let (chip, done) = self.aftermath(cut);
        let mut volume = chip.rotating().unwrap_or_else(|error| panic!("{cut:?}: {error}"));
        let found = contents(&mut volume);
        let since = *self.durable.iter().rev().find(|durable| **durable <= done).expect("the start");
        let allowed = &self.states[since..(done + 2).min(self.states.len())];
        for (block, held) in found.iter().enumerate() {
            assert!(
                allowed.iter().any(|state| state[block] == *held),
                "{cut:?}: block {block} is lost after {done}"
            );
        }
        drop(volume);
        (chip, found)
    }
}

/// The volume goes on after a cut, and its rotation comes to its end.
fn goes_on(chip: &Chip, found: &Contents, cut: Cut) {
    let mut volume = chip.rotating().unwrap_or_else(|error| panic!("{cut:?}, a second time: {error}"));
    assert_eq!(contents(&mut volume), *found, "{cut:?}: once accepted it stays");
    let mut model = found.clone();
    volume.clear(11).expect("erase");
    volume.put(11, 0, 77).expect("program");
    model[11] = vec![77];
    volume.rotate_all();
    assert_eq!(contents(&mut volume), model, "{cut:?}");
    drop(volume);
    assert_eq!(contents(&mut chip.mount(&KEYS.key).expect("the new key")), model, "{cut:?}");
    if chip.options.medium == SealedMedium::Ordered {
        assert_eq!(chip.under(&KEY), Vec::<u64>::new(), "{cut:?}");
    }
}

fn history(options: SealedOptions, random: &mut Random) -> Run {
    let chip = Chip::new(options);
    let model = filled(&chip);
    let mut ops: Vec<Op> = (0..20).map(|_| drawn(random)).collect();
    ops.push(Op::Finish);
    play(&chip, model, &ops, random)
}

const CACHED: SealedOptions = SealedOptions { medium: SealedMedium::Cached, ..OPTIONS };
const IN_STORE: SealedOptions = SealedOptions { tickets: Tickets::Store, ..OPTIONS };
/// A record allows fewer serials than a block takes.
const SHORT: SealedOptions = SealedOptions { reserve: 3, anchor_every: 7, ..OPTIONS };

#[test]
fn no_cut_in_a_rotation_loses_anything_or_raises_an_alarm() {
    let options = [OPTIONS, IN_STORE, CACHED, SHORT];
    let runs: Vec<Run> = options
        .into_iter()
        .zip(1..)
        .map(|(options, seed)| history(options, &mut Random::new(seed)))
        .collect();
    let cuts: Vec<(usize, Cut)> = runs
        .iter()
        .enumerate()
        .flat_map(|(number, run)| run.cuts().into_iter().map(move |cut| (number, cut)))
        .collect();
    println!("{} cuts", cuts.len());
    assert!(cuts.len() > 4000, "{} cuts", cuts.len());
    Campaign::matrix("rotation power loss", 250).over(&cuts, |(run, cut)| {
        let (chip, found) = runs[*run].survive(*cut);
        goes_on(&chip, &found, *cut);
    });
}

#[test]
fn no_second_cut_in_a_rotation_loses_anything() {
    Campaign::new("rotation histories, two cuts", 40, 20_000).run(|_, random: &mut Random| {
        let options = *random.pick(&[OPTIONS, IN_STORE, CACHED, SHORT]);
        let run = history(options, random);
        let cuts = run.cuts();
        for _ in 0..4 {
            let cut = *random.pick(&cuts);
            let (chip, found) = {
                // The second cut may fall into the opening after the first.
                let (chip, _) = run.aftermath(cut);
                let (_, found) = run.survive(cut);
                (chip, found)
            };
            let mut ops: Vec<Op> = (0..4).map(|_| drawn(random)).collect();
            ops.push(Op::Finish);
            let second = play(&chip, found, &ops, random);
            let cut = *random.pick(&second.cuts());
            let (chip, found) = second.survive(cut);
            goes_on(&chip, &found, cut);
        }
    });
}
