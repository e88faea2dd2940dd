//! Header backups in cryptsetup's form, their restoration, and the repair of a damaged keyslot table.

use atrest_device::{LockMode, Media, Operation};
use atrest_keyslot::luks1::{self as slots, HEADER_LEN, Header, SLOTS};

use super::Luks1;
use super::media::{self, HEADER_AREA};
use crate::lock::MetadataLock;
use crate::{ChangeError, OpenError, OptionError, RestoreOptions};

/// A backup is padded to this multiple, the page size of the machines that cryptsetup's backups come from.
const PAGE: u64 = 4096;

/// Most bytes in a backup: a hundred times those of cryptsetup's layout. A hostile header can place areas anywhere.
const MAX_BACKUP: u64 = 256 << 20;

/// Header and keyslot areas, as `cryptsetup luksHeaderBackup` writes them: up to the end of the last area, padded with
/// zeros to a page, what lies between header and areas zeroed.
///
/// # Errors
/// Fails where [`Luks1::read`] does. [`OpenError::BackupTooLarge`] if the areas lie too far behind the
/// header, [`OpenError::Device`] if they are not on the device.
pub fn header_backup(device: &dyn Media) -> Result<Vec<u8>, OpenError> {
    let _lock = MetadataLock::take(device, LockMode::Shared)?;
    let header = media::read_header(device)?;
    // The header bounds its areas only by the data offset. A backup without one of them would be none.
    let needs = header.areas_end();
    device.check_range(Operation::Read, 0, needs)?;
    check_len(needs)?;
    let len = backup_len(&header);
    let there = len.min(device.size());
    let mut backup = vec![0; usize::try_from(len).map_err(|_| OpenError::NotLuks)?];
    if let Some(filled) = usize::try_from(there).ok().and_then(|there| backup.get_mut(..there)) {
        device.read_at(0, filled)?;
    }
    // At most MAX_BACKUP.
    if let Some(padding) = backup.get_mut(needs as usize..) {
        padding.fill(0);
    }
    if let Some(gap) = backup.get_mut(HEADER_LEN..first_area(&header)) {
        gap.fill(0);
    }
    Ok(backup)
}

/// Writes a backup back: the areas, then, once they are durable, the header. All checks come first.
///
/// A power loss in the middle leaves the old header over areas of which some are the backup's; the backup is still
/// there to be restored again.
///
/// # Errors
/// Fails where [`header_restore`](crate::header_restore()) of all formats does.
pub fn header_restore(device: &dyn Media, backup: &[u8], options: RestoreOptions) -> Result<(), ChangeError> {
    let header = media::parse(backup).map_err(ChangeError::BadBackup)?;
    let (start, end) = (first_area(&header), header.areas_end());
    let too_short = ChangeError::BackupLength { has: backup.len() as u64, needs: end };
    let areas = usize::try_from(end).ok().and_then(|end| backup.get(start..end)).ok_or(too_short)?;
    // cannot overflow: a number of 32 bits times 512.
    let needs = end.max(u64::from(header.data_sector()).saturating_mul(atrest_device::SECTOR_SIZE));
    if device.size() < needs {
        return Err(OptionError::DeviceTooSmall { needs, has: device.size() }.into());
    }
    let _lock = MetadataLock::take(device, LockMode::Exclusive)?;
    if !options.replace_other {
        check_same_volume(device, &header)?;
    }
    let present_detached = || media::read_header(device).is_ok_and(|present| is_detached(&present));
    if is_detached(&header) && !options.detached && !present_detached() {
        return Err(ChangeError::BackupOfDetachedHeader);
    }
    device.write_at(start as u64, areas)?;
    device.flush()?;
    Ok(media::write_header(device, &header)?)
}

/// Repairs a keyslot table whose offsets, stripes or state words are damaged, and returns what was read then.
///
/// # Errors
/// [`ChangeError::NothingToRepair`] if the header is intact, [`ChangeError::Open`] if what is damaged can't
/// be made up. Nothing was written then. [`ChangeError::Device`] if the device fails.
pub fn repair(device: &dyn Media) -> Result<Luks1, ChangeError> {
    let _lock = MetadataLock::take(device, LockMode::Exclusive)?;
    let bytes = media::header_bytes(device)?;
    let repaired = slots::repair(&bytes).map_err(media::open_error)?;
    if !repaired.changed() {
        return Err(ChangeError::NothingToRepair);
    }
    media::write_header(device, &repaired.header)?;
    Ok(Luks1 { header: repaired.header })
}

/// Whether a backup belongs onto this device: it may replace a header of its own volume with the same layout, a
/// damaged one, or none.
fn check_same_volume(device: &dyn Media, backup: &Header) -> Result<(), ChangeError> {
    let present = match media::read_header(device) {
        Ok(present) => present,
        Err(OpenError::Device(error)) => return Err(ChangeError::Device(error)),
        // A LUKS2 header, say, is another volume's.
        Err(OpenError::UnknownVersion { .. }) => return Err(ChangeError::BackupOfAnotherVolume),
        // Its header is in a file meanwhile, and this one would count in the middle of a re-encryption.
        Err(_) if crate::uuid_set_aside(device)?.is_some() => return Err(ChangeError::BackupOfAnotherVolume),
        Err(_) => return Ok(()),
    };
    if present.uuid() != backup.uuid() {
        return Err(ChangeError::BackupOfAnotherVolume);
    }
    let layout = |header: &Header| {
        (header.data_sector(), header.key_len(), (0..SLOTS).map(|n| header.area(n)).collect::<Vec<_>>())
    };
    if layout(&present) != layout(backup) {
        return Err(ChangeError::BackupLayoutDiffers);
    }
    Ok(())
}

/// Whether the header's data can't be behind it on the same device.
fn is_detached(header: &Header) -> bool {
    // cannot overflow: a number of 32 bits times 512.
    u64::from(header.data_sector()).saturating_mul(atrest_device::SECTOR_SIZE) < header.areas_end()
}

fn check_len(needs: u64) -> Result<(), OpenError> {
    let most = MAX_BACKUP;
    if needs > most { Err(OpenError::BackupTooLarge { needs, most }) } else { Ok(()) }
}

fn backup_len(header: &Header) -> u64 {
    let end = header.areas_end().max(HEADER_AREA as u64);
    end.checked_next_multiple_of(PAGE).unwrap_or(end)
}

/// First byte of the first area.
fn first_area(header: &Header) -> usize {
    let first = (0..SLOTS).filter_map(|number| header.area(number)).map(|(offset, _)| offset).min();
    first.and_then(|offset| usize::try_from(offset).ok()).unwrap_or(HEADER_AREA)
}

#[cfg(test)]
mod tests {
    use atrest_keyslot::luks1::HeaderParts;

    use super::*;

    /// Eight areas of 125 sectors, every 128, the last of which ends at byte 526848.
    fn header(data_sector: u32) -> Header {
        Header::new(&HeaderParts {
            cipher_name: "aes",
            cipher_mode: "cbc-essiv:sha256",
            hash: atrest_kdf::Hash::Sha256,
            key_len: 16,
            uuid: "01234567-89ab-4def-8123-456789abcdef",
            data_sector: Some(data_sector),
            alignment: 1,
            digest: [1; 20],
            digest_salt: [2; 32],
            digest_iterations: 1000,
        })
        .expect("a header")
    }

    #[test]
    fn a_backup_goes_from_the_first_area_to_the_end_of_the_last_and_fills_a_page() {
        let header = header(0);
        assert_eq!((first_area(&header), header.areas_end()), (4096, 526_848));
        assert_eq!(backup_len(&header), 528_384);
    }

    #[test]
    fn a_backup_has_256_mib_at_most() {
        let most = 256 << 20;
        assert_eq!(check_len(most), Ok(()));
        assert_eq!(check_len(most + 512), Err(OpenError::BackupTooLarge { needs: most + 512, most }));
    }

    #[test]
    fn a_header_is_detached_where_its_data_can_not_be_behind_it() {
        assert!(is_detached(&header(0)));
        assert!(!is_detached(&header(526_848 / 512)), "right behind the last area");
        assert!(!is_detached(&header(2048)));
    }
}
