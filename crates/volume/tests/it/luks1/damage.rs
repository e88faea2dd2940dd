//! Hostile headers and failing media: a typed error that says where, no panic, no write, nothing acknowledged lost.

use atrest_cipher::KeyError;
use atrest_device::{BlockDevice, Cause, DeviceError, Geometry, Unshared};
use atrest_keyslot::luks1::HeaderError;
use atrest_testkit::fault::Fault;
use atrest_testkit::{FaultDevice, Random};
use atrest_volume::luks1::{self, Luks1};
use atrest_volume::{
    ChangeError, Credential, Devices, FormatError, OpenError, OptionError, RestoreOptions, UnlockError,
    UnlockOptions, header_backup, header_restore,
};

use crate::luks1::common::{DATA_LEN, DATA_OFFSET, fast, opens, pass, small, small_options, small_with};

const SLOT_TABLE: usize = 208;

fn unlock(device: &FaultDevice, text: &str) -> Result<u64, UnlockError> {
    let volume = Luks1::read(device).expect("a header");
    volume
        .unlock(Devices::together(device), &pass(text), &UnlockOptions::default())
        .map(|volume| volume.size())
}

#[test]
fn what_is_not_luks1_is_told_apart() {
    let read = |image: Vec<u8>| Luks1::read(&FaultDevice::new(image)).expect_err("no header");
    assert_eq!(read(vec![0; 4096]), OpenError::NotLuks);
    assert_eq!(read(vec![]), OpenError::NotLuks);
    assert_eq!(read(b"LUKS\xba\xbe\0\x01".to_vec()), OpenError::NotLuks);
    let mut three = small().0.image();
    three[7] = 3;
    assert_eq!(read(three), OpenError::UnknownVersion { version: 3 });
    let mut damaged = small().0.image();
    damaged[SLOT_TABLE] = 1;
    let word = 0x01ac_71f3;
    assert_eq!(read(damaged), OpenError::Luks1(HeaderError::SlotState { slot: 0, word }));
}

#[test]
fn random_damage_to_the_header_never_panics_or_writes() {
    let image = small().0.image();
    let mut random = Random::new(11);
    let mut refused = 0;
    for _ in 0..600 {
        let mut damaged = image.clone();
        for _ in 0..random.below(4) + 1 {
            let at = random.below(592) as usize;
            damaged[at] = random.below(256) as u8;
        }
        // Iterations of a damaged header may take hours; they are not what this is about.
        for slot in 0..8 {
            damaged[SLOT_TABLE + slot * 48 + 4..][..3].fill(0);
        }
        damaged[164..167].fill(0);
        let device = FaultDevice::new(damaged);
        match Luks1::read(&device) {
            Ok(volume) => {
                let _ = volume.unlock(Devices::together(&device), &pass("x"), &UnlockOptions::default());
                let _ = volume.info();
                let _ = header_backup(&device);
            }
            Err(_) => refused += 1,
        }
        assert!(device.recording().events().is_empty());
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn a_wrong_passphrase_and_a_destroyed_keyslot_are_different_errors() {
    let (device, volume) = small_with(&["one", "two"]);
    assert_eq!(unlock(&device, "wrong"), Err(UnlockError::WrongPassphrase));
    let area = volume.info().keyslots[0].area.clone().expect("an area");
    device.write_at(area.offset + 10 * 512, &[0; 512]).expect("damaged");
    let damaged = UnlockError::KeyslotDamaged { slot: 0, offset: area.offset + 10 * 512 };
    let alone = volume.test_passphrase(&device, &pass("one"), Some(0));
    assert_eq!(alone, Err(damaged), "of the keyslot that was asked for");
    // The intact keyslot refused it too: a typing error is as likely as the damage.
    assert_eq!(unlock(&device, "one"), Err(UnlockError::WrongPassphraseOrDamaged { slot: 0 }));
    assert_eq!(unlock(&device, "two"), Ok(DATA_LEN), "another keyslot still opens");
    let (device, volume) = small();
    let area = volume.info().keyslots[0].area.clone().expect("an area");
    device.write_at(area.offset + 10 * 512, &[0; 512]).expect("damaged");
    let damaged = UnlockError::KeyslotDamaged { slot: 0, offset: area.offset + 10 * 512 };
    assert_eq!(unlock(&device, "one"), Err(damaged), "with no other keyslot to refuse it");
}

#[test]
fn a_bad_sector_in_one_area_does_not_keep_another_keyslot_from_opening() {
    let (device, volume) = small_with(&["one", "two"]);
    let area = volume.info().keyslots[0].area.clone().expect("an area");
    device.fail(Fault::UnreadableRange { offset: area.offset + 512, len: 1 });
    assert_eq!(unlock(&device, "two"), Ok(DATA_LEN));
    assert!(matches!(unlock(&device, "one"), Err(UnlockError::Device(DeviceError { .. }))));
}

#[test]
fn a_device_that_ends_too_early_says_how_much_is_missing() {
    let (device, _) = small();
    let cut = |len: u64| FaultDevice::new(device.image()[..len as usize].to_vec());
    let too_small = |has| Err(UnlockError::DataDeviceTooSmall { needs: DATA_OFFSET + 512, has });
    assert_eq!(unlock(&cut(DATA_OFFSET + 1023), "one"), Ok(512));
    assert_eq!(unlock(&cut(DATA_OFFSET + 511), "one"), too_small(DATA_OFFSET + 511));
    assert_eq!(unlock(&cut(8192), "one"), too_small(8192));
    // Keyslots can still be tested, as on a detached header; an area that is cut off is a damaged one.
    let short = cut(8192);
    let error = Luks1::read(&short).expect("a header").test_passphrase(&short, &pass("one"), None);
    assert_eq!(error, Err(UnlockError::KeyslotDamaged { slot: 0, offset: 8192 }));
    let changed = Luks1::read(&short).expect("a header").kill_slot(&short, 0, true);
    assert!(matches!(changed, Err(ChangeError::Option(OptionError::DeviceTooSmall { has: 8192, .. }))));
}

#[test]
fn a_header_without_data_on_its_device_asks_for_the_data_device() {
    let (header, data) = (FaultDevice::zeroed(1 << 20), FaultDevice::zeroed(1 << 20));
    luks1::format(Devices::detached(&header, &data), &pass("one"), &small_options()).expect("formats");
    assert!(matches!(unlock(&header, "one"), Err(UnlockError::DataOverHeader { data: 0, .. })));
}

#[test]
fn null_and_unknown_algorithms_are_refused_without_being_called_wrong() {
    let named = |at: usize, text: &str| {
        let mut image = small().0.image();
        image[at..at + 32].fill(0);
        image[at..at + text.len()].copy_from_slice(text.as_bytes());
        unlock(&FaultDevice::new(image), "one").expect_err("refused")
    };
    assert_eq!(named(8, "cipher_null"), UnlockError::Key(KeyError::NullCipher));
    assert!(matches!(named(8, "rot13"), UnlockError::UnsupportedCipher(_)));
    assert!(matches!(named(40, "cbc-rot13"), UnlockError::UnsupportedCipher(_)));
    assert_eq!(named(72, "md2"), UnlockError::UnsupportedHash);
}

#[test]
fn a_wipe_that_does_not_reach_the_media_keeps_the_keyslot_listed() {
    let (device, mut volume) = small_with(&["one", "two"]);
    let area = volume.info().keyslots[1].area.clone().expect("an area");
    device.fail(Fault::DroppedWrites { offset: area.offset + 5000, len: 512 });
    let error = volume.kill_slot(&device, 1, false);
    assert_eq!(error, Err(ChangeError::WipeNotVerified { offset: area.offset + 5000 }));
    let listed = Luks1::read(&device).expect("a header").info();
    assert_eq!(listed.keyslots.iter().map(|k| k.id).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_failing_flush_or_a_full_disk_acknowledges_nothing() {
    for number in 0..2 {
        let (device, mut volume) = small();
        let before = volume.clone();
        device.fail(Fault::FailingFlush { number: device.counts().1 + number });
        let one = pass("one");
        let error = volume.add_key(&device, Credential::Passphrase(&one, None), &pass("two"), &fast());
        assert!(matches!(error, Err(ChangeError::Device(_))), "flush {number}: {error:?}");
        assert_eq!(volume, before, "what was not written is not believed");
    }
    let device = FaultDevice::zeroed((DATA_OFFSET + DATA_LEN) as usize);
    device.fail(Fault::NoSpaceFrom { offset: 100_000 });
    let error = luks1::format(Devices::together(&device), &pass("one"), &small_options()).expect_err("full");
    let FormatError::Device(DeviceError { cause, .. }) = error else { panic!("{error}") };
    assert_eq!(cause, Cause::NoSpace);
    assert_eq!(Luks1::read(&device), Err(OpenError::NotLuks), "no header over half a volume");
}

#[test]
fn a_device_for_reading_only_refuses_changes_and_still_opens() {
    let (device, mut volume) = small();
    device.fail(Fault::ReadOnly);
    assert_eq!(unlock(&device, "one"), Ok(DATA_LEN));
    let error = volume.kill_slot(&device, 0, true);
    assert!(
        matches!(error, Err(ChangeError::Device(DeviceError { cause: Cause::ReadOnly, .. }))),
        "{error:?}"
    );
    assert_eq!(opens(&device, "one"), Ok(0));
}

#[test]
fn backups_are_checked_before_anything_is_written() {
    let (device, _) = small_with(&["one", "two"]);
    let backup = header_backup(&device).expect("backs up");
    let restore = |device: &FaultDevice, backup: &[u8], replace_other| {
        device.forget();
        let result =
            header_restore(device, backup, RestoreOptions { replace_other, ..RestoreOptions::default() });
        assert_eq!(result.is_err(), device.recording().events().is_empty(), "{result:?}");
        result
    };
    assert_eq!(restore(&device, &backup, false), Ok(()));

    let needs = 4096 + 8 * 65536 - 3 * 512;
    let short = &backup[..needs as usize - 1];
    assert_eq!(restore(&device, short, true), Err(ChangeError::BackupLength { has: needs - 1, needs }));
    assert_eq!(restore(&device, &[], true), Err(ChangeError::BadBackup(OpenError::NotLuks)));
    assert_eq!(
        restore(&device, &backup[..591], true),
        Err(ChangeError::BadBackup(OpenError::Luks1(HeaderError::Truncated { has: 591 })))
    );
    let mut overlapping = backup.clone();
    overlapping[SLOT_TABLE + 48 + 40..][..4].copy_from_slice(&8u32.to_be_bytes());
    let overlap = OpenError::Luks1(HeaderError::AreaOverlap { a: 0, b: 1 });
    assert_eq!(restore(&device, &overlapping, true), Err(ChangeError::BadBackup(overlap)));

    let (other, _) = small();
    assert_eq!(restore(&other, &backup, false), Err(ChangeError::BackupOfAnotherVolume));
    assert_eq!(restore(&other, &backup, true), Ok(()));
    assert_eq!(opens(&other, "two"), Ok(1));

    let mut moved = backup.clone();
    moved[104..108].copy_from_slice(&4096u32.to_be_bytes());
    let small_device =
        ChangeError::Option(OptionError::DeviceTooSmall { needs: 2 << 20, has: device.size() });
    assert_eq!(restore(&device, &moved, true), Err(small_device));
    moved[104..108].copy_from_slice(&2040u32.to_be_bytes());
    assert_eq!(restore(&device, &moved, false), Err(ChangeError::BackupLayoutDiffers));

    let blank = FaultDevice::zeroed(device.size() as usize);
    assert_eq!(restore(&blank, &backup, false), Ok(()));
    assert_eq!(opens(&blank, "two"), Ok(1));
    let mut luks2 = vec![0; device.size() as usize];
    luks2[..8].copy_from_slice(b"LUKS\xba\xbe\0\x02");
    assert_eq!(restore(&FaultDevice::new(luks2), &backup, false), Err(ChangeError::BackupOfAnotherVolume));
}

#[test]
fn a_damaged_keyslot_table_is_repaired_and_nothing_else() {
    let (device, _) = small_with(&["one", "two"]);
    let good = device.image();
    assert_eq!(luks1::repair(&device), Err(ChangeError::NothingToRepair));
    device.write_at(SLOT_TABLE as u64 + 48, &[0; 4]).expect("a state word");
    device.write_at(SLOT_TABLE as u64 + 40, &[0xff; 8]).expect("an offset and stripes");
    assert!(Luks1::read(&device).is_err());
    atrest_volume::repair(&device).expect("repaired");
    assert_eq!(device.image(), good);
    assert_eq!(opens(&device, "two"), Ok(1));

    device.write_at(108, &[0; 4]).expect("the key's length");
    device.forget();
    let error = luks1::repair(&device).expect_err("can't be made up");
    assert_eq!(error, ChangeError::Open(OpenError::Luks1(HeaderError::KeyLen { bytes: 0 })));
    assert!(device.recording().events().is_empty());
}

#[test]
fn names_that_mean_one_thing_alone_are_repaired() {
    let (device, _) = small_with(&["one"]);
    let good = device.image();
    device.write_at(72, b"SHA256").expect("the hash");
    let damage = Luks1::read(&device).expect("reads").info().copies[0].damage.clone();
    assert!(damage.is_some_and(|damage| damage.contains("SHA256")));
    atrest_volume::repair(&device).expect("repaired");
    assert_eq!(device.image(), good);
    assert_eq!(Luks1::read(&device).expect("reads").info().copies[0].damage, None);
    assert_eq!(luks1::repair(&device), Err(ChangeError::NothingToRepair));

    // A hash that nobody knows stays; of ECB what stands behind its name goes.
    device.write_at(72, b"SHA999").expect("the hash");
    assert_eq!(luks1::repair(&device), Err(ChangeError::NothingToRepair));
    device.write_at(40, b"ecb-xxx\0\0\0\0\0").expect("the mode");
    let repaired = luks1::repair(&device).expect("repaired").info();
    assert_eq!(repaired.segments[0].cipher, "aes-ecb");
    let image = device.image();
    assert_eq!((&image[40..50], &image[72..78]), (&b"ecb\0\0\0\0\0\0\0"[..], &b"SHA999"[..]));
}

/// A device that goes on with zeros behind its bytes.
struct Long<'a>(&'a FaultDevice);

impl BlockDevice for Long<'_> {
    fn size(&self) -> u64 {
        1 << 42
    }

    fn geometry(&self) -> Geometry {
        Geometry::default()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        buf.fill(0);
        let here = self.0.size().saturating_sub(offset).min(buf.len() as u64);
        self.0.read_at(offset.min(self.0.size()), &mut buf[..here as usize])
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.0.write_at(offset, data)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.0.flush()
    }
}

impl Unshared for Long<'_> {}

#[test]
fn a_backup_takes_no_more_memory_than_keyslots_can_need() {
    let mut image = small().0.image();
    // The data is elsewhere, so that nothing bounds the areas; the last one lies near the end of 2 TiB.
    image[104..108].fill(0);
    image[SLOT_TABLE + 7 * 48 + 40..][..4].copy_from_slice(&0xffff_f000_u32.to_be_bytes());
    let device = FaultDevice::new(image);
    let needs = (0xffff_f000 + 125) * 512;
    let error = header_backup(&device).expect_err("the area is not on the device");
    let OpenError::Device(error) = error else { panic!("{error:?}") };
    assert_eq!((error.len, error.cause), (needs, Cause::OutOfBounds { size: device.size() }));
    let most = 256 << 20;
    assert_eq!(header_backup(&Long(&device)), Err(OpenError::BackupTooLarge { needs, most }));
}

#[test]
fn a_backup_of_a_detached_header_is_not_restored_over_the_beginning_of_data() {
    let (header, data) = (FaultDevice::zeroed(1 << 20), FaultDevice::zeroed(64 << 10));
    luks1::format(Devices::detached(&header, &data), &pass("one"), &small_options()).expect("formats");
    let backup = header_backup(&header).expect("a backup");
    let before = header.image();
    for replace_other in [false, true] {
        let here = RestoreOptions { replace_other, detached: false };
        let data = FaultDevice::new(vec![0x5a; 1 << 20]);
        assert_eq!(header_restore(&data, &backup, here), Err(ChangeError::BackupOfDetachedHeader));
        assert!(data.recording().events().is_empty(), "something was written");
        // Over itself, and where the caller says that the device is for the header alone.
        assert_eq!(header_restore(&header, &backup, here), Ok(()));
        assert!(header.image() == before);
        assert_eq!(header_restore(&data, &backup, RestoreOptions { detached: true, ..here }), Ok(()));
        assert_eq!(opens(&data, "one"), Ok(0));
    }
    // One whose data is behind it needs no word. The device may end where the data begins.
    let (volume, _) = small();
    let backup = header_backup(&volume).expect("a backup");
    let empty = FaultDevice::zeroed((DATA_OFFSET + DATA_LEN) as usize);
    assert_eq!(header_restore(&empty, &backup, RestoreOptions::default()), Ok(()));
    assert_eq!(opens(&empty, "one"), Ok(0));
    let restored =
        |size: u64| header_restore(&FaultDevice::zeroed(size as usize), &backup, RestoreOptions::default());
    assert_eq!(restored(DATA_OFFSET), Ok(()));
    let small = OptionError::DeviceTooSmall { needs: DATA_OFFSET, has: DATA_OFFSET - 1 };
    assert_eq!(restored(DATA_OFFSET - 1), Err(small.into()));
}

/// Digest at byte 112, its salt at 132 (specification, figure 1): another one is another volume's, and LUKS1 has no checksum.
#[test]
fn a_header_with_another_digest_or_another_salt_of_it_is_another_volumes() {
    for at in [112, 131, 132, 163] {
        let (device, mut volume) = small_with(&["one", "two"]);
        device.write_at(at, &[!device.image()[at as usize]]).expect("writes");
        device.forget();
        assert_eq!(volume.kill_slot(&device, 1, false), Err(ChangeError::ChangedMeanwhile), "byte {at}");
        assert!(device.recording().events().is_empty(), "something was written");
    }
}
