//! BitLocker's boot sector, a copy of its metadata, startup keys and recovery passwords.

use atrest_format::bitlocker::{BOOT_LEN, Boot, Metadata, Part, StartupKey, recovery_key};

use crate::{Reader, crc32};

/// A size of the device, which copy it is, a boot sector, and a region of metadata whose checksum is put right if the choice says so.
pub fn bitlocker(data: &[u8]) {
    if let Some(key) = StartupKey::read(data) {
        assert!(data.len() >= 48 + 8 + 24 + 12 + 32, "{key:?} of {} bytes", data.len());
    }
    if let Some(_key) = recovery_key(data) {
        assert_eq!(data.trim_ascii().len(), 55);
    }
    let mut reader = Reader(data);
    let (device, choice) = (reader.u64(), reader.u8());
    let sector: [u8; BOOT_LEN] = reader.array();
    let mut region = reader.0.to_vec();
    if choice & 0x80 != 0 && region.len() > 12 {
        let unit = if region[10] == 1 { 1 } else { 16 };
        let len = usize::from(u16::from_le_bytes([region[8], region[9]])) * unit;
        if region.len() >= len + 8 {
            let sum = crc32(&region[..len]);
            region[len + 4..len + 8].copy_from_slice(&sum.to_le_bytes());
        }
    }
    let Ok(Some(boot)) = Boot::read(&sector) else { return };
    let number = usize::from(choice) % 3;
    let place = boot.places().get(number).copied().unwrap_or(boot.places()[0]);
    let Ok(metadata) = Metadata::read(&region, number, place, boot.sector_size) else { return };
    assert!(metadata.protectors.len() <= 100 && metadata.len <= region.len());
    let Ok(layout) = metadata.layout(&boot, device) else { return };
    let mut end = 0;
    for piece in &layout {
        assert!(piece.start == end && piece.len > 0, "{layout:?}");
        let behind = piece.place.checked_add(piece.len).expect("it lies on a device");
        assert!(behind <= device, "{piece:?} of {device}");
        let unit = if piece.part == Part::Clear { 512 } else { u64::from(boot.sector_size) };
        assert!(piece.len % unit == 0 && piece.place % unit == 0, "{piece:?}");
        end += piece.len;
    }
    assert_eq!(end, device / 512 * 512);
}

/// A volume of Windows 10 that libgcrypt has made: its boot sector and its first copy of the metadata.
pub fn bitlocker_seed(volume: &[u8]) -> Vec<u8> {
    let size = volume.len() as u64;
    [&size.to_le_bytes()[..], &[0x80], &volume[..BOOT_LEN], &volume[0x10000..0x10800]].concat()
}
