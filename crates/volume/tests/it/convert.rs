//! Volumes of one version of LUKS made volumes of the other: judged by Debian's cryptsetup, and at every power loss.

use std::collections::BTreeSet;
use std::path::Path;

use atrest_testkit::cryptsetup::{Cryptsetup, cryptsetup};
use atrest_testkit::power_loss::{Limits, Tearing};
use atrest_testkit::{FaultDevice, Scratch};
use atrest_volume::{
    ConvertError, Credential, CryptFlags, Devices, FormatOptions, KeyslotOptions, LockedVolume, Obstacle,
    PbkdfKind, Priority, Relabel, VolumeFormat, convert, format,
};

use crate::luks1::common::{fast, pass, small_options};
use crate::luks2::support::{cheap_argon2, key_file, load, save};

use VolumeFormat::{Luks1, Luks2};

/// A volume of that version in memory whose keyslots open with these texts.
fn volume(version: VolumeFormat, data_sector: u64, slots: &[(u32, &str)]) -> FaultDevice {
    let device = FaultDevice::zeroed((data_sector * 512) as usize + (64 << 10));
    let mut options = FormatOptions { data_offset: Some(data_sector * 512), ..small_options() };
    options.keyslot = in_slot(slots[0].0);
    options.data_unit = (version == Luks2).then_some(512);
    let mut locked =
        format(Devices::together(&device), version, &pass(slots[0].1), &options).expect("formats");
    for (slot, text) in &slots[1..] {
        let key = Credential::Passphrase(&pass(slots[0].1), None);
        locked.add_key(&device, key, &pass(text), &in_slot(*slot)).expect("added");
    }
    device.forget();
    device
}

/// As LUKS1 has keyslots: the hash of the header, and the cipher of the data.
fn in_slot(slot: u32) -> KeyslotOptions {
    let mut options = KeyslotOptions { slot: Some(slot), ..fast() };
    options.pbkdf.kind = Some(PbkdfKind::Pbkdf2);
    options
}

fn key(device: &FaultDevice, text: &str) -> Vec<u8> {
    let locked = LockedVolume::read(device).expect("a header");
    let (_, key) =
        locked.volume_key(device, &pass(text), None).unwrap_or_else(|error| panic!("{text}: {error}"));
    key.expose().to_vec()
}

/// First sector of data behind eight areas for keys of 16 bytes, without room for one more.
const TIGHT: u64 = 8 + 8 * 128;

#[test]
fn every_power_loss_leaves_a_volume_of_one_version_that_opens_with_every_passphrase() {
    let slots = [(0, "one"), (1, "two"), (6, "six")];
    // The area of keyslot 0 moves to a gap, or to the place of a free keyslot; or nothing has to move.
    for (from, data_sector, slots) in [
        (Luks1, 4096, &slots[..]),
        (Luks1, TIGHT, &slots),
        (Luks1, TIGHT, &slots[1..]),
        (Luks2, 4096, &slots),
    ] {
        let device = volume(from, data_sector, slots);
        let key = key(&device, slots[0].1);
        let to = if from == Luks1 { Luks2 } else { Luks1 };
        let locked = convert(&device, to).expect("converts");
        device.acknowledge(1);
        assert_eq!(locked.format(), to);
        let limits = Limits { tearing: Tearing::BetweenSectors, tears: 6, ..Limits::default() };
        let mut seen = BTreeSet::new();
        device.recording().for_each_power_loss(&limits, |aftermath| {
            let what = format!("{from:?} at sector {data_sector}: {}", aftermath.power_loss);
            let after = FaultDevice::new(aftermath.image);
            let locked = LockedVolume::read(&after).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(aftermath.acknowledged.is_empty() || locked.format() == to, "{what}");
            for (_, text) in slots {
                let opened = locked.volume_key(&after, &pass(text), None);
                let (_, opened) = opened.unwrap_or_else(|error| panic!("{what}: {text}: {error}"));
                assert_eq!(opened.expose(), key, "{what}");
            }
            // Whatever it is by now, the rest can be done.
            if locked.format() == from {
                let again = convert(&after, to);
                assert!(again.is_ok() || from == Luks2, "{what}: {again:?}");
            }
            seen.insert(format!("{:?}", locked.format()));
        });
        assert_eq!(seen.len(), 2, "both versions were seen");
    }
}

#[test]
fn nothing_is_left_of_an_area_that_was_moved() {
    let device = volume(Luks1, 4096, &[(0, "one")]);
    let before = device.image();
    convert(&device, Luks2).expect("converts");
    let after = device.image();
    // Sector by sector: what the header copies do not cover of the old area is noise by now.
    let old = 4096..4096 + 64_000;
    let same = old.step_by(512).filter(|at| before[*at..at + 512] == after[*at..at + 512]).count();
    assert_eq!(same, 0);
}

/// What cryptsetup and we say of a volume in a file, with each passphrase.
fn opens(directory: &Path, path: &Path, texts: &[&str]) {
    let device = load(path);
    for text in texts {
        let theirs = Cryptsetup::new(path, &key_file(directory, text));
        theirs.assert_opens();
        assert_eq!(theirs.volume_key(directory), key(&device, text), "{text}");
    }
}

#[test]
fn cryptsetup_reads_what_we_convert_and_we_what_it_converts() {
    for options in [
        "--cipher aes-xts-plain64 --key-size 512",
        "--cipher aes-cbc-essiv:sha256 --key-size 256 --hash sha512",
    ] {
        let directory = Scratch::new();
        let texts = ["one", "two", "three"];
        let [one, two, three] = texts.map(|text| key_file(directory.as_path(), text));
        let path = directory.path("volume.img");
        std::fs::write(&path, vec![0; 18 << 20]).expect("a file");
        let theirs = Cryptsetup::new(&path, &one);
        theirs.format(&format!("--type luks1 --pbkdf-force-iterations 1000 {options}"));
        for new in [&two, &three] {
            theirs.add_key(new, "--pbkdf-force-iterations 1000");
        }
        cryptsetup("luksKillSlot --key-file").arg(&one).arg(&path).arg("1").ok();
        let texts = ["one", "three"];
        let ours = |to| {
            let device = load(&path);
            convert(&device, to).unwrap_or_else(|error| panic!("{options}: {error}"));
            save(&device, directory.as_path(), "volume.img");
        };
        let cryptsetup_converts = |to: &str| cryptsetup("convert --type").arg(to).arg(&path).ok();
        opens(directory.as_path(), &path, &texts);
        // Ours there, cryptsetup's back, and the other way round.
        ours(Luks2);
        opens(directory.as_path(), &path, &texts);
        assert!(theirs.dump().contains("Version:       \t2"), "{}", theirs.dump());
        theirs.add_key(&two, "--pbkdf pbkdf2 --pbkdf-force-iterations 1000");
        let texts = ["one", "two", "three"];
        opens(directory.as_path(), &path, &texts);
        cryptsetup("luksKillSlot --key-file").arg(&one).arg(&path).arg("1").ok();
        let texts = ["one", "three"];
        ours(Luks1);
        opens(directory.as_path(), &path, &texts);
        assert!(theirs.dump().contains("Version:       \t1"), "{}", theirs.dump());
        cryptsetup_converts("luks2");
        opens(directory.as_path(), &path, &texts);
        ours(Luks1);
        opens(directory.as_path(), &path, &texts);
        // Its own way back needs areas in its own order, which the last one has not left.
        ours(Luks2);
        opens(directory.as_path(), &path, &texts);
        cryptsetup_converts("luks1");
        opens(directory.as_path(), &path, &texts);
    }
}

/// Fails unless this is refused for that reason, and nothing was written.
fn refused(device: &FaultDevice, to: VolumeFormat, why: Obstacle) {
    let before = device.image();
    assert_eq!(convert(device, to).err(), Some(ConvertError::Cannot(why)));
    assert!(device.image() == before, "{why:?}: it has been written to");
}

#[test]
fn what_the_other_version_can_not_say_is_refused_before_anything_is_written() {
    let eight: Vec<(u32, &str)> = (0..8).map(|slot| (slot, "one")).collect();
    refused(&volume(Luks1, TIGHT, &eight), Luks2, Obstacle::NoRoom);
    // Only keyslots whose place is in the header's second sector are free.
    refused(&volume(Luks1, TIGHT, &eight[..6]), Luks2, Obstacle::NoRoom);
    let fresh = || volume(Luks2, 4096, &[(0, "one")]);
    let changed = |change: &dyn Fn(&FaultDevice, &mut LockedVolume)| {
        let device = fresh();
        change(&device, &mut LockedVolume::read(&device).expect("reads"));
        device
    };
    let one = pass("one");
    let add = |options: KeyslotOptions| {
        changed(&move |device, locked| {
            locked
                .add_key(device, Credential::Passphrase(&pass("one"), None), &pass("two"), &options)
                .expect("adds");
        })
    };
    refused(&add(in_slot(8)), Luks1, Obstacle::Keyslot { slot: 8 });
    let argon2 = KeyslotOptions { pbkdf: cheap_argon2(PbkdfKind::Argon2id), ..in_slot(1) };
    refused(&add(argon2), Luks1, Obstacle::Keyslot { slot: 1 });
    let device = changed(&|device, locked| locked.set_priority(device, 0, Priority::Prefer).expect("sets"));
    refused(&device, Luks1, Obstacle::Keyslot { slot: 0 });
    let label = Relabel { label: Some("archive"), ..Relabel::default() };
    refused(
        &changed(&|device, locked| locked.relabel(device, &label).expect("sets")),
        Luks1,
        Obstacle::Texts,
    );
    let flags = CryptFlags { allow_discards: true, ..CryptFlags::default() };
    let device = changed(&|device, locked| {
        locked.luks2_mut().expect("LUKS2").set_flags(device, flags).expect("sets");
    });
    refused(&device, Luks1, Obstacle::Texts);
    let device = changed(&|device, locked| locked.kill_slot(device, 0, true).expect("wipes"));
    refused(&device, Luks1, Obstacle::NoKeyslot);
    let device = changed(&|device, locked| {
        let key = atrest_volume::VolumeKey::copy_from(&[7; 16]);
        locked
            .luks2_mut()
            .expect("LUKS2")
            .add_unbound_key(device, &key, &one, &in_slot(3))
            .map(drop)
            .expect("adds");
    });
    refused(&device, Luks1, Obstacle::Digests);
    let large = FaultDevice::zeroed(4 << 20);
    let options = FormatOptions { data_offset: Some(2 << 20), data_unit: Some(4096), ..small_options() };
    format(Devices::together(&large), Luks2, &one, &FormatOptions { keyslot: in_slot(0), ..options })
        .expect("formats");
    refused(&large, Luks1, Obstacle::DataUnit { bytes: 4096 });
    let device = fresh();
    let mut image = device.image();
    image[0x4000 + 5000] ^= 1;
    refused(&FaultDevice::new(image), Luks1, Obstacle::Damaged);
    refused(&device, VolumeFormat::Plain, Obstacle::NoHeader);
    assert_eq!(convert(&device, Luks2).err(), Some(ConvertError::Same { is: Luks2 }));
}
