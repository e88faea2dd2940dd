//! Keyslot operations do what they say, and refuse before they write.

use atrest_cipher::KeyError;
use atrest_device::BlockDevice;
use atrest_kdf::Hash;
use atrest_testkit::FaultDevice;
use atrest_volume::luks1::{self, Luks1};
use atrest_volume::{
    ChangeError, Credential, Devices, FormatError, FormatOptions, KeyslotOptions, LockedVolume, OptionError,
    PbkdfKind, PbkdfOptions, Priority, UnlockError, UnlockOptions, VolumeFormat, VolumeKey,
};

use crate::luks1::common::{
    DATA_LEN, DATA_OFFSET, fast, in_slot, opens, pass, small, small_options, small_with,
};

#[test]
fn an_unlocked_volume_covers_the_data_to_the_devices_end() {
    let (device, locked) = small();
    let volume =
        locked.unlock(Devices::together(&device), &pass("one"), &UnlockOptions::default()).expect("opens");
    assert_eq!(volume.format(), VolumeFormat::Luks1);
    assert_eq!(volume.size(), DATA_LEN);
    assert_eq!(volume.segments()[0].media_offset, DATA_OFFSET);
    assert_eq!((volume.keyslot(), volume.uuid()), (Some(0), Some(locked.uuid())));
    assert_eq!((volume.data_unit(), volume.read_only()), (512, false));
    let read_only = UnlockOptions { read_only: true, ..Default::default() };
    assert!(locked.unlock(Devices::together(&device), &pass("one"), &read_only).expect("opens").read_only());
}

#[test]
fn reading_and_unlocking_write_nothing() {
    let (device, _) = small_with(&["one", "two"]);
    let devices = Devices::together(&device);
    let locked = LockedVolume::read(&device).expect("a header");
    locked.unlock(devices, &pass("two"), &UnlockOptions::default()).expect("opens");
    locked.unlock(devices, &pass("wrong"), &UnlockOptions::default()).expect_err("does not open");
    atrest_volume::header_backup(&device).expect("backs up");
    serde_json::to_string(&locked.info()).expect("serialises");
    assert!(device.recording().events().is_empty());
}

#[test]
fn keyslots_are_added_changed_and_removed_by_number_and_by_passphrase() {
    let (device, mut volume) = small();
    let one = pass("one");
    let by_one = Credential::Passphrase(&one, None);
    assert_eq!(volume.add_key(&device, by_one, &pass("two"), &fast()), Ok(1));
    assert_eq!(volume.add_key(&device, by_one, &pass("six"), &in_slot(6)), Ok(6));
    assert_eq!(opens(&device, "six"), Ok(6));
    assert_eq!(volume.change_key(&device, &pass("two"), None, &pass("deux"), &fast()), Ok(2));
    assert_eq!(opens(&device, "two"), Err(UnlockError::WrongPassphrase));
    assert_eq!(opens(&device, "deux"), Ok(2));
    assert_eq!(volume.change_key(&device, &pass("six"), Some(6), &pass("sechs"), &in_slot(5)), Ok(5));
    assert_eq!(opens(&device, "six"), Err(UnlockError::WrongPassphrase));
    assert_eq!(opens(&device, "sechs"), Ok(5));
    assert_eq!(volume.remove_key(&device, &pass("deux"), false), Ok(2));
    assert_eq!(volume.kill_slot(&device, 5, false), Ok(()));
    assert_eq!(opens(&device, "one"), Ok(0));
    assert_eq!(volume.info().keyslots.iter().map(|k| k.id).collect::<Vec<_>>(), [0]);
    assert_eq!(Luks1::read(&device), Ok(volume));
}

#[test]
fn a_keyslot_is_tried_only_where_it_is_asked_for() {
    let (device, volume) = small_with(&["one", "two"]);
    let test = |text, slot| volume.test_passphrase(&device, &pass(text), slot);
    assert_eq!(test("two", Some(1)), Ok(1));
    assert_eq!(test("two", Some(0)), Err(UnlockError::WrongPassphrase));
    assert_eq!(test("two", Some(4)), Err(UnlockError::NoSuchKeyslot { slot: 4 }));
    assert_eq!(test("two", Some(8)), Err(UnlockError::NoSuchKeyslot { slot: 8 }));
    assert_eq!(test("two", Some(u32::MAX)), Err(UnlockError::NoSuchKeyslot { slot: u32::MAX }));
}

#[test]
fn the_volume_key_opens_adds_and_is_checked() {
    let (device, mut volume) = small();
    let (_, key) = volume.volume_key(&device, &pass("one"), None).expect("opens");
    let devices = Devices::together(&device);
    let unlocked = volume.unlock_with_key(devices, &key, &UnlockOptions::default()).expect("opens");
    assert_eq!(unlocked.keyslot(), None);
    assert_eq!(volume.add_key(&device, Credential::VolumeKey(&key), &pass("two"), &fast()), Ok(1));
    assert_eq!(opens(&device, "two"), Ok(1));
    for wrong in [vec![0; 16], vec![0; 15], vec![0; 4096], vec![]] {
        let wrong = VolumeKey::copy_from(&wrong);
        let error = volume.unlock_with_key(devices, &wrong, &UnlockOptions::default()).expect_err("wrong");
        assert_eq!(error, UnlockError::WrongVolumeKey);
        let error = volume.add_key(&device, Credential::VolumeKey(&wrong), &pass("three"), &fast());
        assert_eq!(error, Err(ChangeError::Unlock(UnlockError::WrongVolumeKey)));
    }
}

#[test]
fn with_all_keyslots_in_use_nothing_is_overwritten_unless_named() {
    let texts = ["one", "two", "three", "four", "five", "six", "seven", "eight"];
    let (device, mut volume) = small_with(&texts);
    let one = pass("one");
    let added = volume.add_key(&device, Credential::Passphrase(&one, None), &pass("nine"), &fast());
    assert_eq!(added, Err(ChangeError::NoFreeKeyslot));
    let changed = volume.change_key(&device, &pass("eight"), None, &pass("huit"), &fast());
    assert_eq!(changed, Err(ChangeError::NoFreeKeyslot));
    let taken = volume.change_key(&device, &pass("eight"), None, &pass("huit"), &in_slot(2));
    assert_eq!(taken, Err(ChangeError::KeyslotInUse { slot: 2 }));
    assert!(device.recording().events().is_empty());
    // The old keyslot itself, named: overwritten in place.
    assert_eq!(volume.change_key(&device, &pass("eight"), None, &pass("huit"), &in_slot(7)), Ok(7));
    assert_eq!(opens(&device, "huit"), Ok(7));
    assert_eq!(opens(&device, "eight"), Err(UnlockError::WrongPassphrase));
}

#[test]
fn the_last_keyslot_goes_only_when_it_may() {
    let (device, mut volume) = small();
    assert_eq!(volume.kill_slot(&device, 0, false), Err(ChangeError::LastKeyslot { slot: 0 }));
    assert_eq!(volume.remove_key(&device, &pass("one"), false), Err(ChangeError::LastKeyslot { slot: 0 }));
    assert!(device.recording().events().is_empty());
    assert_eq!(volume.kill_slot(&device, 1, false), Err(ChangeError::NoSuchKeyslot { slot: 1 }));
    assert_eq!(volume.remove_key(&device, &pass("one"), true), Ok(0));
    assert_eq!(opens(&device, "one"), Err(UnlockError::NoKeyslot));
}

#[test]
fn a_removed_area_keeps_nothing_of_the_keyslot() {
    let (device, mut volume) = small_with(&["one", "two"]);
    let area = volume.info().keyslots[1].area.clone().expect("an area");
    let range = area.offset as usize..(area.offset + area.size) as usize;
    let before = device.image();
    volume.kill_slot(&device, 1, false).expect("removed");
    let after = device.image();
    let same = range.clone().filter(|&at| before[at] == after[at]).count();
    assert!(same < range.len() / 100, "{same} of {} bytes are the same", range.len());
    assert_eq!(before[range.end..], after[range.end..], "nothing behind the area is touched");
    // The old header over the new area: the passphrase must not open it any more.
    let mut mixed = after;
    mixed[..4096].copy_from_slice(&before[..4096]);
    let error = opens(&FaultDevice::new(mixed), "two").expect_err("wiped");
    assert_eq!(error, UnlockError::WrongPassphrase);
}

#[test]
fn erase_wipes_every_area_and_leaves_an_openable_header_without_keys() {
    let (device, mut volume) = small_with(&["one", "two"]);
    let before = device.image();
    volume.erase(&device).expect("erased");
    assert_eq!(opens(&device, "one"), Err(UnlockError::NoKeyslot));
    let after = device.image();
    // Areas of 125 sectors, placed every 128.
    for area in (4096..4096 + 8 * 65536).step_by(65536) {
        let same = (area..area + 64000).filter(|&at| before[at] == after[at]).count();
        assert!(same < 640, "{same} bytes of the area at {area} are the same");
    }
    assert_eq!(before[DATA_OFFSET as usize..], after[DATA_OFFSET as usize..], "data is left alone");
    let mut mixed = after;
    mixed[..4096].copy_from_slice(&before[..4096]);
    assert_eq!(opens(&FaultDevice::new(mixed), "one"), Err(UnlockError::WrongPassphrase));
}

#[test]
fn a_header_that_another_program_changed_is_noticed() {
    let (device, mut ours) = small();
    let mut theirs = Luks1::read(&device).expect("a header");
    let one = pass("one");
    theirs.add_key(&device, Credential::Passphrase(&one, None), &pass("two"), &fast()).expect("added");
    // A changed keyslot table of the same volume is taken over.
    assert_eq!(ours.add_key(&device, Credential::Passphrase(&one, None), &pass("three"), &fast()), Ok(2));
    assert_eq!(opens(&device, "two"), Ok(1));
    // Another volume in its place is not.
    luks1::format(Devices::together(&device), &pass("one"), &small_options()).expect("formats");
    let error = ours.kill_slot(&device, 0, true);
    assert_eq!(error, Err(ChangeError::ChangedMeanwhile));
    assert_eq!(opens(&device, "one"), Ok(0));
}

#[test]
fn a_uuid_that_names_no_volume_is_not_set() {
    let (device, mut volume) = small();
    let before = device.image();
    let nil = volume.set_uuid(&device, "00000000-0000-0000-0000-000000000000");
    assert_eq!(nil, Err(OptionError::NilUuid.into()));
    assert_eq!(volume.set_uuid(&device, "x"), Err(OptionError::Uuid.into()));
    assert!(device.image() == before, "nothing was written");
}

#[test]
fn options_that_luks1_does_not_have_are_refused_before_anything_is_written() {
    let device = FaultDevice::zeroed(4 << 20);
    let refused = |options: FormatOptions| {
        let error = luks1::format(Devices::together(&device), &pass("one"), &options).expect_err("refused");
        assert!(device.recording().events().is_empty(), "{error}");
        match error {
            FormatError::Option(error) => error,
            other => panic!("{other}"),
        }
    };
    let base = small_options;
    let slot = |keyslot: KeyslotOptions| FormatOptions { keyslot, ..base() };
    let pbkdf = |pbkdf: PbkdfOptions| slot(KeyslotOptions { pbkdf, ..Default::default() });
    assert_eq!(refused(FormatOptions { label: Some("x".into()), ..base() }), OptionError::NotInFormat);
    assert_eq!(refused(FormatOptions { metadata_size: Some(16384), ..base() }), OptionError::NotInFormat);
    assert_eq!(
        refused(FormatOptions { data_unit: Some(4096), ..base() }),
        OptionError::DataUnitLuks1 { bytes: 4096 }
    );
    assert_eq!(
        refused(FormatOptions { key_len: Some(17), ..base() }),
        OptionError::KeyLength { bytes: 17, takes: &[16, 24, 32] }
    );
    assert_eq!(refused(FormatOptions { uuid: Some("x".into()), ..base() }), OptionError::Uuid);
    let nil = String::from("00000000-0000-0000-0000-000000000000");
    assert_eq!(refused(FormatOptions { uuid: Some(nil), ..base() }), OptionError::NilUuid);
    let zeros =
        FormatOptions { key_len: Some(32), volume_key: Some(VolumeKey::copy_from(&[0; 32])), ..base() };
    assert_eq!(refused(zeros), OptionError::ZeroVolumeKey);
    assert_eq!(refused(FormatOptions { hash: Some(Hash::Blake2s128), ..base() }), OptionError::Pbkdf);
    assert_eq!(refused(slot(in_slot(8))), OptionError::SlotNumber { slot: 8, count: 8 });
    assert_eq!(
        refused(slot(KeyslotOptions { priority: Priority::Prefer, ..fast() })),
        OptionError::NotInFormat
    );
    assert_eq!(
        refused(pbkdf(PbkdfOptions { kind: Some(PbkdfKind::Argon2id), ..Default::default() })),
        OptionError::Pbkdf
    );
    assert_eq!(
        refused(pbkdf(PbkdfOptions { forced_iterations: Some(999), ..Default::default() })),
        OptionError::Pbkdf
    );
    assert_eq!(
        refused(pbkdf(PbkdfOptions { hash: Some(Hash::Sha512), ..Default::default() })),
        OptionError::Pbkdf
    );
    let null = Some("cipher_null-ecb".parse().expect("known"));
    assert_eq!(refused(FormatOptions { cipher: null, ..base() }), OptionError::NullCipher);
    let ctr = Some("aes-ctr-plain64".parse().expect("known"));
    assert_eq!(refused(FormatOptions { cipher: ctr, ..base() }), OptionError::SingleSnapshot);
    for bytes in [0, 4096, 5000 * 512 + 1024] {
        assert!(
            matches!(
                refused(FormatOptions { data_offset: Some(bytes), ..base() }),
                OptionError::DataOffset { .. }
            ),
            "{bytes}"
        );
    }
    assert_eq!(
        refused(FormatOptions { data_offset: Some(4 << 20), ..base() }),
        OptionError::DeviceTooSmall { needs: (4 << 20) + 512, has: 4 << 20 }
    );
    let short = Some(VolumeKey::copy_from(&[1; 15]));
    assert_eq!(
        refused(FormatOptions { volume_key: short, ..base() }),
        OptionError::VolumeKeyLength { has: 15, needs: 16 }
    );
}

#[test]
fn equal_xts_halves_are_never_written_and_read_only_on_request() {
    let weak = VolumeKey::copy_from(&[9; 64]);
    let device = FaultDevice::zeroed(4 << 20);
    let options = FormatOptions { volume_key: Some(weak), keyslot: fast(), ..Default::default() };
    let error = luks1::format(Devices::together(&device), &pass("one"), &options).expect_err("weak");
    assert_eq!(error, FormatError::Key(KeyError::EqualXtsHalves));
    assert!(device.recording().events().is_empty());

    // Such a volume can only be made elsewhere: digest and keyslot by the rooms below.
    use atrest_keyslot::luks1::{Header, HeaderParts, new_digest, seal};
    let digest = new_digest(Hash::Sha256, &[9; 64], &[1; 32], 1000).expect("a digest");
    let mut header = Header::new(&HeaderParts {
        cipher_name: "aes",
        cipher_mode: "xts-plain64",
        hash: Hash::Sha256,
        key_len: 64,
        uuid: "01234567-89ab-4def-8123-456789abcdef",
        data_sector: None,
        alignment: 2048,
        digest,
        digest_salt: [1; 32],
        digest_iterations: 1000,
    })
    .expect("a header");
    let (offset, len) = header.area(0).expect("an area");
    let mut area = vec![0; len];
    let random = &mut atrest_secret::OsRandom;
    seal(&header, 0, b"one", (1000, &[2; 32]), &[9; 64], random, &mut area).expect("sealed");
    header.use_slot(0, 1000, [2; 32]).expect("a slot");
    device.write_at(0, &header.encode()).expect("written");
    device.write_at(offset, &area).expect("written");

    let volume = Luks1::read(&device).expect("a header");
    let devices = Devices::together(&device);
    let error = volume.unlock(devices, &pass("one"), &UnlockOptions::default()).expect_err("weak");
    assert_eq!(error, UnlockError::Key(KeyError::EqualXtsHalves));
    let accept = UnlockOptions { allow_equal_xts_halves: true, ..Default::default() };
    assert!(volume.unlock(devices, &pass("one"), &accept).expect("opens").read_only());
}
