//! The volume key of a sealed volume in use is rotated: whatever is cut, nothing is lost, nothing opens under the old key in the end, and
//! what it costs is what docs/SEALED-FLASH.md says.

use atrest_cipher::aead::ChaCha20Poly1305;
use atrest_device::{FlashCause, FlashDevice};
use atrest_flash::sealed::{
    RotationError, RotationKeys, RotationProgress, SealedError, SealedKey, SealedMedium, SealedOptions,
    Tickets,
};
use atrest_testkit::flash::{Caching, PowerCut, TrustedWrite};
use atrest_testkit::{Campaign, Random};

use crate::any::{any_flash, any_store};
use crate::rotation_rig::{Chip, Contents, KEYS, NEW_KEY, Op, Rotating, Run, contents, drawn, filled, play};
use crate::sealed::{BLOCKS, ERASE, FIRST, KEY, OPTIONS, UUID, Units, VOLUME_KEY, Volume};

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
        // To a file system nothing has changed: what was begun before takes no more.
        assert_eq!(volume.put(0, 1, 1), Err(FlashCause::Closed { block: 0 }));
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

/// Computed by `tests/vectors/sealed-flash.py`, which shares no code with us.
#[test]
fn records_and_units_of_a_rotation_are_those_of_an_independent_program() {
    let chip = Chip::new(OPTIONS);
    let stored = || hex(&chip.store.record().expect("a record"));
    let raw = |block: usize| hex(&chip.flash.lock().image().to_bytes()[block * ERASE..][..FIRST]);
    let devices = (any_flash(chip.medium()), any_flash(chip.scratch()));
    let (table, buffer) = (vec![Default::default(); BLOCKS as usize], vec![0; FIRST]);
    let (medium, store) = (any_flash(chip.medium()), any_store(chip.store.clone()));
    let mut volume =
        Volume::<ChaCha20Poly1305>::format(medium, store, &KEY, OPTIONS, table, buffer, &mut From(0xc0))
            .expect("format");
    volume.clear(3).expect("erase");
    volume.put(3, 0, 0xa0).expect("program");
    volume.put(3, 1, 0xa1).expect("program");
    volume.clear(5).expect("erase");
    volume.put(5, 0, 0xa0).expect("program");
    volume.sync().expect("sync");
    volume.clear(3).expect("erase");
    volume.close().expect("close");
    drop(volume);
    let store = any_store(chip.store.clone());
    let volume = Rotating::open_rotating(devices, store, &KEYS, OPTIONS, &mut From(0xd0));
    let mut volume: Rotating = volume.expect("both keys");
    let begun = "9c0103600500000000d0d1d2d3d4d5d600000000000000000000000000000000000005000000000000000000000000000000\
        0000000000000000000000000000c22b62fa9303d455c98481d9f8ab6e00";
    assert_eq!(stored(), begun);
    chip.store.beside(&chip.flash);
    volume.rotate_step().expect("a step");
    let unit = "f654ea2ec9560aa5642c07691157c0961995dd04ec344a1c798a2d2d4f652740b9234391ccf1dc2a89a0a7576070fc57b938\
        5d1857d7f7784a9179b0c3d46a15b76bcce91aaa6743050000000072b557ed8186ae8a29b4d3a04c4611b100000000000000\
        0000000000000000000000000000d0d1d2d3d4d5d6d0d1d2d3d4d5d6";
    // Block 5 goes to the second of two places.
    assert_eq!((raw(BLOCKS as usize + 1), raw(5)), (unit.to_string(), unit.to_string()));
    let moving = "9c0103630600000000d0d1d2d3d4d5d60500000005000000000100d0d1d2d3d4d5d605000000000000000000000000000000\
        0000000000000000000000000000d845797edd9b755fb0eb4f836c4ff0c6";
    let moved = "9c0103600600000000d0d1d2d3d4d5d600000000000000000000000000000000000005000000000000000000000000000000\
        0000000000000000000000000000c33641e4001dac7c14fa5e143db8ba35";
    let writes: Vec<_> = chip.store.writes().iter().map(|write| hex(&write.after)).collect();
    assert_eq!(writes, [moving, moved]);
    volume.finish_rotation().expect("the end");
    let finished = "9c0102600600000000d0d1d2d3d4d5d600000000000000000000000000000000000000000000000000000000000000000000\
        0000000000000000000000000000a28c25bace2327834f36a9e31b0d41a2";
    assert_eq!(stored(), finished);
}

/// Bytes that count from here.
struct From(u8);

impl atrest_secret::Random for From {
    fn fill(&mut self, out: &mut [u8]) -> Result<(), atrest_secret::RandomError> {
        (self.0..).zip(out).for_each(|(byte, to)| *to = byte);
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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
