//! What a write would hit, sector by sector, by tables that sgdisk and sfdisk made.

use std::fs;

use atrest_probe::partition::{Scheme, claims, scheme};
use atrest_testkit::oracle::Program;
use atrest_testkit::{FaultDevice, Scratch};

const SECTORS: u64 = 4096;

/// The claimed sectors, as ranges.
fn claimed(device: &FaultDevice) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for sector in 0..SECTORS {
        if claims(device, &(sector * 512..(sector + 1) * 512)).expect("no I/O error") {
            match ranges.last_mut() {
                Some((_, end)) if *end == sector => *end = sector + 1,
                _ => ranges.push((sector, sector + 1)),
            }
        }
    }
    ranges
}

#[test]
fn a_gpt_claims_its_two_copies_and_its_partitions() {
    let directory = Scratch::new();
    let image = directory.path("image");
    fs::write(&image, vec![0; SECTORS as usize * 512]).expect("writable");
    Program::named("sgdisk").args(["-o", "-a1", "-n1:100:149", "-n2:1000:1000"]).arg(&image).ok();
    let good = fs::read(&image).expect("readable");
    let device = FaultDevice::new(good.clone());
    assert_eq!(scheme(&device).expect("no I/O error"), Some(Scheme::Gpt));
    let expected = [(0, 34), (100, 150), (1000, 1001), (SECTORS - 33, SECTORS)];
    assert_eq!(claimed(&device), expected);

    // The first header with a wrong checksum claims what it did; without it, nobody knows.
    let mut bytes = good.clone();
    bytes[512 + 16] ^= 1;
    assert_eq!(claimed(&FaultDevice::new(bytes)), expected);
    let mut bytes = good;
    bytes[512] ^= 1;
    let backup = FaultDevice::new(bytes);
    assert_eq!(scheme(&backup).expect("no I/O error"), Some(Scheme::Gpt));
    assert_eq!(claimed(&backup), [(0, SECTORS)]);
}

#[test]
fn an_mbr_claims_its_record_and_its_partitions_and_an_extended_one_as_a_whole() {
    let directory = Scratch::new();
    let image = directory.path("image");
    fs::write(&image, vec![0; SECTORS as usize * 512]).expect("writable");
    let script = "label: dos\nstart=100, size=50, type=83\nstart=2048, size=1000, type=5\n\
                  start=2100, size=10, type=83\n";
    Program::named("sfdisk").args(["-q", "--no-reread"]).arg(&image).stdin(script).ok();
    let good = fs::read(&image).expect("readable");
    let device = FaultDevice::new(good.clone());
    assert_eq!(scheme(&device).expect("no I/O error"), Some(Scheme::Mbr));
    assert_eq!(claimed(&device), [(0, 1), (100, 150), (2048, 3048)]);

    // A state that no partition has, or no partition at all: a boot sector of something else.
    for (at, byte) in [(446, 1), (510, 0)] {
        let mut bytes = good.clone();
        bytes[at] = byte;
        assert_eq!(scheme(&FaultDevice::new(bytes)).expect("no I/O error"), None, "byte {at}");
    }
    let mut empty = good;
    empty[446..510].fill(0);
    assert_eq!(scheme(&FaultDevice::new(empty)).expect("no I/O error"), None);
    for short in [0, 511] {
        assert_eq!(scheme(&FaultDevice::zeroed(short)).expect("no I/O error"), None);
    }
}
