//! Damaged volumes: each kind of damage has its own answer.

use atrest_device::BlockDevice;
use atrest_format::luks2::HeaderError;
use atrest_testkit::fault::Fault;
use atrest_volume::luks2::Luks2;
use atrest_volume::{Devices, LockedVolume, OpenError, UnlockError, UnlockOptions};

use crate::luks2::support::*;

fn unlock(device: &atrest_testkit::FaultDevice, text: &str) -> UnlockError {
    let luks = Luks2::read(device).expect("the header opens");
    luks.unlock(Devices::together(device), &passphrase(text), &UnlockOptions::default())
        .expect_err("does not unlock")
}

#[test]
fn an_overwritten_keyslot_area_is_told_from_a_wrong_passphrase() {
    let (device, luks) = volume();
    let offset = luks.metadata().keyslot(0).expect("exists").area.offset + 1024;
    device.write_zeroes(offset, 512).expect("writes");
    assert_eq!(unlock(&device, "one"), UnlockError::KeyslotDamaged { slot: 0, offset });
}

#[test]
fn a_bad_sector_in_a_keyslot_is_an_io_error_with_its_offset() {
    let (device, luks) = volume();
    let offset = luks.metadata().keyslot(0).expect("exists").area.offset + 2048;
    device.fail(Fault::UnreadableRange { offset, len: 512 });
    match unlock(&device, "one") {
        UnlockError::Device(error) => assert_eq!(error.offset, offset),
        other => panic!("{other:?}"),
    }
}

#[test]
fn bad_sectors_in_one_header_copy_do_not_matter() {
    for offset in [0, 0x4000] {
        let (device, _) = volume();
        device.fail(Fault::UnreadableRange { offset, len: 512 });
        assert_eq!(opens(&device, "one"), Some(0));
        LockedVolume::read(&device).expect("detects");
    }
}

#[test]
fn a_device_that_can_not_be_read_at_all_is_an_io_error() {
    let (device, _) = volume();
    device.fail(Fault::UnreadableRange { offset: 0, len: DEVICE_SIZE as u64 });
    for error in [Luks2::read(&device).expect_err("fails"), LockedVolume::read(&device).expect_err("fails")] {
        assert!(matches!(error, OpenError::Device(_)), "{error:?}");
    }
}

#[test]
fn a_data_device_that_ends_before_the_data_is_reported_with_both_sizes() {
    let (device, luks) = volume();
    let start = luks.metadata().data_offset();
    let short = atrest_testkit::FaultDevice::new(device.image()[..start as usize].to_vec());
    assert_eq!(unlock(&short, "one"), UnlockError::DataDeviceTooSmall { needs: start + 4096, has: start });
}

#[test]
fn truncated_headers_say_how_long_they_should_be() {
    let (device, luks) = volume();
    let image = device.image();
    let needs = luks.header_size();
    for (len, expected) in [(0x3FFF, 0x4000), (0x4000, needs), (0x8000, needs), (needs - 1, needs)] {
        let cut = atrest_testkit::FaultDevice::new(image[..len as usize].to_vec());
        match Luks2::read(&cut).expect_err("refused") {
            OpenError::Luks2 { primary, .. } => {
                assert_eq!(primary, HeaderError::TooShort { needs: expected, has: len });
            }
            other => panic!("{len}: {other:?}"),
        }
    }
    for len in [8, 512, 4095] {
        let cut = atrest_testkit::FaultDevice::new(image[..len as usize].to_vec());
        let short = HeaderError::TooShort { needs: 4096, has: len };
        let error = Luks2::read(&cut).expect_err("refused");
        assert_eq!(error, OpenError::Luks2 { primary: short, secondary: short });
        assert!(error.to_string().contains("cut off"), "{error}");
    }
    for len in [0, 7] {
        let cut = atrest_testkit::FaultDevice::new(image[..len].to_vec());
        assert_eq!(Luks2::read(&cut).expect_err("refused"), OpenError::NotLuks);
    }
}

#[test]
fn every_single_byte_of_damage_in_a_header_copy_is_survived() {
    let (device, _) = volume();
    let image = device.image();
    let mut random = atrest_testkit::Random::new(1);
    for _ in 0..200 {
        let at = random.below(0x8000);
        if (480..512).contains(&(at % 0x4000)) {
            // The checksum field has 64 bytes; those behind SHA-256's 32 are nobody's.
            continue;
        }
        let mut damaged = image.clone();
        damaged[at as usize] ^= 1 << random.below(8);
        let device = atrest_testkit::FaultDevice::new(damaged);
        let luks = Luks2::read(&device).unwrap_or_else(|error| panic!("byte {at}: {error}"));
        assert_eq!(luks.info().copies.iter().filter(|copy| copy.damage.is_some()).count(), 1, "byte {at}");
    }
}
