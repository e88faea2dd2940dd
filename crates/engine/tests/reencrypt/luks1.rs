//! A volume of LUKS1, which is one of LUKS2 while it is re-encrypted. Cut at any write it opens with every passphrase, is resumed, and is
//! one of LUKS1 again whose keyslots have their numbers, as Debian's cryptsetup finds them.

use atrest_engine::reencrypt::{Luks1Error, begin_luks1, end_luks1, recover_interrupted};
use atrest_testkit::Scratch;
use atrest_testkit::cryptsetup::cryptsetup;
use atrest_volume::{ConvertError, LockedVolume, Obstacle, VolumeFormat};

use super::*;

/// Bytes in front of the data: as cryptsetup makes it.
pub const OFFSET: u64 = 2 << 20;
pub const BYTES: usize = 100 << 10;

/// Which keyslots there are, and how long the keys are.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub slots: &'static [u32],
    pub from: usize,
    pub to: usize,
    pub resilience: ResilienceKind,
    /// How far the data moves back, up to `OFFSET`.
    pub shift: u64,
}

const CASES: [Case; 5] = [
    Case { slots: &[0], from: 32, to: 64, resilience: ResilienceKind::Checksum, shift: 0 },
    Case { slots: &[0, 5], from: 64, to: 64, resilience: ResilienceKind::Checksum, shift: 0 },
    // Their new areas leave no room for eight, and are moved at the end.
    Case { slots: &[3, 2], from: 64, to: 64, resilience: ResilienceKind::Journal, shift: 0 },
    Case { slots: &[7, 1], from: 64, to: 32, resilience: ResilienceKind::Checksum, shift: 0 },
    // The eight longer areas that LUKS1 has end behind the place where the data began.
    Case { slots: &[4], from: 32, to: 64, resilience: ResilienceKind::Checksum, shift: 36 << 10 },
];

impl Case {
    /// Whether this is the plaintext, as it was or as far as it is kept.
    pub fn is_of(self, plaintext: &[u8], found: &[u8]) -> bool {
        plaintext.starts_with(found) && found.len() + self.shift as usize >= plaintext.len()
    }
}

/// That of a keyslot.
pub fn passphrase_of(slot: u32) -> Passphrase {
    Passphrase::copy_from(format!("horse {slot}").as_bytes())
}

fn keyslot_at(slot: u32) -> KeyslotOptions {
    KeyslotOptions { slot: Some(slot), ..keyslot() }
}

/// A volume of LUKS1 and its plaintext.
pub fn volume(case: Case, random: &mut Random) -> (FaultDevice, Vec<u8>) {
    let plaintext = random.bytes(BYTES);
    let device = Arc::new(FaultDevice::zeroed((OFFSET - case.shift) as usize + BYTES));
    let [first, rest @ ..] = case.slots else { panic!("a keyslot") };
    let options = FormatOptions {
        key_len: Some(case.from),
        data_offset: Some(OFFSET - case.shift),
        keyslot: keyslot_at(*first),
        ..FormatOptions::default()
    };
    let devices = Devices::together(&*device);
    let mut locked = atrest_volume::format(devices, VolumeFormat::Luks1, &passphrase_of(*first), &options)
        .expect("a volume");
    for slot in rest {
        let credential = Credential::Passphrase(&passphrase_of(*first), None);
        locked.add_key(&*device, credential, &passphrase_of(*slot), &keyslot_at(*slot)).expect("a keyslot");
    }
    let volume = locked.unlock(devices, &passphrase_of(*first), &UnlockOptions::default()).expect("it opens");
    let disk = Disk::new(device.clone(), volume, DiskOptions::default()).expect("a disk");
    disk.write_at(0, &plaintext).expect("written");
    (FaultDevice::new(device.image()), plaintext)
}

pub fn options_of(case: Case) -> ReencryptOptions {
    ReencryptOptions {
        key_len: Some(case.to),
        resilience: case.resilience,
        shift: Some(case.shift).filter(|shift| *shift != 0),
        keyslot: keyslot(),
        ..ReencryptOptions::default()
    }
}

pub fn small_zones() -> RewriteOptions<'static> {
    let mut zones = zones();
    zones.zone = 48 << 10;
    zones
}

fn begin_and_run(device: &FaultDevice, case: Case) -> Result<(), Luks1Error> {
    let passphrases: Vec<(Passphrase, Option<u32>)> =
        case.slots.iter().map(|slot| (passphrase_of(*slot), Some(*slot))).collect();
    let given: Vec<(&Passphrase, Option<u32>)> = passphrases.iter().map(|(p, slot)| (p, *slot)).collect();
    let mut rewriting = begin_luks1(device, None, &given, &options_of(case))?;
    run(&mut rewriting, small_zones(), &mut |_, _| ()).expect("it is done");
    drop(rewriting);
    end_luks1(device).map(drop)?;
    Ok(())
}

/// The plaintext as the volume is opened with the passphrase of a keyslot, if no zone is half-written.
pub fn opened(device: &Arc<FaultDevice>, slot: u32) -> Option<Vec<u8>> {
    let devices = Devices::together(&**device);
    let locked = LockedVolume::read(&**device).expect("a header");
    let volume = match locked.unlock(devices, &passphrase_of(slot), &UnlockOptions::default()) {
        Err(UnlockError::ReencryptionInProgress) => return None,
        volume => volume.expect("it opens"),
    };
    let disk = Disk::new(device.clone(), volume, DiskOptions::default()).expect("a disk");
    let mut found = vec![0; disk.size() as usize];
    disk.read_at(0, &mut found).expect("it is read");
    Some(found)
}

/// What a person does after the power is back.
fn resume(device: &FaultDevice, case: Case) {
    let locked = LockedVolume::read(device).expect("a header");
    let Some(luks2) = locked.luks2() else { return };
    assert!(luks2.was_luks1());
    if !luks2.metadata().config().requirements.is_empty() {
        let passphrase = passphrase_of(case.slots[0]);
        let resumed = luks2.resume_reencryption(Devices::together(device), &passphrase);
        run(&mut resumed.expect("resumed"), small_zones(), &mut |_, _| ()).expect("it is done");
    }
    end_luks1(device).expect("it is of LUKS1 again");
}

/// A volume of LUKS1 with these keyslots and no others.
pub fn check(device: &Arc<FaultDevice>, case: Case, plaintext: &[u8], what: &str) {
    let locked = LockedVolume::read(&**device).expect("a header");
    assert_eq!(locked.format(), VolumeFormat::Luks1, "{what}");
    let mut found: Vec<u32> = locked.info().keyslots.iter().map(|keyslot| keyslot.id).collect();
    found.sort_unstable();
    let mut slots = case.slots.to_vec();
    slots.sort_unstable();
    assert_eq!(found, slots, "{what}");
    for slot in case.slots {
        let opens = locked.test_passphrase(&**device, &passphrase_of(*slot), Some(*slot));
        assert_eq!(opens, Ok(*slot), "{what}");
        let found = opened(device, *slot).expect("no zone is half-written");
        assert!(case.is_of(plaintext, &found), "{what}: the plaintext differs");
    }
}

/// As Debian's cryptsetup sees it.
pub fn check_by_debian(device: &FaultDevice, case: Case) {
    let scratch = Scratch::new();
    let image = scratch.file("image", device.image());
    cryptsetup("isLuks --type luks1").arg(&image).ok();
    cryptsetup("luksDump").arg(&image).ok();
    for slot in case.slots {
        let key = scratch.file("key", format!("horse {slot}"));
        let test = format!("open --test-passphrase --key-slot {slot} --key-file");
        cryptsetup(&test).arg(key).arg(&image).ok();
    }
}

#[test]
fn a_volume_of_luks1_is_reencrypted_and_is_one_of_luks1_again() {
    for case in CASES {
        let (device, plaintext) = volume(case, &mut Random::new(5));
        let before = device.image();
        begin_and_run(&device, case).expect("it is done");
        let after = device.image();
        let kept = before[OFFSET as usize..].chunks(512).zip(after[OFFSET as usize..].chunks(512));
        assert_eq!(kept.filter(|(a, b)| a == b).count(), 0, "{case:?}: sectors are as before");
        check_by_debian(&device, case);
        let device = Arc::new(device);
        check(&device, case, &plaintext, &format!("{case:?}"));
        let found = opened(&device, case.slots[0]).expect("no zone is half-written");
        assert_eq!(found.len() as u64 + case.shift, BYTES as u64, "{case:?}");
        let info = LockedVolume::read(&*device).expect("a header").info();
        assert_eq!(info.segments[0].key_len, Some(case.to as u64));
        if case.slots == [3, 2] {
            // LUKS2 had put one 32 KiB behind the beginning.
            let areas = info.keyslots.iter().filter_map(|keyslot| keyslot.area.as_ref());
            let astray = areas.filter(|area| (area.offset - 4096) % (504 * 512) != 0).count();
            assert_eq!(astray, 0, "{info:?}");
        }
    }
}

#[test]
fn a_power_loss_loses_nothing_of_a_volume_of_luks1() {
    let (mut visited, mut judged) = (0, 0);
    Campaign::new("power loss during re-encryption of LUKS1", 2, 25).run(|seed, random| {
        let case = CASES[(seed as usize - 1) % CASES.len()];
        let (device, plaintext) = volume(case, random);
        begin_and_run(&device, case).expect("it is done");
        // The sector that says which version counts is written whole or not at all.
        let tearing = Tearing::BetweenSectors;
        let limits = Limits { tearing, seed, exhaustive: 3, sampled: 6, ..Limits::default() };
        let stride = if Campaign::is_full() { 1 } else { 7 };
        let (mut number, skip) = (0, random.below(stride));
        device.recording().for_each_power_loss(&limits, |aftermath| {
            number += 1;
            if number % stride != skip {
                return;
            }
            visited += 1;
            let what = format!("{case:?} {}", aftermath.power_loss);
            let after = Arc::new(FaultDevice::new(aftermath.image));
            for slot in case.slots {
                // Before it is resumed: as it is, if no zone is half-written.
                let found = opened(&after, *slot);
                assert!(
                    found.is_none_or(|found| case.is_of(&plaintext, &found)),
                    "{what}: the plaintext differs"
                );
            }
            resume(&after, case);
            check(&after, case, &plaintext, &what);
            if visited % 16 == 1 {
                judged += 1;
                check_by_debian(&after, case);
            }
        });
    });
    println!(
        "LUKS1: {visited} states after a power loss were resumed, {judged} of them judged by cryptsetup"
    );
}

#[test]
fn what_can_not_be_of_luks1_afterwards_is_refused_and_nothing_is_written() {
    let all = Case { slots: &[0, 1, 2, 3, 4], ..CASES[1] };
    let one = CASES[0];
    let given = |case: Case| -> Vec<(Passphrase, Option<u32>)> {
        case.slots.iter().map(|slot| (passphrase_of(*slot), Some(*slot))).collect()
    };
    let refused = |case: Case, options: ReencryptOptions| {
        let (device, _) = volume(case, &mut Random::new(6));
        let before = device.image();
        let given = given(case);
        let given: Vec<(&Passphrase, Option<u32>)> = given.iter().map(|(p, slot)| (p, *slot)).collect();
        let error = begin_luks1(&device, None, &given, &options).map(drop).expect_err("refused");
        assert!(device.image() == before, "{error}: it was written to");
        error
    };
    let cannot = |obstacle| Luks1Error::Convert(ConvertError::Cannot(obstacle));
    let unit = ReencryptOptions { data_unit: Some(4096), ..options_of(one) };
    assert_eq!(refused(one, unit), cannot(Obstacle::DataUnit { bytes: 4096 }));
    let mut argon = options_of(one);
    argon.keyslot.pbkdf.kind = Some(PbkdfKind::Argon2id);
    argon.keyslot.pbkdf.memory_kib = Some(32);
    argon.keyslot.pbkdf.lanes = Some(1);
    argon.keyslot.pbkdf.forced_iterations = Some(4);
    assert!(matches!(
        refused(one, argon),
        Luks1Error::Convert(ConvertError::Cannot(Obstacle::Keyslot { .. }))
    ));
    // Each needs a second place meanwhile, and there are eight.
    assert!(matches!(refused(all, options_of(all)), Luks1Error::Reencrypt(_)));
    let wrong = passphrase_of(9);
    let (device, _) = volume(one, &mut Random::new(6));
    let before = device.image();
    let error = begin_luks1(&device, None, &[(&wrong, None)], &options_of(one)).map(drop).expect_err("wrong");
    assert!(matches!(error, Luks1Error::Reencrypt(_)) && device.image() == before, "{error}");
}

#[test]
fn data_that_would_move_for_nothing_or_too_far_is_refused_before_anything_is_written() {
    let case = CASES[0];
    let given = passphrase_of(0);
    let (device, _) = volume(case, &mut Random::new(8));
    let begin = |device: &FaultDevice, header: Option<&FaultDevice>, shift| {
        let options = ReencryptOptions { shift: Some(shift), ..options_of(case) };
        let before = (device.image(), header.map(FaultDevice::image));
        let header = header.map(|header| header as &dyn atrest_device::Media);
        let error = begin_luks1(device, header, &[(&given, None)], &options).map(drop).expect_err("refused");
        assert!(device.image() == before.0, "{error}: it was written to");
        (error, before.1)
    };
    // More data than that.
    let mut image = device.image();
    image.resize(136 << 20, 0);
    let large = FaultDevice::new(image);
    let most = (126 << 20) + (32 << 10);
    let too_far = Luks1Error::ShiftTooFar { most };
    for shift in [128 << 20, most + 512] {
        assert_eq!(begin(&large, None, shift).0, too_far);
    }
    assert_eq!(begin(&device, None, u64::MAX - 511).0, too_far);
    let furthest = ReencryptOptions { shift: Some(most), ..options_of(case) };
    begin_luks1(&large, None, &[(&given, None)], &furthest).map(drop).expect("it begins");

    let (data, header) = (FaultDevice::zeroed(4 << 20), FaultDevice::zeroed(4 << 20));
    let options = FormatOptions { keyslot: keyslot_at(0), ..FormatOptions::default() };
    let devices = Devices::detached(&header, &data);
    atrest_volume::format(devices, VolumeFormat::Luks1, &given, &options).expect("a volume");
    let (error, before) = begin(&data, Some(&header), 64 << 10);
    assert_eq!(error, Luks1Error::ShiftDetached);
    assert!(before.is_some_and(|before| before == header.image()), "the header was written to");
    let begun = begin_luks1(&data, Some(&header), &[(&given, None)], &options_of(case));
    begun.map(drop).expect("without a shift it begins");
}

/// Eight keyslots leave no room for another, and seven of them may go.
#[test]
fn keyslots_that_made_room_for_nothing_are_named() {
    let case = Case { slots: &[0, 1, 2, 3, 4, 5, 6, 7], ..CASES[1] };
    // The second header of LUKS2, inside the keyslot that stays; and the third keyslot.
    for (offset, gone) in [(16 << 10, &[1, 2, 3, 4, 5, 6, 7][..]), (4096 + 2 * 504 * 512, &[1])] {
        let (device, plaintext) = volume(case, &mut Random::new(9));
        device.fail(Fault::UnwritableRange { offset, len: 512 });
        let given = passphrase_of(0);
        let options = ReencryptOptions { drop_slots: (1..8).collect(), ..options_of(case) };
        let error =
            begin_luks1(&device, None, &[(&given, Some(0))], &options).map(drop).expect_err("it fails");
        assert!(error.to_string().contains(&format!("keyslots {gone:?} are removed already")), "{error}");
        assert!(matches!(&error, Luks1Error::Dropped { slots, .. } if slots == gone), "{error:?}");
        device.heal();
        let left = LockedVolume::read(&device).expect("a header").info().keyslots;
        let gone_now: Vec<u32> = (0..8).filter(|slot| left.iter().all(|found| found.id != *slot)).collect();
        assert_eq!(gone_now, gone);
        assert!(opened(&Arc::new(device), 0).as_deref() == Some(&plaintext[..]));
    }
}

/// Plain opens complete nothing that is not theirs; what is half-written is completed as of any other volume.
#[test]
fn a_half_written_zone_of_what_was_luks1_is_recovered_as_any_other() {
    let case = CASES[0];
    let (device, plaintext) = volume(case, &mut Random::new(7));
    let given = passphrase_of(0);
    let rewriting = begin_luks1(&device, None, &[(&given, None)], &options_of(case));
    let mut rewriting = rewriting.expect("it begins");
    device.fail(Fault::UnwritableRange { offset: OFFSET + (60 << 10), len: 512 });
    run(&mut rewriting, small_zones(), &mut |_, _| ()).expect_err("a sector can't be written");
    drop(rewriting);
    device.heal();
    let device = Arc::new(device);
    assert_eq!(opened(&device, 0), None, "a zone is half-written");
    let locked = LockedVolume::read(&*device).expect("a header");
    let luks2 = locked.luks2().expect("of LUKS2 meanwhile");
    let resumed = luks2.resume_reencryption(Devices::together(&*device), &given);
    assert!(matches!(recover_interrupted(&mut resumed.expect("resumed")), Ok(false)));
    assert!(opened(&device, 0).as_deref() == Some(&plaintext[..]));
    resume(&device, case);
    check(&device, case, &plaintext, "at the end");
}
