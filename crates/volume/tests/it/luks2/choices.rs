//! What the caller asks for is what is written, up to the last value that fits; and what is drawn is never the same twice.

use atrest_device::{BlockDevice, Geometry};
use atrest_format::luks2::{AreaKind, Kdf, KeyslotKind};
use atrest_kdf::Hash;
use atrest_testkit::{FaultDevice, ShapedDevice};
use atrest_volume::luks2::reencrypt::{ReencryptError, ReencryptOptions, ResilienceKind};
use atrest_volume::luks2::{self, Luks2};
use atrest_volume::{
    ChangeError, Credential, Devices, FormatError, FormatOptions, KeyslotOptions, OptionError, PbkdfKind,
    PbkdfOptions, Priority, Relabel, RestoreOptions, UnlockOptions, VolumeKey,
};

use crate::luks2::support::*;

fn format(device: &FaultDevice, options: &FormatOptions) -> Result<Luks2, FormatError> {
    luks2::format(Devices::together(device), &passphrase("one"), options)
}

/// Ends of the keyslots area and beginnings of the data.
fn places(luks: &Luks2) -> (u64, u64) {
    (luks.header_size(), luks.metadata().data_offset())
}

const MIB: u64 = 1 << 20;
const LEAST: u64 = 258_048;

#[test]
fn header_keyslots_and_data_lie_where_they_are_asked_for() {
    let device = FaultDevice::zeroed(20 << 20);
    let place = |keyslots_size: Option<u64>, data_offset: Option<u64>, metadata_size: Option<u64>| {
        let options = FormatOptions { keyslots_size, data_offset, metadata_size, ..small() };
        format(&device, &options).map(|luks| places(&luks))
    };
    let offset = |bytes| Err(FormatError::Option(OptionError::DataOffset { bytes, header: 0x8000 + LEAST }));
    let size = |bytes| Err(FormatError::Option(OptionError::KeyslotsSize { bytes }));
    assert_eq!(place(None, None, None), Ok((16 * MIB, 16 * MIB)));
    assert_eq!(place(Some(LEAST), None, None), Ok((0x8000 + LEAST, MIB)));
    assert_eq!(place(Some(LEAST - 4096), None, None), size(LEAST - 4096));
    assert_eq!(place(Some(LEAST + 512), None, None), size(LEAST + 512));
    assert_eq!(place(None, Some(0x8000 + LEAST), None), Ok((0x8000 + LEAST, 0x8000 + LEAST)));
    assert_eq!(place(None, Some(0x8000 + LEAST - 4096), None), offset(0x8000 + LEAST - 4096));
    assert_eq!(place(None, Some(0x8000 + LEAST + 512), None), offset(0x8000 + LEAST + 512));
    assert_eq!(place(Some(LEAST), Some(MIB), None), Ok((0x8000 + LEAST, MIB)));
    assert_eq!(place(Some(MIB - 0x8000), Some(MIB), None), Ok((MIB, MIB)));
    assert_eq!(place(Some(MIB - 0x8000 + 4096), Some(MIB), None), size(MIB - 0x8000 + 4096));
    assert_eq!(place(Some((128 << 20) + 4096), None, None), size((128 << 20) + 4096));
    assert_eq!(place(None, None, Some(0x40_0000)), Ok((16 * MIB, 16 * MIB)));
    let zero = FormatError::Option(OptionError::DataOffset { bytes: 0, header: 0x8000 + LEAST });
    assert_eq!(place(Some(LEAST), Some(0), None), Err(zero));
    // The last data unit still fits.
    let last = |bytes: usize| {
        format(
            &FaultDevice::zeroed(bytes),
            &FormatOptions { keyslots_size: Some(LEAST), data_unit: Some(4096), ..small() },
        )
    };
    assert!(last(MIB as usize + 4096).is_ok());
    let needs = MIB + 4096;
    let small = |has| Some(FormatError::Option(OptionError::DeviceTooSmall { needs, has }));
    assert_eq!(last(MIB as usize + 4095).err(), small(MIB + 4095));
}

#[test]
fn a_detached_header_takes_what_its_device_has_and_no_more_than_16_mib() {
    let data = FaultDevice::zeroed(1 << 20);
    let header_on = |bytes: u64| {
        let header = FaultDevice::zeroed(bytes as usize);
        let options = FormatOptions { keyslots_size: None, ..small() };
        luks2::format(Devices::detached(&header, &data), &passphrase("one"), &options).map(|l| places(&l))
    };
    assert_eq!(header_on(20 * MIB), Ok((16 * MIB, 0)));
    assert_eq!(header_on(16 * MIB), Ok((16 * MIB, 0)));
    assert_eq!(header_on(2 * MIB + 4095), Ok((2 * MIB, 0)));
    assert_eq!(header_on(0x8000 + LEAST), Ok((0x8000 + LEAST, 0)));
    let needs = 0x8000 + LEAST;
    let small = OptionError::DeviceTooSmall { needs, has: needs - 1 };
    assert_eq!(header_on(needs - 1), Err(FormatError::Option(small)));
}

#[test]
fn data_is_aligned_to_what_is_asked_for_or_what_the_device_likes() {
    let device = FaultDevice::zeroed(8 << 20);
    let placed = |asked: Option<u64>, likes: u32, first: u32, data_unit: Option<u32>| {
        let geometry = Geometry { optimal_alignment: likes, alignment_offset: first, ..Geometry::default() };
        let device = ShapedDevice(&device, geometry);
        let options =
            FormatOptions { keyslots_size: Some(LEAST), data_alignment: asked, data_unit, ..small() };
        luks2::format(Devices::together(&device), &passphrase("one"), &options).map(|luks| places(&luks).1)
    };
    let aligned = |asked, likes| placed(asked, likes, 0, Some(4096));
    let end = 0x8000 + LEAST;
    assert_eq!(aligned(None, 1 << 20), Ok(MIB));
    assert_eq!(aligned(None, 3 << 20), Ok(3 * MIB));
    assert_eq!(aligned(None, 512), Ok(end.next_multiple_of(4096)));
    assert_eq!(aligned(Some(2 * MIB), 1 << 20), Ok(2 * MIB));
    assert_eq!(aligned(Some(1), 1 << 20), Ok(end.next_multiple_of(4096)));
    for bytes in [4097, u64::MAX, u64::MAX - 4095] {
        let refused = aligned(Some(bytes), 1 << 20);
        assert!(
            matches!(refused, Err(FormatError::Option(OptionError::DataOffset { .. }))),
            "{bytes}: {refused:?}"
        );
    }
    // Sectors alone need no more than their own size. Nothing is said of the place: then it begins where whole blocks do.
    assert_eq!(placed(Some(4608), 1 << 20, 0, Some(512)), Ok(end.next_multiple_of(4608)));
    assert_eq!(placed(None, 1 << 20, 3584, Some(512)), Ok(MIB + 3584));
    assert_eq!(placed(None, 1 << 20, 3584, None), Ok(MIB + 3584), "and sectors are of 512 bytes then");
    assert_eq!(placed(Some(MIB), 1 << 20, 3584, Some(512)), Ok(MIB));
    assert!(placed(None, 1 << 20, 3584, Some(1024)).is_err());
}

#[test]
fn data_units_follow_the_device_if_none_are_asked_for() {
    let unit = |size: usize, logical_block: u32, physical_block: u32, asked: Option<u32>| {
        let device = FaultDevice::zeroed(size);
        let device = ShapedDevice(&device, Geometry { logical_block, physical_block, ..Geometry::default() });
        let options = FormatOptions { keyslots_size: Some(LEAST), data_unit: asked, ..small() };
        let luks = luks2::format(Devices::together(&device), &passphrase("one"), &options);
        luks.map(|luks| luks.info().segments[0].data_unit)
    };
    const SIZE: usize = 2 << 20;
    assert_eq!(unit(SIZE, 512, 512, None), Ok(512));
    assert_eq!(unit(SIZE, 512, 2048, None), Ok(512));
    assert_eq!(unit(SIZE, 512, 4096, None), Ok(4096));
    assert_eq!(unit(SIZE, 512, 8192, None), Ok(4096));
    assert_eq!(unit(SIZE + 512, 512, 4096, None), Ok(512), "the last block is no whole one");
    for asked in [512, 1024, 2048, 4096] {
        assert_eq!(unit(SIZE, 512, 512, Some(asked)), Ok(asked));
    }
    for bytes in [0, 256, 1536, 8192] {
        let refused = FormatError::Option(OptionError::DataUnit { bytes });
        assert_eq!(unit(SIZE, 512, 512, Some(bytes)), Err(refused));
    }
    assert_eq!(unit(SIZE, 4096, 4096, Some(2048)), Ok(2048), "what is written has whole blocks all the same");
    assert_eq!(unit(SIZE, 4096, 4096, Some(4096)), Ok(4096));
    assert_eq!(unit(SIZE, 8192, 8192, Some(4096)), Ok(4096), "no data unit is larger");
}

#[test]
fn areas_have_the_cipher_of_the_data_where_that_suits_them() {
    let area = |cipher: &str, key_len: Option<usize>, keyslot: KeyslotOptions| {
        let device = FaultDevice::zeroed(4 << 20);
        let options = FormatOptions {
            cipher: Some(spec(cipher)),
            data_unit: Some(512),
            key_len,
            keyslot,
            keyslots_size: Some(4 * LEAST),
            ..FormatOptions::default()
        };
        format(&device, &options).map(|luks| match &luks.metadata().keyslots()[0].area.kind {
            AreaKind::Raw { encryption, key_len } => (encryption.clone(), *key_len),
            other => panic!("{other:?}"),
        })
    };
    let is = |cipher: &str, key_len: u32| Ok((String::from(cipher), key_len));
    assert_eq!(area("aes-xts-plain64", None, keyslot()), is("aes-xts-plain64", 64));
    assert_eq!(area("aes-xts-plain64", Some(32), keyslot()), is("aes-xts-plain64", 32));
    assert_eq!(area("serpent-cbc-essiv:sha256", Some(32), keyslot()), is("serpent-cbc-essiv:sha256", 32));
    // IV rules of other disk encryptions, with keys of their own, are for data alone.
    assert_eq!(
        area("aes-lrw-benbi", None, keyslot()).map(|(cipher, _)| cipher).as_deref(),
        Ok("aes-lrw-benbi")
    );
    assert_eq!(
        area("aes-cbc-tcw", None, keyslot()).map(|(cipher, _)| cipher).as_deref(),
        Ok("aes-xts-plain64")
    );
    let asked = |cipher: &str, len: Option<usize>| KeyslotOptions {
        area_cipher: Some(spec(cipher)),
        area_key_len: len,
        ..keyslot()
    };
    assert_eq!(
        area("aes-xts-plain64", None, asked("aes-cbc-essiv:sha256", None)),
        is("aes-cbc-essiv:sha256", 32)
    );
    assert_eq!(area("aes-xts-plain64", None, asked("aes-xts-plain64", Some(32))), is("aes-xts-plain64", 32));
    assert_eq!(area("aes-xts-plain64", Some(32), asked("aes-xts-plain64", None)), is("aes-xts-plain64", 64));
    let refused = |error| Err(FormatError::Option(error));
    assert_eq!(
        area("aes-xts-plain64", None, asked("cipher_null-ecb", None)),
        refused(OptionError::NullCipher)
    );
    let snapshot = area("aes-xts-plain64", None, asked("aes-ctr-plain64", None));
    assert_eq!(snapshot, refused(OptionError::SingleSnapshot));
    let length = OptionError::KeyLength { bytes: 33, takes: &[32, 48, 64] };
    assert_eq!(area("aes-xts-plain64", None, asked("aes-xts-plain64", Some(33))), refused(length));
}

#[test]
fn costs_hashes_and_names_are_stored_as_asked_for() {
    let (device, _) = volume();
    let options = FormatOptions {
        label: Some("x".repeat(47)),
        subsystem: Some("of a subsystem".into()),
        uuid: Some("01234567-89AB-4DEF-8123-456789ABCDEF".into()),
        hash: Some(Hash::Sha512),
        keyslot: KeyslotOptions {
            slot: Some(31),
            priority: Priority::Prefer,
            pbkdf: PbkdfOptions { hash: Some(Hash::Sha1), forced_iterations: Some(1234), ..cheap() },
            ..KeyslotOptions::default()
        },
        ..small()
    };
    let mut luks = format(&device, &options).expect("formats");
    assert_eq!((luks.label(), luks.subsystem()), ("x".repeat(47).as_str(), "of a subsystem"));
    assert_eq!(luks.uuid(), "01234567-89ab-4def-8123-456789abcdef");
    let keyslot = luks.metadata().keyslot(31).expect("as asked for").clone();
    let KeyslotKind::Luks2 { af, kdf: Kdf::Pbkdf2 { hash, iterations, salt } } = &keyslot.kind else {
        panic!("{keyslot:?}")
    };
    assert_eq!((af.hash.as_str(), hash.as_str(), *iterations), ("sha512", "sha1", 1234));
    let info = luks.info();
    let hexadecimal: String = salt.iter().map(|byte| format!("{byte:02x}")).collect();
    let kdf = info.keyslots[0].kdf.as_ref().expect("a kdf");
    assert_eq!((&kdf.salt, kdf.iterations), (&hexadecimal, 1234));
    assert_eq!((info.keyslots[0].priority, info.keyslots[0].unbound), (Priority::Prefer, false));
    assert_eq!(info.digests[0].hash.as_deref(), Some("sha512"));
    assert_eq!(info.digests[0].digest.as_ref().map(String::len), Some(128));

    // And changed, all at once or not at all.
    let long = "x".repeat(48);
    for (new, refused) in [
        (Relabel { label: Some(&long), ..Relabel::default() }, OptionError::LabelLength { bytes: 48 }),
        (
            Relabel { label: Some("y"), subsystem: Some("a\0b"), ..Relabel::default() },
            OptionError::LabelLength { bytes: 3 },
        ),
        (Relabel { label: Some("y"), uuid: Some("y"), ..Relabel::default() }, OptionError::Uuid),
    ] {
        let before = device.image();
        assert_eq!(luks.relabel(&device, &new), Err(ChangeError::Option(refused)));
        assert!(device.image() == before && luks.label() == "x".repeat(47));
    }
    let new =
        Relabel { label: Some(""), subsystem: Some("s"), uuid: Some("11234567-89AB-4DEF-8123-456789ABCDEF") };
    luks.relabel(&device, &new).expect("changes");
    let read = Luks2::read(&device).expect("reads");
    assert_eq!((read.label(), read.subsystem()), ("", "s"));
    assert_eq!(read.uuid(), "11234567-89ab-4def-8123-456789abcdef");
    luks.set_priority(&device, 31, Priority::Ignore).expect("sets");
    assert_eq!(luks.info().keyslots[0].priority, Priority::Ignore);
    assert_eq!(opens(&device, "one"), None, "only when asked for by number");
    let by_number = UnlockOptions { slot: Some(31), ..UnlockOptions::default() };
    assert!(luks.unlock(Devices::together(&device), &passphrase("one"), &by_number).is_ok());
    assert_eq!(luks.set_priority(&device, 0, Priority::Prefer), Err(ChangeError::NoSuchKeyslot { slot: 0 }));
}

#[test]
fn costs_below_the_least_or_above_the_most_are_refused() {
    let argon2 = |time, memory_kib, lanes| PbkdfOptions {
        kind: Some(PbkdfKind::Argon2id),
        forced_iterations: Some(time),
        memory_kib: Some(memory_kib),
        lanes: Some(lanes),
        ..PbkdfOptions::default()
    };
    let made = |pbkdf: PbkdfOptions| {
        let device = FaultDevice::zeroed(DEVICE_SIZE);
        let keyslot = KeyslotOptions { pbkdf, ..KeyslotOptions::default() };
        let made = format(&device, &FormatOptions { keyslot, ..small() });
        assert!(made.is_ok() || device.recording().events().is_empty(), "something was written");
        made.map(|luks| {
            luks.info().keyslots[0].kdf.as_ref().map(|kdf| (kdf.iterations, kdf.memory_kib, kdf.lanes))
        })
    };
    let refused = Err(FormatError::Option(OptionError::Pbkdf));
    assert_eq!(made(argon2(4, 32, 4)), Ok(Some((4, Some(32), Some(4)))));
    assert_eq!(made(argon2(3, 32, 4)), refused);
    assert_eq!(made(argon2(4, 31, 1)), refused);
    assert_eq!(made(argon2(4, 64, 0)), refused);
    assert_eq!(made(argon2(4, 64, 5)), refused);
    assert_eq!(made(PbkdfOptions { forced_iterations: Some(999), ..cheap() }), refused);
    assert_eq!(made(cheap()), Ok(Some((1000, None, None))));
}

/// Every salt, key and digest, of two volumes and of two keyslots of each.
#[test]
fn nothing_that_is_drawn_is_drawn_twice() {
    let mut drawn: Vec<Vec<u8>> = Vec::new();
    for _ in 0..2 {
        let (device, mut luks) = volume();
        let one = passphrase("one");
        luks.add_key(&device, Credential::Passphrase(&one, None), &one, &keyslot()).expect("adds");
        let key = VolumeKey::generate(64, &mut atrest_secret::OsRandom).expect("random");
        luks.add_unbound_key(&device, &key, &one, &keyslot()).expect("adds");
        let image = device.image();
        // Salts of both header copies.
        drawn.extend([104, 0x4000 + 104].map(|at| image[at..at + 64].to_vec()));
        for keyslot in luks.metadata().keyslots() {
            let area =
                &image[keyslot.area.offset as usize..(keyslot.area.offset + keyslot.area.size) as usize];
            drawn.extend(area[..256_000].chunks(32_000).map(|piece| piece[..64].to_vec()));
            let KeyslotKind::Luks2 { kdf: Kdf::Pbkdf2 { salt, .. }, .. } = &keyslot.kind else {
                panic!("{keyslot:?}")
            };
            drawn.push(salt.to_vec());
        }
        for digest in luks.info().digests {
            drawn.extend([digest.salt, digest.digest].map(|text| text.expect("there").into_bytes()));
        }
        drawn.push(luks.uuid().as_bytes().to_vec());
        drawn.push(luks.keyslot_key(&device, &one, Some(0)).expect("opens").1.expose().to_vec());
    }
    let count = drawn.len();
    assert!(drawn.iter().all(|bytes| bytes.iter().any(|byte| *byte != bytes[0])), "one byte over and over");
    drawn.sort();
    drawn.dedup();
    assert_eq!(drawn.len(), count);
}

#[test]
fn what_was_in_front_of_the_data_is_overwritten_with_zeros_and_noise() {
    let device = FaultDevice::new(vec![0x5a; DEVICE_SIZE]);
    let options = FormatOptions { keyslots_size: Some(3 * LEAST), ..small() };
    let luks = format(&device, &options).expect("formats");
    let image = device.image();
    let (end, data) = places(&luks);
    let (end, data) = (end as usize, data as usize);
    let noise = &image[0x8000..end];
    assert!(
        !noise.chunks(512).any(|sector| sector.iter().all(|byte| *byte == sector[0])),
        "a sector is no noise"
    );
    assert!(image[end..data].iter().all(|byte| *byte == 0), "an old signature may be left");
    assert!(image[data..].iter().all(|byte| *byte == 0x5a), "the data is left as it is");
    assert!(!image[..0x8000].contains(&0x5a) || image[0x3f00..0x4000] == [0; 256]);
    // Wiped keyslots are noise, too, and no zeros.
    let mut luks = luks;
    luks.erase(&device).expect("erases");
    let erased = device.image();
    let noise = &erased[0x8000..end];
    assert!(!noise.chunks(512).any(|sector| sector.iter().all(|byte| *byte == sector[0])));
    assert_eq!(image[0x8000..end].chunks(512).zip(noise.chunks(512)).filter(|(a, b)| a == b).count(), 0);
    assert_eq!(erased[end..], image[end..]);
}

#[test]
fn a_change_keeps_its_keyslot_or_takes_the_one_that_is_named() {
    let (device, mut luks) = volume();
    let one = passphrase("one");
    luks.set_priority(&device, 0, Priority::Prefer).expect("sets");
    assert_eq!(luks.change_key(&device, &one, None, &one, &in_slot(0)), Ok(0), "its own number");
    assert_eq!(luks.info().keyslots[0].priority, Priority::Prefer);
    luks.add_key(&device, Credential::Passphrase(&one, None), &passphrase("two"), &keyslot()).expect("adds");
    let taken = luks.change_key(&device, &one, None, &one, &in_slot(1));
    assert_eq!(taken, Err(ChangeError::KeyslotInUse { slot: 1 }));
    let none = luks.change_key(&device, &one, None, &one, &in_slot(32));
    assert_eq!(none, Err(ChangeError::Option(OptionError::SlotNumber { slot: 32, count: 32 })));
    assert_eq!(luks.change_key(&device, &one, Some(0), &one, &in_slot(5)), Ok(5));
    assert_eq!(luks.kill_slot(&device, 0, true), Err(ChangeError::NoSuchKeyslot { slot: 0 }));
    assert_eq!((opens(&device, "one"), opens(&device, "two")), (Some(5), Some(1)));
}

/// Blocks of 4096 bytes over a length that they do not divide: no hash would cover the last one.
#[test]
fn hashes_of_blocks_need_data_of_whole_blocks_and_journals_do_not() {
    let image = FaultDevice::zeroed(DEVICE_SIZE - 512);
    let options = FormatOptions { data_unit: Some(512), ..small() };
    let luks = luks2::format(Devices::together(&image), &passphrase("one"), &options).expect("formats");
    let device = ShapedDevice(&image, Geometry { logical_block: 4096, ..Geometry::default() });
    image.forget();
    let begin = |resilience| {
        let options = ReencryptOptions { keyslot: keyslot(), resilience, ..ReencryptOptions::default() };
        let begun =
            luks.begin_reencryption(Devices::together(&device), &[(&passphrase("one"), None)], &options);
        begun.map(|rewriting| rewriting.alignment())
    };
    let size = image.size() - luks.metadata().data_offset();
    let refused = ReencryptError::Misaligned { size, multiple: 4096 };
    assert_eq!(begin(ResilienceKind::Checksum), Err(refused));
    assert!(image.recording().events().is_empty(), "something was written");
    assert_eq!(begin(ResilienceKind::Journal), Ok(4096));
}

#[test]
fn a_backup_restores_what_it_was_made_of_over_its_own_volume_only() {
    let (device, mut luks) = volume();
    let backup = luks2::header_backup(&device).expect("a backup");
    assert_eq!(backup.len() as u64, luks.header_size());
    luks.change_key(&device, &passphrase("one"), None, &passphrase("two"), &keyslot()).expect("changes");
    let sequence = luks.header_pair().header.binary.sequence;
    let restore = |backup: &[u8]| luks2::header_restore(&device, backup, RestoreOptions::default());
    let needs = backup.len() as u64;
    for extra in [1, 65_536] {
        let mut long = backup.clone();
        long.resize(backup.len() + extra, 0);
        let whole = needs.next_multiple_of(65_536);
        let expected = match long.len() as u64 > whole {
            true => Err(ChangeError::BackupLength { has: long.len() as u64, needs }),
            false => Ok(()),
        };
        assert_eq!(restore(&long), expected, "{extra}");
    }
    assert_eq!(restore(&backup), Ok(()));
    let restored = Luks2::read(&device).expect("reads");
    assert!(restored.header_pair().header.binary.sequence > sequence, "the newer header could come back");
    assert_eq!((opens(&device, "one"), opens(&device, "two")), (Some(0), None));
    assert!(restored.info().copies.iter().all(|copy| copy.damage.is_none()));
    // Padded to a page of 64 KiB at most, and never shorter than it must be.
    let odd = FaultDevice::zeroed(DEVICE_SIZE);
    format(&odd, &FormatOptions { keyslots_size: Some(LEAST), ..small() }).expect("formats");
    let whole = luks2::header_backup(&odd).expect("a backup");
    let of = |len: usize| {
        let mut backup = whole.clone();
        backup.resize(len, 0);
        luks2::header_restore(&odd, &backup, RestoreOptions::default())
    };
    assert_eq!((of(whole.len()), of(whole.len() + 4096), of(327_680)), (Ok(()), Ok(()), Ok(())));
    let long = ChangeError::BackupLength { has: 327_681, needs: 290_816 };
    assert_eq!(of(327_681), Err(long));
    assert!(matches!(of(whole.len() - 1), Err(ChangeError::BadBackup(_))));
    // Another layout under the same UUID.
    let other = FaultDevice::zeroed(DEVICE_SIZE);
    let options = FormatOptions { keyslots_size: Some(4 * LEAST), uuid: Some(luks.uuid().into()), ..small() };
    format(&other, &options).expect("formats");
    let before = other.image();
    let refused = luks2::header_restore(&other, &backup, RestoreOptions::default());
    assert_eq!(refused, Err(ChangeError::BackupLayoutDiffers));
    assert!(other.image() == before);
    let short = FaultDevice::zeroed(backup.len() - 1);
    let refused = luks2::header_restore(&short, &backup, RestoreOptions::default());
    let small = OptionError::DeviceTooSmall { needs, has: needs - 1 };
    assert_eq!(refused, Err(ChangeError::Option(small)));
}
