//! What operations do and refuse, without an oracle.

use atrest_cipher::DataUnitIndex;
use atrest_device::BlockDevice;
use atrest_testkit::FaultDevice;
use atrest_testkit::fault::Fault;
use atrest_volume::luks2::{self, Luks2};
use atrest_volume::{
    ChangeError, Credential, Devices, FormatError, FormatOptions, KeyslotOptions, LockedVolume, OpenError,
    OptionError, RestoreOptions, UnlockError, UnlockOptions, VolumeKey,
};

use crate::luks2::support::*;

fn format_with(options: FormatOptions) -> Result<Luks2, FormatError> {
    let device = FaultDevice::zeroed(DEVICE_SIZE);
    luks2::format(Devices::together(&device), &passphrase("one"), &options)
}

fn refused(options: FormatOptions) -> OptionError {
    let device = FaultDevice::zeroed(DEVICE_SIZE);
    match luks2::format(Devices::together(&device), &passphrase("one"), &options) {
        Err(FormatError::Option(error)) => {
            assert_eq!(device.counts(), (0, 0), "nothing may be written");
            error
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn options_that_can_not_be_used_are_refused_before_anything_is_written() {
    assert_eq!(
        refused(FormatOptions { metadata_size: Some(20_480), ..small() }),
        OptionError::MetadataSize { bytes: 20_480 }
    );
    assert_eq!(
        refused(FormatOptions { keyslots_size: Some(4097), ..small() }),
        OptionError::KeyslotsSize { bytes: 4097 }
    );
    assert_eq!(
        refused(FormatOptions { keyslots_size: Some(4096), ..small() }),
        OptionError::KeyslotsSize { bytes: 4096 }
    );
    assert_eq!(
        refused(FormatOptions { data_unit: Some(8192), ..small() }),
        OptionError::DataUnit { bytes: 8192 }
    );
    assert_eq!(
        refused(FormatOptions { key_len: Some(33), ..small() }),
        OptionError::KeyLength { bytes: 33, takes: &[32, 48, 64] }
    );
    assert_eq!(
        refused(FormatOptions { cipher: Some(spec("cipher_null-ecb")), ..small() }),
        OptionError::NullCipher
    );
    assert_eq!(
        refused(FormatOptions { cipher: Some(spec("aes-ctr-plain64")), ..small() }),
        OptionError::SingleSnapshot
    );
    assert_eq!(refused(FormatOptions { uuid: Some("x".into()), ..small() }), OptionError::Uuid);
    let nil = String::from("00000000-0000-0000-0000-000000000000");
    assert_eq!(refused(FormatOptions { uuid: Some(nil), ..small() }), OptionError::NilUuid);
    assert_eq!(
        refused(FormatOptions { label: Some("x".repeat(48)), ..small() }),
        OptionError::LabelLength { bytes: 48 }
    );
    assert_eq!(
        refused(FormatOptions { keyslot: in_slot(32), ..small() }),
        OptionError::SlotNumber { slot: 32, count: 32 }
    );
    let key = VolumeKey::copy_from(&[1; 32]);
    assert_eq!(
        refused(FormatOptions { volume_key: Some(key), key_len: Some(64), ..small() }),
        OptionError::VolumeKeyLength { has: 32, needs: 64 }
    );
    for (cipher, len) in [("aes-xts-plain64", 64), ("aes-cbc-essiv:sha256", 32)] {
        let zeros = FormatOptions { cipher: Some(spec(cipher)), ..small() };
        let zeros = FormatOptions { volume_key: Some(VolumeKey::copy_from(&vec![0; len])), ..zeros };
        assert_eq!(refused(zeros), OptionError::ZeroVolumeKey, "{cipher}");
    }
    let mut weak = small();
    weak.keyslot.pbkdf.forced_iterations = Some(999);
    assert_eq!(refused(weak), OptionError::Pbkdf);
    assert!(matches!(
        refused(FormatOptions { data_offset: Some(4096), ..small() }),
        OptionError::DataOffset { bytes: 4096, .. }
    ));
    assert!(matches!(
        refused(FormatOptions { data_offset: Some(1 << 30), keyslots_size: None, ..small() }),
        OptionError::DeviceTooSmall { .. }
    ));
}

#[test]
fn an_xts_key_with_equal_halves_is_never_written() {
    let key = VolumeKey::copy_from(&[7; 64]);
    let error = format_with(FormatOptions { volume_key: Some(key), ..small() }).expect_err("refused");
    assert_eq!(error, FormatError::Key(atrest_cipher::KeyError::EqualXtsHalves));
}

#[test]
fn a_given_volume_key_opens_the_volume_and_another_does_not() {
    let device = FaultDevice::zeroed(DEVICE_SIZE);
    let bytes: Vec<u8> = (0..64).collect();
    let options = FormatOptions { volume_key: Some(VolumeKey::copy_from(&bytes)), ..small() };
    let luks = luks2::format(Devices::together(&device), &passphrase("one"), &options).expect("formats");
    let devices = Devices::together(&device);
    let open =
        |key: &[u8]| luks.unlock_with_key(devices, &VolumeKey::copy_from(key), &UnlockOptions::default());
    assert_eq!(open(&bytes).expect("opens").keyslot(), None);
    let mut other = bytes.clone();
    other[63] ^= 1;
    assert_eq!(open(&other).expect_err("refused"), UnlockError::WrongVolumeKey);
    assert_eq!(open(&bytes[..32]).expect_err("refused"), UnlockError::WrongVolumeKey);
}

#[test]
fn iv_numbers_count_512_byte_sectors_also_in_4096_byte_units() {
    for unit in [512_u32, 4096] {
        let device = FaultDevice::zeroed(DEVICE_SIZE);
        let key: Vec<u8> = (0..64).collect();
        let options =
            FormatOptions { volume_key: Some(VolumeKey::copy_from(&key)), data_unit: Some(unit), ..small() };
        let luks = luks2::format(Devices::together(&device), &passphrase("one"), &options).expect("formats");
        let volume = luks
            .unlock(Devices::together(&device), &passphrase("one"), &UnlockOptions::default())
            .expect("unlocks");
        let unit = unit as usize;
        assert_eq!(volume.data_unit(), unit);
        let mut run = vec![0; unit];
        volume.segments()[0].protection.encrypt(DataUnitIndex(3), &mut run).expect("encrypts");
        // The same unit under plain XTS (IEEE 1619) with the sector number as the tweak.
        let mut tweak = [0; 16];
        tweak[..8].copy_from_slice(&(3 * unit as u64 / 512).to_le_bytes());
        let xts =
            atrest_cipher::Xts::new(atrest_cipher::Cipher::Aes, &key, &Default::default()).expect("a key");
        let mut expected = vec![0; unit];
        xts.encrypt(&tweak, &mut expected).expect("encrypts");
        assert_eq!(run, expected);
    }
}

#[test]
fn reading_and_unlocking_write_nothing_even_with_a_damaged_copy() {
    for damaged in [0_u64, 0x4000] {
        let (device, _) = volume();
        device.write_at(damaged, &[0; 4096]).expect("writes");
        device.fail(Fault::ReadOnly);
        let before = device.image();
        let luks = Luks2::read(&device).expect("the other copy is good");
        assert_eq!(luks.info().copies.iter().filter(|copy| copy.damage.is_some()).count(), 1);
        luks.unlock(Devices::together(&device), &passphrase("one"), &UnlockOptions::default())
            .expect("unlocks");
        luks2::header_backup(&device).expect("backs up");
        assert_eq!(device.image(), before);
        let error = Luks2::read(&device).expect("reads").repair(&device).expect_err("read-only");
        assert!(matches!(error, ChangeError::Device(_)), "{error:?}");
        device.heal();
        let mut luks = Luks2::read(&device).expect("reads");
        luks.repair(&device).expect("repairs");
        assert_eq!(luks.repair(&device), Err(ChangeError::NothingToRepair));
        assert!(Luks2::read(&device).expect("reads").info().copies.iter().all(|copy| copy.damage.is_none()));
    }
}

#[test]
fn a_removed_key_is_gone_from_the_media_before_the_header_forgets_it() {
    let (device, mut luks) = volume();
    luks.add_key(&device, Credential::Passphrase(&passphrase("one"), None), &passphrase("two"), &keyslot())
        .expect("adds");
    let old_header = device.image()[..0x8000].to_vec();
    luks.remove_key(&device, &passphrase("two"), false).expect("removes");
    assert_eq!(opens(&device, "two"), None);
    // Also not with the old header, which somebody may have kept.
    device.write_at(0, &old_header).expect("writes");
    assert_eq!(opens(&device, "two"), None);
    assert_eq!(opens(&device, "one"), Some(0));
}

#[test]
fn a_wipe_that_does_not_reach_the_media_is_noticed_and_the_keyslot_stays_listed() {
    let (device, mut luks) = volume();
    luks.add_key(&device, Credential::Passphrase(&passphrase("one"), None), &passphrase("two"), &keyslot())
        .expect("adds");
    let area = luks.metadata().keyslot(1).expect("exists").area.clone();
    let lost = area.offset + 8192;
    device.fail(Fault::DroppedWrites { offset: lost, len: 512 });
    assert_eq!(luks.kill_slot(&device, 1, false), Err(ChangeError::WipeNotVerified { offset: lost }));
    device.heal();
    assert!(Luks2::read(&device).expect("reads").metadata().keyslot(1).is_some());
}

#[test]
fn a_failed_flush_is_reported_and_nothing_is_acknowledged() {
    let (device, mut luks) = volume();
    let (_, flushes) = device.counts();
    device.fail(Fault::FailingFlush { number: flushes });
    let one = passphrase("one");
    let added = luks.add_key(&device, Credential::Passphrase(&one, None), &passphrase("two"), &keyslot());
    assert!(matches!(added, Err(ChangeError::Device(_))), "{added:?}");
    assert!(luks.metadata().keyslot(1).is_none());
}

#[test]
fn a_volume_whose_making_fails_at_any_flush_is_none() {
    let fresh = || FaultDevice::zeroed(DEVICE_SIZE);
    let made = |device: &FaultDevice| luks2::format(Devices::together(device), &passphrase("one"), &small());
    let device = fresh();
    made(&device).expect("formats");
    let (_, flushes) = device.counts();
    assert!(flushes >= 4, "header copies of old, keyslot, and each new copy");
    for number in 0..flushes {
        let device = fresh();
        device.fail(Fault::FailingFlush { number });
        assert!(matches!(made(&device), Err(FormatError::Device(_))), "flush {number}");
    }
}

#[test]
fn the_last_keyslot_goes_only_when_asked_for() {
    let (device, mut luks) = volume();
    let key = VolumeKey::copy_from(&[3; 32]);
    luks.add_unbound_key(&device, &key, &passphrase("unbound"), &keyslot()).expect("adds");
    assert_eq!(luks.kill_slot(&device, 0, false), Err(ChangeError::LastKeyslot { slot: 0 }));
    assert_eq!(
        luks.remove_key(&device, &passphrase("one"), false),
        Err(ChangeError::LastKeyslot { slot: 0 })
    );
    luks.kill_slot(&device, 1, false).expect("an unbound one is not the last");
    assert_eq!(luks.metadata().digests().len(), 1, "its digest went with it");
    luks.kill_slot(&device, 0, true).expect("removes");
    let options = UnlockOptions::default();
    let unlocked = luks.unlock(Devices::together(&device), &passphrase("one"), &options);
    assert_eq!(unlocked.expect_err("nothing is left"), UnlockError::NoKeyslot);
}

#[test]
fn an_unbound_key_is_kept_apart_from_the_data() {
    let (device, mut luks) = volume();
    let key = VolumeKey::copy_from(&[3; 40]);
    let slot = luks.add_unbound_key(&device, &key, &passphrase("unbound"), &keyslot()).expect("adds");
    let devices = Devices::together(&device);
    let options = UnlockOptions { slot: Some(slot), ..UnlockOptions::default() };
    let unlocked = luks.unlock(devices, &passphrase("unbound"), &options);
    assert_eq!(unlocked.expect_err("refused"), UnlockError::Unbound { slot });
    assert_eq!(luks.test_passphrase(&device, &passphrase("unbound"), None), Ok(slot));
    assert_eq!(luks.keyslot_key(&device, &passphrase("unbound"), Some(slot)).expect("opens").1, key);
}

#[test]
fn keyslots_are_numbered_and_limited() {
    let (device, mut luks) = volume();
    let one = passphrase("one");
    let mut add = |options: &KeyslotOptions| {
        luks.add_key(&device, Credential::Passphrase(&one, None), &passphrase("more"), options)
    };
    assert_eq!(add(&in_slot(31)), Ok(31));
    assert_eq!(add(&in_slot(31)), Err(ChangeError::KeyslotInUse { slot: 31 }));
    assert_eq!(add(&in_slot(32)), Err(ChangeError::Option(OptionError::SlotNumber { slot: 32, count: 32 })));
    for expected in 1..7 {
        assert_eq!(add(&keyslot()), Ok(expected));
    }
    assert_eq!(add(&keyslot()), Err(ChangeError::NoRoomForKeyslot { needs: 258_048 }));
    // Keys of their own have digests of their own, of which there are eight.
    let (device, mut luks) = volume();
    let mut add = |byte| luks.add_unbound_key(&device, &VolumeKey::copy_from(&[byte; 16]), &one, &keyslot());
    assert_eq!([1, 2, 3, 4, 5, 6, 7].map(&mut add), [1, 2, 3, 4, 5, 6, 7].map(Ok));
    assert_eq!(add(8), Err(ChangeError::NoFreeDigest));
}

#[test]
fn a_change_to_another_slot_moves_the_references_with_it() {
    let (device, mut luks) = volume();
    luks.import_token(&device, None, "{\"type\":\"t\",\"keyslots\":[\"0\"]}").expect("imports");
    let changed = luks.change_key(&device, &passphrase("one"), None, &passphrase("two"), &in_slot(9));
    assert_eq!(changed, Ok(9));
    assert_eq!((opens(&device, "one"), opens(&device, "two")), (None, Some(9)));
    assert_eq!(luks.tokens()[0].keyslots, [9]);
    assert_eq!(luks.metadata().keyslots().len(), 1);
}

#[test]
fn metadata_that_would_not_fit_is_refused_before_anything_is_written() {
    let (device, mut luks) = volume();
    let text = format!("{{\"type\":\"t\",\"keyslots\":[],\"x\":\"{}\"}}", "x".repeat(12_000));
    let counts = device.counts();
    let error = luks.import_token(&device, None, &text).expect_err("too long");
    assert!(matches!(error, ChangeError::MetadataFull { has: 12_288, .. }), "{error:?}");
    assert_eq!(device.counts(), counts);
    // To the last byte but one, which is a zero.
    let token = |len: usize| format!("{{\"type\":\"t\",\"keyslots\":[],\"x\":\"{}\"}}", "x".repeat(len));
    luks.import_token(&device, None, &token(0)).expect("imports");
    let room = 12_288 - 1 - luks.metadata().to_json().len();
    let full = ChangeError::MetadataFull { needs: 12_289, has: 12_288 };
    assert_eq!(luks.replace_token(&device, 0, &token(room + 1)), Err(full));
    assert_eq!(luks.replace_token(&device, 0, &token(room)), Ok(()));
    assert_eq!(Luks2::read(&device).expect("reads").metadata().to_json().len(), 12_287);
}

/// A number that begins anew would make the older copy the newer one.
#[test]
fn the_sequence_ends_before_it_begins_anew() {
    use atrest_format::luks2::CopyKind;
    let (device, luks) = volume();
    let backup = luks2::header_backup(&device).expect("backs up");
    let mut header = luks.header_pair().header.clone();
    let mut at = |sequence: u64| {
        header.binary.sequence = sequence;
        for (copy, offset) in [(CopyKind::Primary, 0), (CopyKind::Secondary, 0x4000)] {
            device.write_at(offset, &header.encode(copy, &[7; 64]).expect("it fits")).expect("writes");
        }
        device.forget();
        Luks2::read(&device).expect("reads")
    };
    let sequence = || Luks2::read(&device).expect("reads").header_pair().header.binary.sequence;
    let mut last = at(u64::MAX);
    assert_eq!(last.set_label(&device, Some("x"), None), Err(ChangeError::SequenceExhausted));
    let restored = luks2::header_restore(&device, &backup, RestoreOptions::default());
    assert_eq!(restored, Err(ChangeError::SequenceExhausted));
    assert!(device.recording().events().is_empty(), "something was written");
    assert_eq!(at(u64::MAX - 1).set_label(&device, Some("x"), None), Ok(()));
    assert_eq!(sequence(), u64::MAX);
    // A backup comes behind what is there: of an older header, of the same and of a newer one.
    let of_backup = luks.header_pair().header.binary.sequence;
    for (present, expected) in
        [(of_backup + 9, of_backup + 10), (of_backup, of_backup + 1), (of_backup - 1, of_backup)]
    {
        at(present);
        luks2::header_restore(&device, &backup, RestoreOptions::default()).expect("restores");
        assert_eq!(sequence(), expected, "{present}");
    }
}

#[test]
fn tokens_that_are_none_are_refused() {
    let (device, mut luks) = volume();
    for text in [
        "",
        "1",
        "{}",
        "{\"type\":1,\"keyslots\":[]}",
        "{\"type\":\"t\",\"keyslots\":[\"9\"]}",
        "{\"type\":\"t\"}",
    ] {
        assert_eq!(luks.import_token(&device, None, text), Err(ChangeError::BadToken), "{text}");
    }
    assert_eq!(luks.remove_token(&device, 0), Err(ChangeError::NoSuchToken { token: 0 }));
    luks.import_token(&device, Some(4), "{\"type\":\"t\",\"keyslots\":[]}").expect("imports");
    assert_eq!(
        luks.import_token(&device, Some(4), "{\"type\":\"t\",\"keyslots\":[]}"),
        Err(ChangeError::TokenInUse)
    );
    let (a, b) = ("{\"type\":\"t\",\"keyslots\":[]}", "{\"type\":\"u\",\"keyslots\":[\"0\"]}");
    assert_eq!(luks.replace_token(&device, 3, b), Err(ChangeError::NoSuchToken { token: 3 }));
    assert_eq!(luks.replace_token(&device, 4, "{}"), Err(ChangeError::BadToken));
    assert_eq!(luks.replace_token(&device, 4, b), Ok(()));
    assert_eq!((luks.token(4).as_deref(), luks.token(3)), (Some(b), None));
    luks.remove_token(&device, 4).expect("removes");
    assert!(luks.tokens().is_empty());
    for token in [32, u32::MAX] {
        assert_eq!(luks.import_token(&device, Some(token), a), Err(ChangeError::NoSuchToken { token }));
    }
    for token in 0..32 {
        assert_eq!(luks.import_token(&device, None, a), Ok(token));
    }
    assert_eq!(luks.import_token(&device, None, a), Err(ChangeError::TokenInUse), "there is no other number");
}

#[test]
fn a_stale_view_does_not_overwrite_what_others_changed() {
    let (device, mut mine) = volume();
    let mut theirs = Luks2::read(&device).expect("reads");
    let one = passphrase("one");
    theirs
        .add_key(&device, Credential::Passphrase(&one, None), &passphrase("two"), &keyslot())
        .expect("adds");
    mine.set_label(&device, Some("label"), None).expect("sets");
    assert_eq!(opens(&device, "two"), Some(1));
    assert_eq!(Luks2::read(&device).expect("reads").label(), "label");
    // A device that holds another volume by now is refused.
    luks2::format(Devices::together(&device), &one, &small()).expect("formats");
    assert_eq!(mine.set_label(&device, Some("x"), None), Err(ChangeError::ChangedMeanwhile));
}

/// A view that keeps what was removed would list a keyslot that opens nothing.
#[test]
fn after_every_change_a_view_is_what_is_on_the_device() {
    type Change = fn(&FaultDevice, &mut Luks2) -> Result<(), ChangeError>;
    const TOKEN: &str = "{\"type\":\"t\",\"keyslots\":[]}";
    let changes: [(&str, Change); 11] = [
        ("add", |d, l| {
            l.add_key(d, Credential::Passphrase(&passphrase("one"), None), &passphrase("two"), &keyslot())
                .map(drop)
        }),
        ("unbound", |d, l| {
            l.add_unbound_key(d, &VolumeKey::copy_from(&[3; 16]), &passphrase("x"), &keyslot()).map(drop)
        }),
        ("change", |d, l| {
            l.change_key(d, &passphrase("two"), None, &passphrase("due"), &keyslot()).map(drop)
        }),
        ("remove", |d, l| l.remove_key(d, &passphrase("due"), false).map(drop)),
        ("kill", |d, l| l.kill_slot(d, 2, false)),
        ("priority", |d, l| l.set_priority(d, 0, atrest_volume::Priority::Prefer)),
        ("import", |d, l| l.import_token(d, None, TOKEN).map(drop)),
        ("replace", |d, l| l.replace_token(d, 0, "{\"type\":\"u\",\"keyslots\":[]}")),
        ("token", |d, l| l.remove_token(d, 0)),
        ("label", |d, l| l.set_label(d, Some("x"), None)),
        ("erase", |d, l| l.erase(d)),
    ];
    let (device, mut luks) = volume();
    let seen = |luks: &Luks2| {
        let pair = luks.header_pair();
        (pair.header.binary.clone(), luks.metadata().to_json(), pair.primary, pair.secondary)
    };
    for (what, change) in changes {
        let before = seen(&luks);
        change(&device, &mut luks).expect(what);
        assert_eq!(seen(&luks), seen(&Luks2::read(&device).expect("reads")), "{what}");
        assert_ne!(seen(&luks), before, "{what}");
    }
    for damaged in [4200, 0x4000 + 4200] {
        device.write_at(damaged, b"damage").expect("writes");
        let mut luks = Luks2::read(&device).expect("reads");
        luks.repair(&device).expect("repairs");
        assert_eq!(seen(&luks), seen(&Luks2::read(&device).expect("reads")), "repair");
    }
}

#[test]
fn a_uuid_that_names_no_volume_is_not_set() {
    let (device, mut luks) = volume();
    let before = device.image();
    let nil = luks.set_uuid(&device, "00000000-0000-0000-0000-000000000000");
    assert_eq!(nil, Err(OptionError::NilUuid.into()));
    assert_eq!(luks.set_uuid(&device, "x"), Err(OptionError::Uuid.into()));
    assert!(device.image() == before, "nothing was written");
}

#[test]
fn backups_of_other_volumes_and_damaged_ones_are_refused() {
    let (device, _) = volume();
    let (other, _) = volume();
    let backup = luks2::header_backup(&other).expect("backs up");
    let before = device.image();
    let restore = |backup: &[u8], replace_other| {
        luks2::header_restore(&device, backup, RestoreOptions { replace_other, ..RestoreOptions::default() })
    };
    assert_eq!(restore(&backup, false), Err(ChangeError::BackupOfAnotherVolume));
    assert!(matches!(restore(&backup[..backup.len() - 4096], false), Err(ChangeError::BadBackup(_))));
    assert!(matches!(
        restore(&vec![0; backup.len()], false),
        Err(ChangeError::BadBackup(OpenError::NotLuks))
    ));
    let mut long = backup.clone();
    long.resize(backup.len() + (1 << 20), 0);
    assert!(matches!(restore(&long, true), Err(ChangeError::BackupLength { .. })));
    assert_eq!(device.image(), before, "nothing was written");
    restore(&backup, true).expect("restores when asked to");
    assert_eq!(Luks2::read(&device).expect("reads").uuid(), Luks2::read(&other).expect("reads").uuid());
}

#[test]
fn a_luks1_volume_is_not_overwritten_by_a_backup_unless_that_is_asked_for() {
    let (device, _) = volume();
    let backup = luks2::header_backup(&device).expect("backs up");
    let old = FaultDevice::zeroed(DEVICE_SIZE);
    let options = FormatOptions { keyslot: keyslot(), ..FormatOptions::default() };
    atrest_volume::luks1::format(Devices::together(&old), &passphrase("old"), &options).expect("formats");
    let before = old.image();
    let restore = |replace_other| {
        luks2::header_restore(&old, &backup, RestoreOptions { replace_other, ..RestoreOptions::default() })
    };
    assert_eq!(restore(false), Err(ChangeError::BackupOfAnotherVolume));
    assert!(old.image() == before, "something was written");
    assert_eq!(restore(true), Ok(()));
    assert_eq!(opens(&old, "one"), Some(0));
}

/// With no wish of its own, a new keyslot is as well protected as the data.
#[test]
fn an_added_keyslot_has_the_cipher_of_the_data() {
    let device = FaultDevice::zeroed(DEVICE_SIZE);
    let options = FormatOptions { cipher: Some(spec("serpent-xts-plain64")), ..small() };
    let one = passphrase("one");
    let mut luks = luks2::format(Devices::together(&device), &one, &options).expect("formats");
    luks.add_key(&device, Credential::Passphrase(&one, None), &one, &keyslot()).expect("adds");
    let ciphers = luks.info().keyslots.into_iter().map(|keyslot| keyslot.area.and_then(|area| area.cipher));
    let serpent = Some(String::from("serpent-xts-plain64"));
    assert_eq!(ciphers.collect::<Vec<_>>(), [serpent.clone(), serpent]);
}

#[test]
fn too_little_memory_is_an_error_of_its_own_with_both_numbers() {
    let fault = atrest_kdf::KdfError::NotEnoughMemory { needs: 4 << 30, has: 1 << 30 };
    assert_eq!(UnlockError::from(fault), UnlockError::NotEnoughMemory { needs: 4 << 30, has: 1 << 30 });
    let text = ChangeError::from(fault).to_string();
    assert!(text.contains("4096 MiB") && text.contains("1024 MiB"), "{text}");
}

#[test]
fn detection_finds_the_format_by_either_copy() {
    let (device, luks) = volume();
    let found = LockedVolume::read(&device).expect("detects");
    assert_eq!(found.uuid(), luks.uuid());
    device.write_at(0, &[0; 8192]).expect("writes");
    assert_eq!(LockedVolume::read(&device).expect("detects").uuid(), luks.uuid());
    device.write_at(0x4000, &[0; 4096]).expect("writes");
    assert_eq!(LockedVolume::read(&device).expect_err("nothing is left"), OpenError::NotLuks);
    let text = FaultDevice::new(b"LUKS\xBA\xBE\x00\x07 and so on".repeat(400));
    assert_eq!(
        LockedVolume::read(&text).expect_err("no such version"),
        OpenError::UnknownVersion { version: 7 }
    );
    assert_eq!(LockedVolume::read(&FaultDevice::zeroed(0)).expect_err("empty"), OpenError::NotLuks);
}

#[test]
fn an_unknown_requirement_keeps_every_keyslot_shut() {
    let (device, _) = volume();
    let mut image = device.image();
    for copy in image[..0x8000].chunks_mut(0x4000) {
        let json = String::from_utf8(copy[4096..].to_vec()).expect("text");
        let required = "\"config\":{\"requirements\":{\"mandatory\":[\"foo\"]},";
        let json = json.trim_end_matches('\0').replace("\"config\":{", required);
        copy[4096..].fill(0);
        copy[4096..4096 + json.len()].copy_from_slice(json.as_bytes());
        // The checksum, LUKS2 specification section 2.1: over the whole copy with its own field zeroed.
        copy[448..512].fill(0);
        let mut sum = [0; 32];
        atrest_kdf::digest(atrest_kdf::Hash::Sha256, &[copy], &mut sum);
        copy[448..480].copy_from_slice(&sum);
    }
    let device = FaultDevice::new(image);
    let luks = Luks2::read(&device).expect("the header itself is in order");
    let refused = UnlockError::UnsupportedRequirement { names: vec!["foo".into()] };
    assert_eq!(luks.test_passphrase(&device, &passphrase("one"), None), Err(refused.clone()));
    assert_eq!(luks.keyslot_key(&device, &passphrase("one"), Some(0)).map(drop), Err(refused));
}
