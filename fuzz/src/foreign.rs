//! Headers of TrueCrypt and VeraCrypt as they are once decrypted, and key files of loop-AES.

use atrest_format::loopaes::{KeyFile, Version};
use atrest_format::tcrypt::{ENCRYPTED_LEN, Header, Mode, Place};

use crate::{Reader, crc32};

/// A size of the device, a place, and a header whose checksums are put right if the place says so.
pub fn tcrypt(data: &[u8]) {
    let mut reader = Reader(data);
    let device = u64::from_le_bytes(reader.array());
    let choice = reader.u8();
    let mut header: [u8; ENCRYPTED_LEN] = reader.array();
    if choice & 0x80 != 0 {
        let sum = crc32(&header[192..]);
        header[8..12].copy_from_slice(&sum.to_be_bytes());
        let sum = crc32(&header[..188]);
        header[188..192].copy_from_slice(&sum.to_be_bytes());
    }
    let places =
        [Place::Normal, Place::Hidden, Place::OldHidden, Place::Backup, Place::HiddenBackup, Place::System];
    let place = places[usize::from(choice) % places.len()];
    if let Some(offset) = place.offset(device) {
        assert!(
            offset.checked_add(512).is_some_and(|end| end <= device),
            "{place:?} at {offset} of {device}"
        );
    }
    let Ok(Some(header)) = Header::read(&header) else { return };
    for mode in [Mode::Xts, Mode::Lrw, Mode::Cbc] {
        let Ok(layout) = header.layout(place, mode, device) else { continue };
        let end = layout.start.checked_add(layout.len).expect("it lies on a device");
        assert!(layout.len > 0 && end <= device, "{layout:?} of {device}");
        assert!(layout.start >= 512 && layout.start % 512 == 0 && layout.len % 512 == 0, "{layout:?}");
    }
}

/// A header that is sound, and the device that it fits.
pub fn tcrypt_seed() -> Vec<u8> {
    let mut header = [0; ENCRYPTED_LEN];
    header[..8].copy_from_slice(b"VERA\0\x05\x01\x0b");
    for (at, value) in [(36, 0x9000_u64), (44, 0x2_0000), (52, 0x9000)] {
        header[at..at + 8].copy_from_slice(&value.to_be_bytes());
    }
    header[64..68].copy_from_slice(&512_u32.to_be_bytes());
    [&0x4_9000_u64.to_le_bytes()[..], &[0x80], &header].concat()
}

/// A key file.
pub fn loopaes(data: &[u8]) {
    let Ok(file) = KeyFile::parse(data) else { return };
    let count = match file.version() {
        Version::One => 1,
        Version::Two => 64,
        Version::Three => 65,
    };
    assert_eq!(file.lines().len(), count);
    assert!(file.lines().iter().all(|line| line.len() == file.lines()[0].len() && line.len() >= 20));
}
