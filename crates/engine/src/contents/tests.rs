use atrest_device::BlockDevice;
use atrest_probe::SIGNATURES;
use atrest_testkit::{FaultDevice, Random};

use super::{Contents, Scheme, in_the_way};

const SIZE: usize = 1 << 20;

fn zeros_with(pieces: &[(usize, &[u8])]) -> FaultDevice {
    let mut image = vec![0; SIZE];
    for (at, bytes) in pieces {
        image[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    FaultDevice::new(image)
}

fn found(device: &FaultDevice, range: core::ops::Range<u64>) -> Option<Contents> {
    in_the_way(device, range).expect("no I/O error")
}

#[test]
fn every_signature_is_found_at_the_start_and_where_a_range_begins() {
    for (at, signature, _) in SIGNATURES {
        let device = zeros_with(&[(*at, signature)]);
        assert!(found(&device, 0..SIZE as u64).is_some(), "{signature:?} at {at}");
        assert!(found(&device, 4096..8192).is_some(), "{signature:?} at {at} owns its device");
        let device = zeros_with(&[((512 << 10) + at, signature)]);
        assert!(found(&device, 512 << 10..SIZE as u64).is_some(), "{signature:?} at {at} from the middle");
        assert!(found(&device, 0..512).is_none(), "{signature:?} at {at} from the middle");
    }
}

#[test]
fn members_of_old_raids_are_found_at_the_end() {
    let magic = 0xa92b_4efc_u32.to_le_bytes();
    for size in [SIZE, SIZE - 512, SIZE - 4096 - 512] {
        for at in [(size / 512 - 16) / 8 * 4096, (size & !0xffff) - 0x1_0000] {
            let mut image = vec![0; size];
            image[at..at + 4].copy_from_slice(&magic);
            assert!(found(&FaultDevice::new(image), 0..size as u64).is_some(), "{at} of {size}");
        }
    }
}

#[test]
fn noise_and_nothing_are_nothing() {
    assert_eq!(found(&FaultDevice::zeroed(SIZE), 0..SIZE as u64), None);
    let mut random = Random::new(8);
    for _ in 0..300 {
        let device = FaultDevice::new(random.bytes(80 << 10));
        assert_eq!(found(&device, 0..device.size()), None);
        assert_eq!(found(&device, 8192..device.size()), None);
    }
    for size in [0, 1, 7, 511, 512, 513, 1024, 4096, 65536, 65537] {
        assert_eq!(found(&FaultDevice::zeroed(size), 0..size as u64), None, "{size} bytes");
    }
}

#[test]
fn a_partition_table_is_in_the_way_of_what_touches_it_or_a_partition() {
    let touches = |device: &FaultDevice, from: u64, to: u64| found(device, from * 512..to * 512).is_some();
    let mut record = [0; 512];
    record[446..462].copy_from_slice(&[0, 0, 0, 0, 0x83, 0, 0, 0, 100, 0, 0, 0, 50, 0, 0, 0]);
    record[510..].copy_from_slice(&[0x55, 0xaa]);
    let device = zeros_with(&[(0, &record)]);
    assert!(matches!(found(&device, 0..512), Some(Contents::Partitions(Scheme::Mbr))));
    let expected = [(1, 100, false), (1, 101, true), (149, 151, true), (150, 160, false), (0, 1, true)];
    for (from, to, hit) in expected {
        assert_eq!(touches(&device, from, to), hit, "{from} to {to}");
    }

    // One that names no place that makes sense fills the device.
    let device = zeros_with(&[(512, b"EFI PART")]);
    assert!(matches!(found(&device, 0..512), Some(Contents::Partitions(Scheme::Gpt))));
    assert!(touches(&device, 1000, 1001));
    let mut header = [0; 92];
    header[..8].copy_from_slice(b"EFI PART");
    for (at, number) in [(40, 34_u64), (48, 2014), (72, 2)] {
        header[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }
    header[80] = 4;
    header[84] = 128;
    let mut entry = [0; 128];
    entry[..16].fill(7);
    entry[32..34].copy_from_slice(&100_u16.to_le_bytes());
    entry[40..42].copy_from_slice(&149_u16.to_le_bytes());
    let device = zeros_with(&[(512, &header), (1024, &entry)]);
    let expected = [
        (34, 100, false),
        (33, 34, true),
        (34, 101, true),
        (149, 150, true),
        (150, 2015, false),
        (2014, 2016, true),
    ];
    for (from, to, hit) in expected {
        assert_eq!(touches(&device, from, to), hit, "{from} to {to}");
    }
    // The copy at the end alone.
    let device = zeros_with(&[(SIZE - 512, &header)]);
    assert!(touches(&device, 1000, 1001));
}
