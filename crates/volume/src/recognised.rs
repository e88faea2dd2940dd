//! Whether a volume begins as a file system of its kind does. A key that is given as such has no check of its own in these formats: where a file
//! system comes to light it is the right one.

use atrest_cipher::DataUnitIndex;
use atrest_device::BlockDevice;

use crate::{UnlockError, Volume};

/// Bytes that are looked at. No sector is longer, and HFS+ has its header at byte 1024.
const LOOKED_AT: u64 = 4096;
/// At byte 3 of the boot sector.
const NAMES: [&[u8]; 2] = [b"NTFS    ", b"EXFAT   "];
/// Where FAT12 and FAT16, and FAT32 have their name.
const FAT: [usize; 2] = [54, 82];
/// HFS+, and HFS+ with case: their signature and version.
const HFS: [&[u8]; 2] = [b"H+\0\x04", b"HX\0\x05"];

/// Whether the plaintext of an open volume begins with the boot sector of NTFS, exFAT or FAT, or has the header of HFS+. By chance
/// one of 2^31 wrong keys shows that.
///
/// # Errors
/// [`UnlockError::Device`] if the beginning can't be read.
pub fn begins_as_a_file_system(volume: &Volume, data: &dyn BlockDevice) -> Result<bool, UnlockError> {
    let Some(first) = volume.segments().first() else { return Ok(false) };
    let unit = first.protection.data_unit() as u64;
    let len = first.len.min(LOOKED_AT);
    // cannot fail: no data unit is empty.
    let whole = len.saturating_sub(len.checked_rem(unit).unwrap_or(len));
    // cannot be cut off: 4096 bytes at most.
    let mut bytes = vec![0; whole as usize];
    data.read_at(first.media_offset, &mut bytes).map_err(UnlockError::Device)?;
    let shown = first.protection.decrypt(DataUnitIndex(0), &mut bytes).is_ok();
    Ok(shown && is_file_system(&bytes))
}

fn is_file_system(bytes: &[u8]) -> bool {
    let has = |at: usize, text: &[u8]| bytes.get(at..).is_some_and(|rest| rest.starts_with(text));
    let boots = has(510, &[0x55, 0xaa]);
    boots && (NAMES.iter().any(|name| has(3, name)) || FAT.iter().any(|at| has(*at, b"FAT")))
        || HFS.iter().any(|header| has(1024, header))
}

#[cfg(test)]
mod tests {
    use super::is_file_system;

    fn with(parts: &[(usize, &[u8])]) -> [u8; 2048] {
        let mut bytes = [0; 2048];
        parts.iter().for_each(|(at, part)| bytes[*at..][..part.len()].copy_from_slice(part));
        bytes
    }

    #[test]
    fn each_kind_has_its_signs_and_one_alone_is_none() {
        let end: (usize, &[u8]) = (510, &[0x55, 0xaa]);
        for (at, name) in [(3, &b"NTFS    "[..]), (3, b"EXFAT   "), (54, b"FAT16   "), (82, b"FAT32   ")] {
            assert!(is_file_system(&with(&[(at, name), end])));
            assert!(!is_file_system(&with(&[(at, name)])));
        }
        assert!(!is_file_system(&with(&[end])));
        assert!(
            is_file_system(&with(&[(1024, b"H+\0\x04")])) && is_file_system(&with(&[(1024, b"HX\0\x05")]))
        );
        assert!(!is_file_system(&with(&[(1024, b"H+\0\x05")])) && !is_file_system(&[]));
    }
}
