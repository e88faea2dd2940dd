//! What bounds a zone, and what the digest of a re-encryption is made of.

use atrest_device::Geometry;
use atrest_testkit::{FaultDevice, ShapedDevice};

use atrest_format::luks2::{Checksums, Resilience};

use super::*;
use crate::{FormatOptions, KeyslotOptions, Passphrase, PbkdfKind, PbkdfOptions, UnlockError};

const MIB: u64 = 1 << 20;

/// The device with blocks of so many bytes.
fn blocks(device: &FaultDevice, len: u32) -> ShapedDevice<'_> {
    ShapedDevice(device, Geometry { logical_block: len, physical_block: len, ..Geometry::default() })
}

fn one() -> Passphrase {
    Passphrase::copy_from(b"one")
}

fn keyslot_options() -> KeyslotOptions {
    let pbkdf = PbkdfOptions {
        kind: Some(PbkdfKind::Pbkdf2),
        forced_iterations: Some(1000),
        ..PbkdfOptions::default()
    };
    KeyslotOptions { pbkdf, ..KeyslotOptions::default() }
}

/// Begins a re-encryption of 1 MiB in data units of 4 KiB, with so much room for what protects a zone.
fn begin<'a>(device: &'a ShapedDevice<'a>, resilience: ResilienceKind, room: u64) -> Rewriting<'a> {
    let format = FormatOptions {
        keyslots_size: Some(2 * 258_048 + room),
        data_unit: Some(4096),
        data_offset: Some(MIB),
        keyslot: keyslot_options(),
        ..FormatOptions::default()
    };
    let devices = Devices::together(device);
    let luks = crate::luks2::format(devices, &one(), &format).expect("formats");
    let options = ReencryptOptions { resilience, keyslot: keyslot_options(), ..ReencryptOptions::default() };
    luks.begin_reencryption(devices, &[(&one(), None)], &options).expect("begun")
}

#[test]
fn a_zone_of_whole_blocks_that_its_journal_can_not_hold_is_not_begun() {
    let media = FaultDevice::zeroed(2 << 20);
    for (block, room, expected) in [
        (8192, 4096, Err(ReencryptError::NoRoom)),
        (8192, 8192, Ok(8192)),
        (8192, 12_288, Ok(8192)),
        (512, 4096, Ok(4096)),
    ] {
        let device = blocks(&media, block);
        let rewriting = begin(&device, ResilienceKind::Journal, room);
        assert_eq!(rewriting.alignment(), block.max(4096));
        let zone = rewriting.next(MIB).map(|zone| zone.expect("not at the end").len);
        assert_eq!(zone, expected, "{block} {room}");
    }
}

#[test]
fn zones_are_of_whole_hashed_sectors_also_on_a_device_of_smaller_blocks() {
    let media = FaultDevice::zeroed(2 << 20);
    let (large, small) = (blocks(&media, 8192), blocks(&media, 512));
    drop(begin(&large, ResilienceKind::Checksum, 4096));
    let luks = Luks2::read(&small).expect("reads");
    let resume = || luks.resume_reencryption(Devices::together(&small), &one()).expect("verified");
    let mut rewriting = resume();
    assert_eq!(rewriting.alignment(), 8192);
    let zone = rewriting.next(8192 + 4096).expect("a zone").expect("not at the end");
    assert_eq!((zone.offset, zone.len), (0, 8192));
    // Room for 128 hashes.
    let longest = rewriting.next(u64::MAX).expect("a zone").expect("not at the end");
    assert_eq!(longest.len, MIB);
    for (len, sector, expected) in [
        (8192, 8192, Ok(())),
        (4096, 8192, Err(ReencryptError::Protection)),
        (12_288, 8192, Err(ReencryptError::Protection)),
        // Less than a data unit, and so many that there is no room for their hashes.
        (8192, 512, Err(ReencryptError::Protection)),
    ] {
        let hot = Zone { len, ..zone };
        rewriting.heat(&hot, &[]).expect("hot");
        rewriting.protection = Protection::Checksum { hash: Hash::Sha256, sector };
        assert_eq!(rewriting.interrupted().map(drop), expected, "{len} {sector}");
    }
    rewriting.protection = Protection::Checksum { hash: Hash::Sha256, sector: 4096 };
    for (len, expected) in [(128 * 4096, Ok(())), (129 * 4096, Err(ReencryptError::Protection))] {
        rewriting.heat(&Zone { len, ..zone }, &[]).expect("hot");
        assert_eq!(rewriting.interrupted().map(drop), expected, "{len}");
    }
}

/// The device has grown since: its last block would have no hash.
#[test]
fn a_last_zone_that_is_no_whole_hashed_sector_is_not_begun() {
    let media = FaultDevice::zeroed(2 << 20);
    let device = blocks(&media, 4096);
    let format = FormatOptions {
        keyslots_size: Some(2 * 258_048 + 4096),
        data_unit: Some(512),
        data_offset: Some(MIB),
        keyslot: keyslot_options(),
        ..FormatOptions::default()
    };
    let devices = Devices::together(&device);
    // A logical block of 4096 asks for data units as large.
    let small = blocks(&media, 512);
    let luks = crate::luks2::format(Devices::together(&small), &one(), &format).expect("formats");
    let options = ReencryptOptions { keyslot: keyslot_options(), ..ReencryptOptions::default() };
    drop(luks.begin_reencryption(devices, &[(&one(), None)], &options).expect("begun"));
    let mut image = media.image();
    image.extend([0; 512]);
    let media = FaultDevice::new(image);
    let device = blocks(&media, 4096);
    let luks = Luks2::read(&device).expect("reads");
    let mut rewriting = luks.resume_reencryption(Devices::together(&device), &one()).expect("verified");
    assert_eq!((rewriting.total(), rewriting.alignment()), (MIB + 512, 4096));
    assert_eq!(rewriting.new_mapper().expect("a key").data_unit(), 512);
    let zone = rewriting.next(MIB / 2).expect("a zone").expect("not at the end");
    assert_eq!(zone.len, MIB / 2);
    rewriting.heat(&Zone { len: MIB, ..zone }, &[]).expect("hot");
    assert_eq!(rewriting.cool(&Zone { len: MIB, ..zone }), Ok(false));
    assert_eq!(rewriting.next(MIB), Err(ReencryptError::Misaligned { size: MIB + 512, multiple: 4096 }));
}

#[test]
fn both_mappers_have_the_data_units_of_their_segments() {
    let media = FaultDevice::zeroed(2 << 20);
    let device = blocks(&media, 512);
    drop(begin(&device, ResilienceKind::None, 4096));
    let luks = Luks2::read(&device).expect("reads");
    let rewriting = luks.resume_reencryption(Devices::together(&device), &one()).expect("verified");
    let old = rewriting.old().expect("it was encrypted");
    assert_eq!((old.data_unit(), rewriting.new_mapper().expect("a key").data_unit()), (4096, 4096));
}

#[test]
fn hashes_are_of_64_kib_at_most() {
    let checksum = |hash: &str, sector_size| {
        protection(&Resilience::Checksum(Checksums { hash: hash.into(), sector_size }))
    };
    for sector in [512, 4096, 32 << 10, 64 << 10] {
        assert_eq!(checksum("sha256", sector), Ok(Protection::Checksum { hash: Hash::Sha256, sector }));
    }
    for sector in [128 << 10, 1 << 31] {
        assert_eq!(checksum("sha256", sector), Err(ReencryptError::Protection));
    }
    assert_eq!(checksum("md2", 512), Err(UnlockError::UnsupportedHash.into()));
}

/// LUKS2 specification, section 3.7: the prefix, the old key, the new one if it is another, and the metadata.
#[test]
fn the_digest_is_of_both_keys_and_of_one_that_stays_once() {
    let media = FaultDevice::zeroed(2 << 20);
    let device = blocks(&media, 512);
    let rewriting = begin(&device, ResilienceKind::Checksum, 4096);
    let (old, new) = (VolumeKey::copy_from(&[1; 64]), VolumeKey::copy_from(&[2; 64]));
    let mut state = rewriting.course.state.clone();
    let metadata = state.verified_metadata().expect("texts are short");
    let whole = |state: &Reencryption, old, new| {
        verification(state, old, new).expect("texts are short").expose().to_vec()
    };
    let (prefix, a, b) = (&b"v2"[..], old.expose(), new.expose());
    assert_eq!(whole(&state, Some(&old), Some(&new)), [prefix, a, b, &metadata].concat());
    assert_eq!(whole(&state, None, Some(&new)), [prefix, b, &metadata].concat());
    state.digest_last = state.digest_previous;
    assert_eq!(whole(&state, Some(&old), Some(&old)), [prefix, a, &metadata].concat());
}
