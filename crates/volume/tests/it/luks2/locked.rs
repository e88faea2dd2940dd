//! Unlocking: which keyslot answers, what is said when none does, and what the volume is then.

use atrest_device::BlockDevice;
use atrest_format::integrity::SuperblockError;
use atrest_format::luks2::{HeaderError, Integrity, Requirement, Segment, SegmentKind, SegmentSize};
use atrest_testkit::FaultDevice;
use atrest_testkit::fault::Fault;
use atrest_volume::luks2::reencrypt::ReencryptOptions;
use atrest_volume::luks2::{self, Luks2};
use atrest_volume::{
    Credential, CryptFlags, Devices, FormatOptions, LockedVolume, OpenError, Priority, UnlockError,
    UnlockOptions, VolumeFormat, VolumeKey,
};

use crate::luks2::reencrypt::store;
use crate::luks2::support::*;

const DATA: u64 = 2 << 20;

fn unlock(
    device: &FaultDevice,
    text: &str,
    options: &UnlockOptions,
) -> Result<atrest_volume::Volume, UnlockError> {
    Luks2::read(device).expect("reads").unlock(Devices::together(device), &passphrase(text), options)
}

fn two() -> (FaultDevice, Luks2) {
    let (device, mut luks) = volume();
    let one = passphrase("one");
    luks.add_key(&device, Credential::Passphrase(&one, None), &passphrase("two"), &keyslot()).expect("adds");
    device.forget();
    (device, luks)
}

fn damage(device: &FaultDevice, luks: &Luks2, slot: u32) -> u64 {
    let offset = luks.metadata().keyslot(slot).expect("there").area.offset + 512;
    device.write_zeroes(offset, 512).expect("writes");
    offset
}

#[test]
fn the_failure_that_is_told_is_the_one_that_a_person_can_do_something_about() {
    let options = UnlockOptions::default();
    let (device, luks) = two();
    assert_eq!(unlock(&device, "x", &options).err(), Some(UnlockError::WrongPassphrase));
    let offset = damage(&device, &luks, 1);
    let both = UnlockError::WrongPassphraseOrDamaged { slot: 1 };
    assert_eq!(unlock(&device, "two", &options).err(), Some(both.clone()));
    assert_eq!(unlock(&device, "x", &options).err(), Some(both));
    assert_eq!(opens(&device, "one"), Some(0));
    let asked = UnlockOptions { slot: Some(1), ..UnlockOptions::default() };
    let alone = UnlockError::KeyslotDamaged { slot: 1, offset };
    assert_eq!(unlock(&device, "two", &asked).err(), Some(alone.clone()));
    let first = damage(&device, &luks, 0);
    let found = unlock(&device, "x", &options).err();
    assert_eq!(
        found,
        Some(UnlockError::KeyslotDamaged { slot: 0, offset: first }),
        "nothing intact refused it"
    );
    // A failing device outweighs all of that.
    device.fail(Fault::UnreadableRange { offset: luks.metadata().keyslots()[0].area.offset, len: 1 });
    assert!(matches!(unlock(&device, "x", &options).err(), Some(UnlockError::Device(_))));
    let none = UnlockOptions { slot: Some(7), ..UnlockOptions::default() };
    assert_eq!(unlock(&device, "x", &none).err(), Some(UnlockError::NoSuchKeyslot { slot: 7 }));
}

#[test]
fn preferred_keyslots_answer_first_and_ignored_ones_only_by_number() {
    let (device, mut luks) = volume();
    let one = passphrase("one");
    for _ in 1..3 {
        luks.add_key(&device, Credential::Passphrase(&one, None), &one, &keyslot()).expect("adds");
    }
    assert_eq!(opens(&device, "one"), Some(0));
    luks.set_priority(&device, 2, Priority::Prefer).expect("sets");
    assert_eq!(opens(&device, "one"), Some(2));
    luks.set_priority(&device, 2, Priority::Ignore).expect("sets");
    luks.set_priority(&device, 0, Priority::Ignore).expect("sets");
    assert_eq!(opens(&device, "one"), Some(1));
    assert_eq!(luks.test_passphrase(&device, &one, Some(2)), Ok(2));
    // Unbound keyslots are tried last, however they are preferred, and never for the data.
    let key = VolumeKey::copy_from(&[3; 32]);
    let unbound = luks.add_unbound_key(&device, &key, &one, &keyslot()).expect("adds");
    luks.set_priority(&device, unbound, Priority::Prefer).expect("sets");
    assert_eq!((opens(&device, "one"), luks.test_passphrase(&device, &one, None)), (Some(1), Ok(1)));
    for slot in 0..3 {
        luks.kill_slot(&device, slot, true).expect("removes");
    }
    assert_eq!(luks.test_passphrase(&device, &one, None), Ok(unbound));
    assert_eq!(unlock(&device, "one", &UnlockOptions::default()).err(), Some(UnlockError::NoKeyslot));
}

#[test]
fn a_volume_is_for_reading_where_the_caller_the_device_or_its_cipher_says_so() {
    let (device, luks) = volume();
    let read_only = |options: UnlockOptions| {
        let opened = luks.unlock(Devices::together(&device), &passphrase("one"), &options);
        opened.expect("opens").read_only()
    };
    assert!(!read_only(UnlockOptions::default()));
    assert!(read_only(UnlockOptions { read_only: true, ..UnlockOptions::default() }));
    device.fail(Fault::ReadOnly);
    assert!(read_only(UnlockOptions::default()));
    device.heal();
    // A cipher that is safe for one snapshot: nobody makes such a volume here, but others do.
    let like = luks.metadata().segments()[0].clone();
    let SegmentKind::Crypt { sector_size, .. } = like.kind else { panic!("{like:?}") };
    let kind = SegmentKind::Crypt {
        encryption: "aes-ctr-plain64".into(),
        sector_size,
        iv_tweak: 0,
        integrity: None,
    };
    let options = FormatOptions { key_len: Some(32), ..small() };
    let other = FaultDevice::zeroed(DEVICE_SIZE);
    let ctr = luks2::format(Devices::together(&other), &passphrase("one"), &options).expect("formats");
    let metadata = ctr.metadata().compose().segments(&[Segment { kind, ..like }], &[(0, vec![0])]);
    store(&other, &ctr, metadata.finish().expect("within the rules"));
    let opened = unlock(&other, "one", &UnlockOptions::default()).expect("opens");
    assert!(opened.read_only(), "a second write would give plaintext away");
    let again = UnlockOptions { single_snapshot: true, ..UnlockOptions::default() };
    assert!(!unlock(&other, "one", &again).expect("opens").read_only());
    let reencrypt = ReencryptOptions { keyslot: keyslot(), ..ReencryptOptions::default() };
    let ctr = Luks2::read(&other).expect("reads");
    let begun = ctr.begin_reencryption(Devices::together(&other), &[(&passphrase("one"), None)], &reencrypt);
    assert!(begun.is_err(), "it would keep its cipher");
}

#[test]
fn segments_follow_one_another_and_a_row_is_cut_by_the_data_unit() {
    let (device, luks) = volume();
    let like = luks.metadata().segments()[0].clone();
    let part = |id: u32, offset: u64, size: SegmentSize| Segment { id, offset, size, ..like.clone() };
    let row = [
        part(0, DATA + 8192, SegmentSize::Fixed(4096)),
        part(1, DATA, SegmentSize::Fixed(8192)),
        part(2, DATA + 12_288, SegmentSize::Dynamic),
    ];
    let metadata = luks.metadata().compose().segments(&row, &[(0, vec![0, 1, 2])]);
    store(&device, &luks, metadata.finish().expect("within the rules"));
    let keep = UnlockOptions { keep_key: true, ..UnlockOptions::default() };
    let mut opened = unlock(&device, "one", &keep).expect("opens");
    let places = |volume: &atrest_volume::Volume| {
        let places = volume.segments().iter().map(|s| (s.start, s.len, s.media_offset)).collect::<Vec<_>>();
        let targets = volume.targets().iter().map(|t| (t.start, t.len, t.media_offset)).collect::<Vec<_>>();
        assert_eq!(places, targets);
        places
    };
    let len = device.size() - DATA;
    let all = [(0, 4096, DATA + 8192), (4096, 8192, DATA), (12_288, len - 12_288, DATA + 12_288)];
    assert_eq!((places(&opened).as_slice(), opened.size(), opened.data_unit()), (&all[..], len, 4096));
    assert_eq!((opened.format(), opened.keyslot()), (VolumeFormat::Luks2, Some(0)));
    opened.limit(u64::MAX);
    opened.limit(len);
    assert_eq!(opened.size(), len);
    opened.limit(12_288 + 4096 + 4095);
    assert_eq!(places(&opened), [all[0], all[1], (12_288, 4096, DATA + 12_288)]);
    assert_eq!(opened.size(), 16_384);
    opened.limit(12_288);
    assert_eq!((places(&opened), opened.size()), (all[..2].to_vec(), 12_288));
    opened.limit(8191);
    assert_eq!((places(&opened), opened.size()), (vec![all[0]], 4096));
    opened.limit(4095);
    assert_eq!((places(&opened), opened.size()), (vec![], 0));

    // Without the key there is nothing to hand to the kernel.
    assert!(unlock(&device, "one", &UnlockOptions::default()).expect("opens").targets().is_empty());
    // A device that ends before the last segment has a data unit, or inside a fixed one.
    let cut = |len: u64| FaultDevice::new(device.image()[..len as usize].to_vec());
    let needs = DATA + 12_288 + 4096;
    assert_eq!(unlock(&cut(needs), "one", &keep).expect("opens").size(), 16_384);
    let small = UnlockError::DataDeviceTooSmall { needs, has: needs - 1 };
    assert_eq!(unlock(&cut(needs - 1), "one", &keep).err(), Some(small));
    let small = UnlockError::DataDeviceTooSmall { needs: DATA + 12_288, has: DATA + 9000 };
    assert_eq!(unlock(&cut(DATA + 9000), "one", &keep).err(), Some(small));
}

#[test]
fn what_has_another_key_another_kind_or_tags_is_not_opened() {
    let (device, luks) = two();
    let like = luks.metadata().segments()[0].clone();
    let put = |segment: Segment| {
        let metadata = luks.metadata().compose().segments(&[segment], &[(0, vec![0])]);
        store(&device, &luks, metadata.finish().expect("within the rules"));
        unlock(&device, "one", &UnlockOptions::default()).err()
    };
    let kind = SegmentKind::Unknown("of-tomorrow".into());
    assert_eq!(put(Segment { kind, ..like.clone() }), Some(UnlockError::UnsupportedType));
    let SegmentKind::Crypt { encryption, .. } = &like.kind else { panic!("{like:?}") };
    let integrity = |kind: &str| {
        Some(Integrity {
            key_size: None,
            kind: kind.into(),
            journal_encryption: "none".into(),
            journal_integrity: "none".into(),
        })
    };
    let tagged = |kind: &str, encryption: &str| SegmentKind::Crypt {
        encryption: encryption.into(),
        sector_size: 4096,
        iv_tweak: 0,
        integrity: integrity(kind),
    };
    let kind = tagged("hmac(sha256)", encryption);
    // The key is long enough for a cipher of 32 bytes and the MAC; what keeps the tags is not there.
    let no_tags = UnlockError::Superblock(SuperblockError::Missing);
    assert_eq!(put(Segment { kind, ..like.clone() }), Some(no_tags));
    let locked = Luks2::read(&device).expect("reads");
    let reencrypt =
        ReencryptOptions { keyslot: keyslot(), drop_slots: vec![1], ..ReencryptOptions::default() };
    let begin = |luks: &Luks2| {
        luks.begin_reencryption(Devices::together(&device), &[(&passphrase("one"), None)], &reencrypt).err()
    };
    assert_eq!(begin(&locked), Some(UnlockError::Authenticated.into()));
    let kind = SegmentKind::Crypt {
        encryption: "of-tomorrow".into(),
        sector_size: 4096,
        iv_tweak: 0,
        integrity: None,
    };
    assert!(matches!(put(Segment { kind, ..like.clone() }), Some(UnlockError::UnsupportedCipher(_))));
    // Two segments: not re-encrypted, as nobody makes them.
    let half = Segment { size: SegmentSize::Fixed(4096), ..like.clone() };
    let rest = Segment { id: 1, offset: DATA + 4096, ..like };
    let metadata = luks.metadata().compose().segments(&[half, rest], &[(0, vec![0, 1])]);
    store(&device, &luks, metadata.finish().expect("within the rules"));
    assert_eq!(begin(&Luks2::read(&device).expect("reads")), Some(UnlockError::UnsupportedType.into()));
}

#[test]
fn flags_of_the_header_reach_the_volume_and_either_side_can_ask() {
    let names = [
        "allow-discards",
        "same-cpu-crypt",
        "submit-from-crypt-cpus",
        "no-read-workqueue",
        "no-write-workqueue",
        "no-journal",
    ];
    let none = CryptFlags::default();
    for name in names {
        let flags = CryptFlags::from_names([name]);
        assert_ne!(flags, none, "{name}");
        assert_eq!((flags.or(none), none.or(flags), flags.or(flags)), (flags, flags, flags));
        let (device, luks) = volume();
        let text = luks
            .metadata()
            .to_json()
            .replace("\"config\":{", &format!("\"config\":{{\"flags\":[\"{name}\"],"));
        let mut area = text.into_bytes();
        area.resize(0x3000, 0);
        store(&device, &luks, atrest_format::luks2::Metadata::parse(&area).expect("within the rules"));
        assert_eq!(unlock(&device, "one", &UnlockOptions::default()).expect("opens").flags(), flags);
    }
    let all = CryptFlags::from_names(names);
    assert!(names.iter().all(|name| CryptFlags::from_names([*name]).or(all) == all));
    assert_eq!(none.or(none), none);
}

#[test]
fn one_face_answers_for_both_formats() {
    let one = passphrase("one");
    for format in [VolumeFormat::Luks1, VolumeFormat::Luks2] {
        let device = FaultDevice::zeroed(8 << 20);
        let devices = Devices::together(&device);
        let options = FormatOptions { keyslot: keyslot(), ..FormatOptions::default() };
        let options = match format {
            VolumeFormat::Luks2 => FormatOptions { keyslots_size: Some(KEYSLOTS_SIZE), ..options },
            _ => options,
        };
        atrest_volume::format(devices, format, &one, &options).expect("formats");
        let mut volume = LockedVolume::read(&device).expect("reads");
        assert_eq!((volume.format(), volume.luks2().is_some()), (format, format == VolumeFormat::Luks2));
        assert_eq!(volume.luks2_mut().is_ok(), format == VolumeFormat::Luks2);
        assert_eq!(volume.check_place(devices), Ok(()));
        assert_eq!(volume.uuid(), volume.info().uuid);
        let short = FaultDevice::zeroed(4096);
        let placed = volume.check_place(Devices { data: &short, header: &short, detached: false });
        assert_eq!(placed.is_ok(), format == VolumeFormat::Luks2, "{placed:?}");
        assert_eq!((volume.is_last_keyslot(0), volume.opens_data(0)), (Ok(true), true));
        assert!(!volume.opens_data(1) && volume.is_last_keyslot(1).is_err());
        assert_eq!(
            volume.add_key(&device, Credential::Passphrase(&one, None), &passphrase("two"), &keyslot()),
            Ok(1)
        );
        assert_eq!((volume.is_last_keyslot(0), volume.is_last_keyslot(1)), (Ok(false), Ok(false)));
        assert_eq!(volume.test_passphrase(&device, &passphrase("two"), None), Ok(1));
        assert_eq!(
            volume.volume_key(&device, &passphrase("two"), Some(1)).map(|(slot, _)| slot).ok(),
            Some(1)
        );
        let key = volume.volume_key(&device, &one, None).expect("opens").1;
        assert!(volume.unlock_with_key(devices, &key, &UnlockOptions::default()).is_ok());
        assert!(volume.change_key(&device, &one, Some(0), &passphrase("uno"), &keyslot()).is_ok());
        assert!(volume.test_passphrase(&device, &one, None).is_err());
        assert_eq!(volume.remove_key(&device, &passphrase("two"), false), Ok(1));
        let left = volume.test_passphrase(&device, &passphrase("uno"), None).expect("opens");
        assert!(volume.kill_slot(&device, left, false).is_err());
        let priority = volume.set_priority(&device, left, Priority::Prefer);
        assert_eq!(priority.is_ok(), format == VolumeFormat::Luks2);
        volume.erase(&device).expect("erases");
        assert!(volume.info().keyslots.is_empty());
        assert!(volume.test_passphrase(&device, &passphrase("uno"), None).is_err());
    }
    // An unbound keyslot opens no data, and is never the last.
    let (device, mut luks) = volume();
    let unbound =
        luks.add_unbound_key(&device, &VolumeKey::copy_from(&[3; 32]), &one, &keyslot()).expect("adds");
    let volume = LockedVolume::read(&device).expect("reads");
    assert_eq!((volume.opens_data(unbound), volume.is_last_keyslot(unbound)), (false, Ok(false)));
    assert_eq!((volume.opens_data(0), volume.is_last_keyslot(0)), (true, Ok(true)));
    let plain = atrest_volume::format(Devices::together(&device), VolumeFormat::Plain, &one, &small());
    assert!(plain.is_err());
}

#[test]
fn damage_of_both_copies_is_told_of_each() {
    let device = FaultDevice::zeroed(20 << 20);
    luks2::format(Devices::together(&device), &passphrase("one"), &small()).expect("formats");
    device.write_at(4200, b"damage").expect("writes");
    device.write_at(0x4000 + 4200, b"damage").expect("writes");
    let mismatch = HeaderError::ChecksumMismatch;
    let both = OpenError::Luks2 { primary: mismatch, secondary: mismatch };
    assert_eq!(Luks2::read(&device).err(), Some(both));
    device.write_at(0x4000, b"nothing").expect("writes");
    let one = OpenError::Luks2 { primary: mismatch, secondary: HeaderError::Magic };
    assert_eq!(Luks2::read(&device).err(), Some(one));
    // Two copies, of which the second is found at whatever size.
    for size in [0x4000, 0x40_0000] {
        let device = FaultDevice::zeroed(20 << 20);
        let options = FormatOptions { metadata_size: Some(size), keyslots_size: None, ..small() };
        luks2::format(Devices::together(&device), &passphrase("one"), &options).expect("formats");
        device.write_at(0, &[0x5a; 4096]).expect("writes");
        assert_eq!(opens(&device, "one"), Some(0), "{size}");
    }
}

#[test]
fn requirements_are_listed_by_whether_they_are_known() {
    let (device, luks) = volume();
    let required = [Requirement::Unknown("a".into()), Requirement::Opal("opal".into())];
    let metadata = luks.metadata().compose().requirements(&required).finish().expect("within the rules");
    store(&device, &luks, metadata);
    let info = Luks2::read(&device).expect("reads").info();
    assert_eq!(
        (info.requirements.as_slice(), info.unknown_requirements.as_slice()),
        (&["a".into(), "opal".into()][..], &["a".into(), "opal".into()][..])
    );
    assert_eq!(unlock(&device, "one", &UnlockOptions::default()).err(), Some(UnlockError::Opal));
}
