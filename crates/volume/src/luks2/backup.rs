//! Header backups in the form of cryptsetup's `luksHeaderBackup`: the first bytes of the header device, up to the end
//! of the keyslots area.

use atrest_device::{LockMode, Media};
use atrest_format::luks2::{AREA_ALIGNMENT, Header, HeaderPair, SegmentKind};

use super::{Luks2, media};
use crate::lock::MetadataLock;
use crate::{ChangeError, OpenError, RestoreOptions};

/// Both header copies and the keyslots area, as they are on the device. Everything in it is secret as the header is.
///
/// # Errors
/// Fails where [`Luks2::read`] does.
pub fn header_backup(header: &dyn Media) -> Result<Vec<u8>, OpenError> {
    let _lock = MetadataLock::take(header, LockMode::Shared)?;
    let size = media::read_pair(header)?.header.total_size();
    // At most 136 MiB, and not more than the device holds: both were checked.
    let mut backup = vec![0; size as usize];
    header.read_at(0, &mut backup)?;
    Ok(backup)
}

/// Whether a backup is of a sealed volume, whose header lies in a store of objects and can be restored nowhere else.
///
/// # Errors
/// [`OpenError`] if it is no backup of a LUKS2 header.
pub fn is_backup_of_sealed(backup: &[u8]) -> Result<bool, OpenError> {
    let header = media::read_pair_of_backup(backup)?.header;
    Ok(header.metadata.segments().iter().any(|segment| matches!(segment.kind, SegmentKind::Sealed { .. })))
}

/// Writes a backup back: keyslot areas first, then one header copy after the other.
///
/// Where the device holds a newer header of its own, the restored copies get a higher sequence number than that, so
/// that a power loss in the middle can't bring the old header back for good.
///
/// # Errors
/// Fails where [`header_restore`](crate::header_restore()) of all formats does.
/// [`ChangeError::SequenceExhausted`] if the device's header was changed as often as can be counted.
pub fn header_restore(header: &dyn Media, backup: &[u8], options: RestoreOptions) -> Result<(), ChangeError> {
    let source = media::read_pair_of_backup(backup).map_err(ChangeError::BadBackup)?;
    Luks2 { pair: source.clone(), pin: None, expected: None }.check_usable()?;
    check_length(backup, &source.header)?;
    let _lock = MetadataLock::take(header, LockMode::Exclusive)?;
    let present = match media::read_pair(header) {
        Ok(present) => Some(present),
        Err(OpenError::Device(e)) => return Err(e.into()),
        // A volume all the same, and its data starts where our second header copy would go.
        Err(_) if !options.replace_other && crate::detect::version(header) == Some(1) => {
            return Err(ChangeError::BackupOfAnotherVolume);
        }
        Err(_) if !options.replace_other && crate::uuid_set_aside(header)?.is_some() => {
            return Err(ChangeError::BackupOfAnotherVolume);
        }
        // Nothing readable is there: that is what backups are for.
        Err(_) => None,
    };
    if let Some(present) = &present {
        check_same_volume(present, &source, options)?;
    }
    let present_detached = present.as_ref().is_some_and(|present| is_detached(&present.header));
    if is_detached(&source.header) && !options.detached && !present_detached {
        return Err(ChangeError::BackupOfDetachedHeader);
    }
    let needs = source.header.total_size();
    if header.size() < needs {
        return Err(crate::OptionError::DeviceTooSmall { needs, has: header.size() }.into());
    }
    let mut restored = source.header;
    if let Some(present) = &present {
        let newest = present.header.binary.sequence;
        if newest >= restored.binary.sequence {
            restored.binary.sequence = newest.checked_add(1).ok_or(ChangeError::SequenceExhausted)?;
        }
    }
    let range = restored.metadata.keyslots_start() as usize..needs as usize;
    let areas = backup.get(range).ok_or(ChangeError::BackupLength { has: backup.len() as u64, needs })?;
    header.write_at(restored.metadata.keyslots_start(), areas)?;
    header.flush()?;
    let old = present.filter(|present| present.header.binary.header_size == restored.binary.header_size);
    match old {
        Some(old) => media::write_pair(header, &old, &restored),
        None => media::write_fresh_pair(header, &restored),
    }
}

/// Whether the header's data can't be behind it on the same device.
fn is_detached(header: &Header) -> bool {
    header
        .metadata
        .segments()
        .iter()
        .any(|segment| !segment.is_backup() && segment.offset < header.total_size())
}

/// cryptsetup pads its backups to a page. One that is too short was refused as its header was read.
fn check_length(backup: &[u8], source: &Header) -> Result<(), ChangeError> {
    let (has, needs) = (backup.len() as u64, source.total_size());
    // cannot overflow: a constant.
    match has > needs.next_multiple_of(AREA_ALIGNMENT.saturating_mul(16)) {
        true => Err(ChangeError::BackupLength { has, needs }),
        false => Ok(()),
    }
}

fn check_same_volume(
    present: &HeaderPair,
    source: &HeaderPair,
    options: RestoreOptions,
) -> Result<(), ChangeError> {
    if options.replace_other {
        return Ok(());
    }
    let (present, source) = (&present.header, &source.header);
    if present.binary.uuid != source.binary.uuid {
        return Err(ChangeError::BackupOfAnotherVolume);
    }
    let layout =
        |header: &Header| (header.binary.header_size, header.total_size(), header.metadata.data_offset());
    match layout(present) == layout(source) {
        true => Ok(()),
        false => Err(ChangeError::BackupLayoutDiffers),
    }
}
