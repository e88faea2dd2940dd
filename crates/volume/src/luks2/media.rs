//! Header copies and keyslot areas on the device: reading, writing in a safe order, wiping.

use atrest_device::{Cause, DeviceError, Media, Operation};
use atrest_format::luks2::{
    AREA_ALIGNMENT, BINARY_SIZE, CopyKind, HEADER_SIZES, Header, HeaderError, HeaderPair, header_size,
};
use atrest_secret::{OsRandom, Random};

use crate::detect::version_of;
use crate::wiped::first_difference;
use crate::{ChangeError, OpenError};

/// Bytes that are wiped and verified at a time.
const WIPE_STEP: u64 = 1 << 20;

/// Reads both copies and picks the one that counts.
pub(crate) fn read_pair(device: &dyn Media) -> Result<HeaderPair, OpenError> {
    read_pair_from(&|offset, buf| device.read_at(offset, buf), device.size())
}

/// Reads both copies from a header backup in memory and picks the one that counts.
pub(super) fn read_pair_of_backup(backup: &[u8]) -> Result<HeaderPair, OpenError> {
    let size = backup.len() as u64;
    let read = |offset: u64, buf: &mut [u8]| {
        let from = usize::try_from(offset).ok().and_then(|from| backup.get(from..)?.get(..buf.len()));
        let beyond = DeviceError::new(Operation::Read, offset, buf.len() as u64, Cause::OutOfBounds { size });
        buf.copy_from_slice(from.ok_or(beyond)?);
        Ok(())
    };
    read_pair_from(&read, size)
}

type Read<'a> = dyn Fn(u64, &mut [u8]) -> Result<(), DeviceError> + 'a;

fn read_pair_from(read: &Read<'_>, size: u64) -> Result<HeaderPair, OpenError> {
    let mut failure = None;
    let primary = read_copy(read, size, CopyKind::Primary, 0, &mut failure);
    let offsets: &[u64] = match &primary {
        Ok(header) => &[header.binary.header_size],
        Err(_) => &HEADER_SIZES,
    };
    let mut secondary = Err(HeaderError::Magic);
    for offset in offsets {
        let found = read_copy(read, size, CopyKind::Secondary, *offset, &mut failure);
        // A damaged copy says more than a missing one.
        if found.is_ok() || matches!(secondary, Err(HeaderError::Magic)) {
            secondary = found;
        }
        if secondary.is_ok() {
            break;
        }
    }
    let nothing = |copy: &Result<Header, HeaderError>| match copy {
        // Nothing told how long the copy would be.
        Err(HeaderError::TooShort { needs, .. }) => *needs <= BINARY_SIZE as u64,
        Err(error) => *error == HeaderError::Magic,
        Ok(_) => false,
    };
    if nothing(&primary) && nothing(&secondary) {
        return Err(match primary {
            // Cut off behind its magic it is a LUKS2 header all the same.
            Err(short @ HeaderError::TooShort { .. }) if begins_with_magic(read, size) => {
                OpenError::Luks2 { primary: short, secondary: short }
            }
            _ => OpenError::NotLuks,
        });
    }
    if let (Err(_), Err(_), Some(failure)) = (&primary, &secondary, failure) {
        return Err(OpenError::Device(failure));
    }
    let pair = HeaderPair::choose(primary, secondary)
        .map_err(|(primary, secondary)| OpenError::Luks2 { primary, secondary })?;
    let needs = pair.header.total_size();
    if size < needs {
        let short = HeaderError::TooShort { needs, has: size };
        return Err(OpenError::Luks2 { primary: short, secondary: short });
    }
    Ok(pair)
}

fn begins_with_magic(read: &Read<'_>, size: u64) -> bool {
    let mut start = [0; 8];
    size >= start.len() as u64 && read(0, &mut start).is_ok() && version_of(&start) == Some(2)
}

/// One copy. An unreadable copy is a damaged one, so that the other can stand in; `failure` keeps the first error.
fn read_copy(
    read: &Read<'_>,
    size: u64,
    copy: CopyKind,
    offset: u64,
    failure: &mut Option<DeviceError>,
) -> Result<Header, HeaderError> {
    // intended: nothing is there for a copy that would begin behind the end.
    let has = size.saturating_sub(offset);
    let mut read_up_to = |needs: u64| {
        if has < needs {
            return Err(HeaderError::TooShort { needs, has });
        }
        // At most 4 MiB: the size is one of a fixed list.
        let mut bytes = vec![0; needs as usize];
        read(offset, &mut bytes).map_err(|error| {
            failure.get_or_insert(error);
            HeaderError::Unreadable { offset }
        })?;
        Ok(bytes)
    };
    let binary = read_up_to(BINARY_SIZE as u64)?;
    let whole = read_up_to(header_size(&binary, copy, offset)?)?;
    Header::parse(&whole, copy, offset)
}

/// Writes both copies of `header` over those of `old`, each durable before the other is touched. The copy that
/// `old` does not rest on goes first, so that one good copy exists at every moment.
pub(crate) fn write_pair(device: &dyn Media, old: &HeaderPair, header: &Header) -> Result<(), ChangeError> {
    let order = match old.primary {
        Some(_) => [CopyKind::Primary, CopyKind::Secondary],
        None => [CopyKind::Secondary, CopyKind::Primary],
    };
    for copy in order {
        write_copy(device, header, copy)?;
    }
    Ok(())
}

/// Writes both copies where none is to be preserved.
pub(super) fn write_fresh_pair(device: &dyn Media, header: &Header) -> Result<(), ChangeError> {
    write_copy(device, header, CopyKind::Primary)?;
    write_copy(device, header, CopyKind::Secondary)
}

/// Writes the first copy over a header of another version: the first sector, which says what is there, goes alone and first. From then
/// on the second copy counts, which must be durable, until this one is whole.
pub(crate) fn write_primary_over(device: &dyn Media, header: &Header) -> Result<(), ChangeError> {
    let mut salt = [0; 64];
    OsRandom.fill(&mut salt)?;
    let bytes = header.encode(CopyKind::Primary, &salt).map_err(ChangeError::Header)?;
    // cannot be shorter: a copy has 16 KiB at least.
    device.write_at(0, bytes.get(..512).unwrap_or(&bytes))?;
    device.flush()?;
    device.write_at(0, &bytes)?;
    device.flush()?;
    Ok(())
}

/// Writes one copy and makes it durable.
pub(crate) fn write_copy(device: &dyn Media, header: &Header, copy: CopyKind) -> Result<(), ChangeError> {
    let mut salt = [0; 64];
    OsRandom.fill(&mut salt)?;
    let bytes = header.encode(copy, &salt).map_err(ChangeError::Header)?;
    let offset = match copy {
        CopyKind::Primary => 0,
        CopyKind::Secondary => header.binary.header_size,
    };
    device.write_at(offset, &bytes)?;
    device.flush()?;
    Ok(())
}

/// Overwrites a range with random bytes, makes that durable, and reads it back from the media.
pub(crate) fn wipe(device: &dyn Media, offset: u64, size: u64) -> Result<(), ChangeError> {
    device.check_range(Operation::Write, offset, size)?;
    // cannot overflow: the range lies inside the device.
    let end = offset.saturating_add(size);
    let mut at = offset;
    while at < end {
        // cannot be less: the loop ends at `end`.
        let step = WIPE_STEP.min(end.saturating_sub(at));
        // At most WIPE_STEP.
        let mut noise = vec![0; step as usize];
        OsRandom.fill(&mut noise)?;
        device.write_at(at, &noise)?;
        device.flush()?;
        verify(device, at, &noise)?;
        // cannot overflow: not beyond `end`.
        at = at.saturating_add(step);
    }
    Ok(())
}

/// Fails unless the media holds `expected` at `offset`. Reads whole physical blocks around it.
fn verify(device: &dyn Media, offset: u64, expected: &[u8]) -> Result<(), ChangeError> {
    match first_difference(device, offset, expected, AREA_ALIGNMENT)? {
        Some(offset) => Err(ChangeError::WipeNotVerified { offset }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use atrest_testkit::FaultDevice;

    use super::*;
    use crate::{Devices, FormatOptions, KeyslotOptions, Passphrase, PbkdfKind, PbkdfOptions};

    fn image() -> Vec<u8> {
        let pbkdf = PbkdfOptions {
            kind: Some(PbkdfKind::Pbkdf2),
            forced_iterations: Some(1000),
            ..PbkdfOptions::default()
        };
        let options = FormatOptions {
            keyslots_size: Some(258_048),
            keyslot: KeyslotOptions { pbkdf, ..KeyslotOptions::default() },
            ..FormatOptions::default()
        };
        let device = FaultDevice::zeroed(2 << 20);
        crate::luks2::format(Devices::together(&device), &Passphrase::copy_from(b"one"), &options)
            .expect("formats");
        device.image()
    }

    #[test]
    fn a_damaged_copy_says_more_than_one_that_is_not_there() {
        let image = image();
        let read = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut image = image.clone();
            change(&mut image);
            read_pair_of_backup(&image).map(|pair| (pair.primary, pair.secondary))
        };
        let (mismatch, magic) = (HeaderError::ChecksumMismatch, HeaderError::Magic);
        let both = |primary, secondary| Err(OpenError::Luks2 { primary, secondary });
        assert_eq!(read(&|_| ()), Ok((None, None)));
        assert_eq!(read(&|image| image[5000] ^= 1), Ok((Some(mismatch), None)));
        assert_eq!(read(&|image| image[0x4000 + 5000] ^= 1), Ok((None, Some(mismatch))));
        assert_eq!(read(&|image| image[..0x4000].fill(0)), Ok((Some(magic), None)));
        assert_eq!(read(&|image| image[0x4000..0x8000].fill(0)), Ok((None, Some(magic))));
        let spoil = |image: &mut Vec<u8>| [5000, 0x4000 + 5000].into_iter().for_each(|at| image[at] ^= 1);
        assert_eq!(read(&spoil), both(mismatch, mismatch));
        assert_eq!(read(&|image| image[..0x8000].fill(0)), Err(OpenError::NotLuks));
        let alone = |image: &mut Vec<u8>| {
            image[..0x4000].fill(0);
            image[0x4000 + 5000] ^= 1;
        };
        assert_eq!(read(&alone), both(magic, mismatch), "the second copy alone, and damaged");
    }

    #[test]
    fn a_header_that_is_cut_off_behind_its_magic_is_one() {
        let image = image();
        let cut = |len: usize| read_pair_of_backup(&image[..len]).map(drop);
        for len in [8, 512, 4095] {
            let short = HeaderError::TooShort { needs: 4096, has: len as u64 };
            assert_eq!(cut(len), Err(OpenError::Luks2 { primary: short, secondary: short }));
        }
        for len in [0, 1, 7] {
            assert_eq!(cut(len), Err(OpenError::NotLuks));
        }
        assert_eq!(read_pair_of_backup(&[0x4c; 100]).map(drop), Err(OpenError::NotLuks));
        let end = 0x8000 + 258_048;
        assert_eq!(cut(end), Ok(()));
        let short = HeaderError::TooShort { needs: end as u64, has: end as u64 - 1 };
        assert_eq!(cut(end - 1), Err(OpenError::Luks2 { primary: short, secondary: short }));
    }
}
