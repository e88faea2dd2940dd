//! Partition tables made by sgdisk and sfdisk, whole and damaged.

use std::fs;
use std::path::Path;

use atrest_probe::partition::{GptDamage, PartitionError, Scheme, TableCopy, partitions};
use atrest_testkit::oracle::Program;
use atrest_testkit::{FaultDevice, Scratch};

fn gpt(image: &Path) -> Vec<u8> {
    fs::write(image, vec![0; 16 << 20]).expect("writable");
    let first = ["-o", "-n1:2048:+3M", "-t1:ef00", "-c1:EFI ∑ystem"];
    let third = ["-n3:0:0", "-t3:8300", "-c3:root", "-u3:01234567-89ab-cdef-0123-456789abcdef"];
    Program::named("sgdisk").args(first).args(third).arg(image).ok();
    fs::read(image).expect("readable")
}

fn sfdisk(image: &Path, script: &str) -> Vec<u8> {
    fs::write(image, vec![0; 16 << 20]).expect("writable");
    Program::named("sfdisk").args(["-q", "--no-reread"]).arg(image).stdin(script).ok();
    fs::read(image).expect("readable")
}

#[test]
fn a_gpt_is_read_from_either_copy_and_damage_is_told() {
    let dir = Scratch::new();
    let good = gpt(&dir.path("image"));
    let table = partitions(&FaultDevice::new(good.clone())).expect("readable").expect("there");
    assert_eq!((table.scheme, table.sector_size, table.damaged_copy), (Scheme::Gpt, 512, None));
    let [efi, root] = &table.partitions[..] else { panic!("{table:?}") };
    assert_eq!((efi.number, efi.start, efi.len, &efi.name[..]), (1, 1 << 20, 3 << 20, "EFI ∑ystem"));
    assert_eq!(efi.type_id, "c12a7328-f81f-11d2-ba4b-00a0c93ec93b");
    assert_eq!((root.number, root.start, &root.name[..]), (3, 4 << 20, "root"));
    assert_eq!(root.id, "01234567-89ab-cdef-0123-456789abcdef");

    let backup = good.len() - 512;
    for (at, copy) in [
        (512, TableCopy::Primary),
        (512 + 40, TableCopy::Primary),
        (1024 + 60, TableCopy::Primary),
        (backup, TableCopy::Backup),
    ] {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        let found = partitions(&FaultDevice::new(bytes)).expect("readable").expect("there");
        assert_eq!((found.damaged_copy, &found.partitions), (Some(copy), &table.partitions), "byte {at}");
    }
    let mut bytes = good.clone();
    bytes[512 + 40] ^= 1;
    bytes[backup] ^= 1;
    assert_eq!(
        partitions(&FaultDevice::new(bytes)),
        Err(PartitionError::BothCopiesDamaged {
            primary: GptDamage::HeaderChecksum,
            backup: GptDamage::Signature
        })
    );
    // Without the protective MBR one copy alone is a leftover.
    let mut bytes = good.clone();
    bytes[510] = 0;
    assert!(partitions(&FaultDevice::new(bytes.clone())).expect("readable").is_some());
    bytes[512] ^= 1;
    assert_eq!(partitions(&FaultDevice::new(bytes)), Ok(None));
    // Sectors of 4096 bytes.
    let image = dir.path("large");
    fs::write(&image, vec![0; 32 << 20]).expect("writable");
    let mut sectors = fs::read(&image).expect("readable");
    move_gpt(&good, &mut sectors);
    let table = partitions(&FaultDevice::new(sectors)).expect("readable").expect("there");
    assert_eq!((table.sector_size, table.partitions[0].start), (4096, 2048 * 4096));
}

/// Rewrites a GPT of 512-byte sectors as one of 4096-byte sectors that has its first partition only.
fn move_gpt(from: &[u8], to: &mut [u8]) {
    to[..512].copy_from_slice(&from[..512]);
    let last = to.len() as u64 / 4096 - 1;
    for (lba, array) in [(1, 2), (last, last - 4)] {
        let mut entries = vec![0; 128 * 128];
        entries[..128].copy_from_slice(&from[1024..1152]);
        entries[40..48].copy_from_slice(&3000_u64.to_le_bytes());
        let mut header = from[512..512 + 92].to_vec();
        header[16..20].fill(0);
        header[24..32].copy_from_slice(&lba.to_le_bytes());
        header[48..56].copy_from_slice(&(last - 5).to_le_bytes());
        header[72..80].copy_from_slice(&array.to_le_bytes());
        header[88..92].copy_from_slice(&crc32(&entries).to_le_bytes());
        let sum = crc32(&header);
        header[16..20].copy_from_slice(&sum.to_le_bytes());
        to[lba as usize * 4096..][..92].copy_from_slice(&header);
        to[array as usize * 4096..][..entries.len()].copy_from_slice(&entries);
    }
}

/// CRC-32 bit by bit: a second implementation, for the test.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(
            crc ^ u32::from(byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 },
        )
    })
}

#[test]
fn a_gpt_with_right_checksums_but_impossible_contents_is_refused() {
    let dir = Scratch::new();
    let good = gpt(&dir.path("image"));
    let with = |entry: usize, first: u64, last: u64| {
        let mut bytes = good.clone();
        let backup = bytes.len() - 512;
        for (header, array) in [(512, 1024), (backup, backup - 32 * 512)] {
            let at = array + entry * 128;
            bytes[at..at + 16].copy_from_slice(&[7; 16]);
            bytes[at + 32..at + 40].copy_from_slice(&first.to_le_bytes());
            bytes[at + 40..at + 48].copy_from_slice(&last.to_le_bytes());
            let sum = crc32(&bytes[array..array + 128 * 128]);
            bytes[header + 88..header + 92].copy_from_slice(&sum.to_le_bytes());
            bytes[header + 16..header + 20].fill(0);
            let sum = crc32(&bytes[header..header + 92]);
            bytes[header + 16..header + 20].copy_from_slice(&sum.to_le_bytes());
        }
        partitions(&FaultDevice::new(bytes))
    };
    assert_eq!(with(1, 3000, 9000), Err(PartitionError::Overlap { a: 1, b: 2 }));
    for (first, last) in [(0, 10), (40, 39), (40, 1 << 40), (u64::MAX, u64::MAX), (32_000, 32_767)] {
        let error = with(5, first, last);
        assert!(
            matches!(error, Err(PartitionError::OutOfBounds { number: 6, .. })),
            "{first}..{last}: {error:?}"
        );
    }
}

#[test]
fn an_mbr_with_logical_partitions_is_read() {
    let dir = Scratch::new();
    let image = dir.path("image");
    let script = "label: dos\nlabel-id: 0x12345678\nstart=2048, size=4096, type=83\nstart=8192, type=5\n\
                  start=10240, size=2048, type=b\nstart=14336, size=6144, type=83\nstart=22528, size=1024, type=82\n";
    let good = sfdisk(&image, script);
    let table = partitions(&FaultDevice::new(good.clone())).expect("readable").expect("there");
    assert_eq!((table.scheme, &table.id[..]), (Scheme::Mbr, "12345678"));
    let found: Vec<_> =
        table.partitions.iter().map(|p| (p.number, p.start / 512, p.len / 512, &p.type_id[..])).collect();
    let expected =
        [(1, 2048, 4096, "83"), (5, 10240, 2048, "0b"), (6, 14336, 6144, "83"), (7, 22528, 1024, "82")];
    assert_eq!(found, expected);

    // A chain that runs in a circle.
    let mut bytes = good.clone();
    let first = 8192 * 512;
    let second =
        (0..).map(|i| 8192 + i).find(|&s| s > 8192 && bytes[s * 512 + 510] == 0x55).expect("a second record");
    let link: [u8; 16] = bytes[first + 462..first + 478].try_into().expect("16 bytes");
    bytes[second * 512 + 462..second * 512 + 478].copy_from_slice(&link);
    assert!(matches!(
        partitions(&FaultDevice::new(bytes)),
        Err(PartitionError::ExtendedChain { .. } | PartitionError::Overlap { .. })
    ));
    let mut bytes = good.clone();
    bytes[second * 512 + 510] = 0;
    let offset = second as u64 * 512;
    assert_eq!(partitions(&FaultDevice::new(bytes)), Err(PartitionError::ExtendedSignature { offset }));
    let mut bytes = good.clone();
    bytes[446 + 12..446 + 16].copy_from_slice(&7000_u32.to_le_bytes());
    assert_eq!(partitions(&FaultDevice::new(bytes)), Err(PartitionError::Overlap { a: 1, b: 2 }));
    let mut bytes = good;
    bytes[446 + 12..446 + 16].fill(0xff);
    assert!(matches!(
        partitions(&FaultDevice::new(bytes)),
        Err(PartitionError::OutOfBounds { number: 1, .. })
    ));
}
