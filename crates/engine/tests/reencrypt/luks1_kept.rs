//! A volume of LUKS1 whose header lies in a file while it is re-encrypted, as eight keyslots have no second place in front of the data. Cut
//! at any write, one of the two headers counts and opens with every passphrase; resumed, it is a volume of LUKS1 again.

use atrest_engine::reencrypt::{Luks1Error, begin_kept, begin_luks1, end_kept, keep_luks1};
use atrest_volume::{
    ConvertError, Front, LockedVolume, Obstacle, VolumeFormat, convert, front, set_aside, uuid_set_aside,
};

use super::luks1::{
    BYTES, Case, OFFSET, check, check_by_debian, opened, options_of, passphrase_of, small_zones, volume,
};
use super::*;

/// Bytes of the file: enough for sixteen keyslots.
const KEPT: u64 = 6 << 20;
const ALL: Case = Case {
    slots: &[0, 1, 2, 3, 4, 5, 6, 7],
    from: 64,
    to: 64,
    resilience: ResilienceKind::Checksum,
    shift: 0,
};
const CASES: [Case; 3] = [
    ALL,
    Case { resilience: ResilienceKind::Journal, to: 32, ..ALL },
    Case { slots: &[6, 1, 4, 7, 3], ..ALL },
];

/// Data and file, one behind the other.
fn windows(device: &Arc<FaultDevice>) -> (Window, Window) {
    let window = |offset, size| Window { device: device.clone(), offset, size };
    let data = OFFSET + BYTES as u64;
    (window(0, data), window(data, KEPT))
}

/// A volume, and an empty file behind it.
fn with_file(case: Case, random: &mut Random) -> (Arc<FaultDevice>, Vec<u8>) {
    let (device, plaintext) = volume(case, random);
    let mut image = device.image();
    image.resize(image.len() + KEPT as usize, 0);
    (Arc::new(FaultDevice::new(image)), plaintext)
}

fn given<T>(case: Case, then: impl FnOnce(&[(&Passphrase, Option<u32>)]) -> T) -> T {
    let passphrases: Vec<(Passphrase, u32)> =
        case.slots.iter().map(|slot| (passphrase_of(*slot), *slot)).collect();
    let given: Vec<(&Passphrase, Option<u32>)> =
        passphrases.iter().map(|(p, slot)| (p, Some(*slot))).collect();
    then(&given)
}

fn keep(device: &Arc<FaultDevice>, case: Case) -> Result<(), Luks1Error> {
    let (data, kept) = windows(device);
    given(case, |given| keep_luks1(&data, &kept, given, &options_of(case)))
}

fn begin_run_and_end(device: &Arc<FaultDevice>, case: Case) {
    let (data, kept) = windows(device);
    given(case, |given| {
        let begun = begin_kept(&data, &kept, given, &options_of(case));
        run(&mut begun.expect("it begins"), small_zones(), &mut |_, _| ()).expect("it is done");
    });
    end_kept(&data, &kept).expect("it is of LUKS1 again");
}

/// What a person does after the power is back: the file goes at the end.
fn resume(device: &Arc<FaultDevice>, case: Case) {
    let (data, kept) = windows(device);
    let locked = LockedVolume::read(&kept).expect("a header in the file");
    let luks2 = locked.luks2().expect("of LUKS2");
    let begun = !luks2.metadata().config().requirements.is_empty();
    match front(&data, luks2).expect("it is read") {
        Front::Exported | Front::PutBack => assert!(!begun, "begun, and both headers count"),
        Front::Other => panic!("no header of this volume in front of the data"),
        Front::SetAside => {
            if begun {
                let resumed =
                    luks2.resume_reencryption(Devices::detached(&kept, &data), &passphrase_of(case.slots[0]));
                run(&mut resumed.expect("resumed"), small_zones(), &mut |_, _| ()).expect("it is done");
            }
            end_kept(&data, &kept).expect("it is of LUKS1 again");
        }
    }
}

fn is_set_aside(image: &[u8]) -> bool {
    image.starts_with(b"LUKS\xde\xad")
}

/// The volume alone, without the file.
fn volume_alone(device: &FaultDevice) -> Arc<FaultDevice> {
    Arc::new(FaultDevice::new(device.image()[..OFFSET as usize + BYTES].to_vec()))
}

/// The plaintext as the header that counts has it, if no zone is half-written.
fn opened_by_what_counts(device: &Arc<FaultDevice>, slot: u32) -> Option<Vec<u8>> {
    let (data, kept) = windows(device);
    let locked = LockedVolume::read(&kept).expect("a header in the file");
    if front(&data, locked.luks2().expect("of LUKS2")).expect("it is read") != Front::SetAside {
        return opened(&volume_alone(device), slot);
    }
    assert!(LockedVolume::read(&data).is_err(), "a header that was set aside is read");
    let volume =
        match locked.unlock(Devices::detached(&kept, &data), &passphrase_of(slot), &UnlockOptions::default())
        {
            Err(UnlockError::ReencryptionInProgress) => return None,
            volume => volume.expect("it opens"),
        };
    let disk = Disk::new(Arc::new(windows(device).0), volume, DiskOptions::default()).expect("a disk");
    let mut found = vec![0; disk.size() as usize];
    disk.read_at(0, &mut found).expect("it is read");
    Some(found)
}

#[test]
fn eight_keyslots_of_luks1_have_room_in_a_file() {
    for case in CASES {
        let (device, plaintext) = with_file(case, &mut Random::new(15));
        let (data, kept) = windows(&device);
        let before = device.image();
        let in_place = given(case, |given| begin_luks1(&data, None, given, &options_of(case)).map(drop));
        in_place.expect_err("there is no room in front of the data");
        keep(&device, case).expect("there is room in the file");
        assert!(device.image()[..before.len() - KEPT as usize] == before[..before.len() - KEPT as usize]);
        begin_run_and_end(&device, case);
        let after = device.image();
        // Data and keyslots, those that are not in use, too.
        let sectors = |image: &[u8]| -> Vec<Vec<u8>> {
            image[4096..OFFSET as usize + BYTES].chunks(512).map(<[u8]>::to_vec).collect()
        };
        let kept_sectors = sectors(&before).into_iter().zip(sectors(&after)).filter(|(a, b)| a == b);
        assert_eq!(kept_sectors.count(), 0, "{case:?}: sectors are as before");
        let alone = volume_alone(&device);
        check(&alone, case, &plaintext, &format!("{case:?}"));
        check_by_debian(&alone, case);
        // A header in a file goes back to where it was, and is one of LUKS1 nowhere else.
        let error = convert(&kept, VolumeFormat::Luks1).expect_err("it is not converted there");
        assert_eq!(error, ConvertError::Cannot(Obstacle::Tokens));
    }
}

#[test]
fn a_power_loss_loses_nothing_of_a_volume_whose_header_is_in_a_file() {
    let (mut visited, mut judged, mut fronts) = (0, 0, [0; 2]);
    Campaign::new("power loss during re-encryption of LUKS1 with its header in a file", 1, 12).run(
        |seed, random| {
            let case = CASES[(seed as usize - 1) % CASES.len()];
            let (device, plaintext) = with_file(case, random);
            keep(&device, case).expect("there is room in the file");
            let device = Arc::new(FaultDevice::new(device.image()));
            begin_run_and_end(&device, case);
            // The sector that says which header counts is written whole or not at all.
            let tearing = Tearing::BetweenSectors;
            let limits = Limits { tearing, seed, exhaustive: 3, sampled: 6, ..Limits::default() };
            let stride = if Campaign::is_full() { 2 } else { 23 };
            let (mut number, skip) = (0, random.below(stride));
            device.recording().for_each_power_loss(&limits, |aftermath| {
                number += 1;
                // The first ones are of before the header was set aside.
                if number > 3 && number % stride != skip {
                    return;
                }
                visited += 1;
                fronts[usize::from(is_set_aside(&aftermath.image))] += 1;
                let what = format!("{case:?} {}", aftermath.power_loss);
                let after = Arc::new(FaultDevice::new(aftermath.image));
                let slot = case.slots[visited % case.slots.len()];
                let found = opened_by_what_counts(&after, slot);
                assert!(
                    found.is_none_or(|found| case.is_of(&plaintext, &found)),
                    "{what}: the plaintext differs"
                );
                resume(&after, case);
                let alone = volume_alone(&after);
                check(&alone, case, &plaintext, &what);
                if visited % 16 == 1 {
                    judged += 1;
                    check_by_debian(&alone, case);
                }
            });
        },
    );
    assert!(fronts.iter().all(|count| *count > 0), "{fronts:?}");
    println!(
        "LUKS1, header in a file: {visited} states after a power loss were resumed, {judged} of them judged by cryptsetup"
    );
}

#[test]
fn a_header_in_a_file_counts_for_its_own_volume_alone() {
    let (device, _) = with_file(ALL, &mut Random::new(16));
    keep(&device, ALL).expect("there is room in the file");
    let (_, kept) = windows(&device);
    let locked = LockedVolume::read(&kept).expect("a header in the file");
    let luks2 = locked.luks2().expect("of LUKS2");
    // Of another volume, of another key of the volume, and of none.
    let (other, _) = volume(ALL, &mut Random::new(17));
    let mut image = device.image()[..OFFSET as usize + BYTES].to_vec();
    // Salt of the key's digest.
    image[132] ^= 1;
    let rekeyed = FaultDevice::new(image);
    let none = FaultDevice::zeroed(OFFSET as usize + BYTES);
    // Another volume whose header is in a file, too.
    let mut image = other.image();
    image[..6].copy_from_slice(b"LUKS\xde\xad");
    let others = FaultDevice::new(image);
    assert_eq!(
        uuid_set_aside(&others),
        Ok(Some(LockedVolume::read(&other).expect("a header").uuid().to_owned()))
    );
    for media in [&other, &others, &rekeyed, &none] {
        let before = media.image();
        assert_eq!(front(media, luks2), Ok(Front::Other));
        let refused = given(ALL, |given| begin_kept(media, &kept, given, &options_of(ALL)).map(drop));
        assert_eq!(refused, Err(Luks1Error::Convert(ConvertError::Cannot(Obstacle::OtherFront))));
        assert_eq!(end_kept(media, &kept).map(drop), Err(ConvertError::Cannot(Obstacle::OtherFront)));
        assert!(media.image() == before, "it was written to");
    }
    // A file of before a re-encryption that is done: its data would be encrypted twice.
    let case = CASES[2];
    let (rekeyed, _) = with_file(case, &mut Random::new(19));
    keep(&rekeyed, case).expect("there is room in the file");
    let (front_of, file) = windows(&rekeyed);
    given(case, |given| drop(begin_kept(&front_of, &file, given, &options_of(case)).expect("it begins")));
    let stale = FaultDevice::new(rekeyed.image()[OFFSET as usize + BYTES..].to_vec());
    resume(&rekeyed, case);
    let before = rekeyed.image();
    let locked = LockedVolume::read(&stale).expect("a header in the file");
    let begun = locked.luks2().expect("of LUKS2");
    assert_eq!(front(&front_of, begun), Ok(Front::Other));
    assert_eq!(set_aside(&front_of, begun), Err(ConvertError::Cannot(Obstacle::OtherFront)));
    let not_its_front = |found: Result<(), ReencryptError>| {
        let refused = ReencryptError::Change(Box::new(UnlockError::NotItsFront.into()));
        assert_eq!(found, Err(refused));
    };
    let resumed = |media: &Window| {
        let passphrase = passphrase_of(case.slots[0]);
        begun.resume_reencryption(Devices::detached(&stale, media), &passphrase).map(drop)
    };
    not_its_front(resumed(&front_of));
    assert!(rekeyed.image() == before, "it was written to");
    // The same while the next re-encryption has set its header aside.
    keep(&rekeyed, case).expect("there is room in the file");
    given(case, |given| drop(begin_kept(&front_of, &file, given, &options_of(case)).expect("it begins")));
    assert_eq!(front(&front_of, begun), Ok(Front::Other));
    not_its_front(resumed(&front_of));
    let opened =
        locked.unlock(Devices::detached(&stale, &front_of), &passphrase_of(1), &UnlockOptions::default());
    assert!(opened.is_err(), "opened with a header of before");
    // A backup that counts again in the middle of one.
    let next = LockedVolume::read(&file).expect("a header in the file");
    let next = next.luks2().expect("of LUKS2");
    let aside = rekeyed.image();
    front_of.write_at(0, b"LUKS\xba\xbe").expect("written");
    assert_eq!(front(&front_of, next), Ok(Front::Exported));
    assert_eq!(set_aside(&front_of, next), Err(ConvertError::Cannot(Obstacle::LaterFront)));
    not_its_front(next.resume_reencryption(Devices::detached(&file, &front_of), &passphrase_of(1)).map(drop));
    front_of.write_at(0, &aside[..6]).expect("written");
    resume(&rekeyed, case);
    // What counts is not written over.
    let (data, kept) = windows(&device);
    let before = device.image();
    assert_eq!(front(&data, luks2), Ok(Front::Exported));
    assert_eq!(end_kept(&data, &kept).map(drop), Err(ConvertError::Cannot(Obstacle::OtherFront)));
    assert!(device.image() == before, "it was written to");
    // Data on another device has its header in a file already.
    let detached = Case { slots: &[0], ..ALL };
    let header = FaultDevice::zeroed(4 << 20);
    let format =
        FormatOptions { keyslot: KeyslotOptions { slot: Some(0), ..keyslot() }, ..FormatOptions::default() };
    let devices = Devices::detached(&header, &none);
    atrest_volume::format(devices, VolumeFormat::Luks1, &passphrase_of(0), &format).expect("a volume");
    let refused = given(detached, |given| keep_luks1(&header, &kept, given, &options_of(detached)));
    assert_eq!(refused, Err(Luks1Error::Convert(ConvertError::Cannot(Obstacle::Detached))));
    let shifted = ReencryptOptions { shift: Some(4096), ..options_of(ALL) };
    let refused = given(ALL, |given| keep_luks1(&data, &kept, given, &shifted));
    assert_eq!(refused, Err(Luks1Error::ShiftDetached));
    assert!(device.image() == before, "it was written to");
}

#[test]
fn what_could_not_be_of_luks1_afterwards_does_not_go_to_a_file() {
    let (device, _) = with_file(ALL, &mut Random::new(18));
    let (data, kept) = windows(&device);
    let before = device.image();
    let unit = ReencryptOptions { data_unit: Some(4096), ..options_of(ALL) };
    let refused = given(ALL, |given| keep_luks1(&data, &kept, given, &unit));
    assert_eq!(refused, Err(Luks1Error::Convert(ConvertError::Cannot(Obstacle::DataUnit { bytes: 4096 }))));
    // Longer keys leave no room for eight in front of the data.
    let short = Case { from: 32, ..ALL };
    let small = FaultDevice::zeroed((2 << 20) + BYTES);
    let format = FormatOptions {
        key_len: Some(32),
        data_offset: Some(1100 << 10),
        keyslot: KeyslotOptions { slot: Some(0), ..keyslot() },
        ..FormatOptions::default()
    };
    atrest_volume::format(Devices::together(&small), VolumeFormat::Luks1, &passphrase_of(0), &format)
        .expect("a volume");
    let image = small.image();
    let one = Case { slots: &[0], ..short };
    let refused = given(one, |given| keep_luks1(&small, &kept, given, &options_of(one)));
    assert_eq!(refused, Err(Luks1Error::Convert(ConvertError::Cannot(Obstacle::NoRoom))));
    let wrong = passphrase_of(9);
    keep_luks1(&data, &kept, &[(&wrong, None)], &options_of(ALL)).expect_err("wrong");
    assert!(device.image() == before && small.image() == image, "it was written to");
}
