//! What starts at the first byte of a device, by the signatures that each format defines.

use atrest_codec::Record;
use atrest_device::{BlockDevice, DeviceError};
pub use atrest_engine::contents::FilesystemKind;
use atrest_engine::contents::{LOOK_AT, by_signature};

use crate::{ext4, fat};

/// Which filesystem starts at the first byte of `device`; none if we know none that does.
///
/// # Errors
/// If the first bytes can't be read. A filesystem whose signature is right may still fail to open.
pub fn detect(device: &dyn BlockDevice) -> Result<Option<FilesystemKind>, DeviceError> {
    let len = usize::try_from(device.size()).map_or(LOOK_AT, |size| size.min(LOOK_AT));
    let mut start = vec![0; len];
    device.read_at(0, &mut start)?;
    if let Some(kind) = by_signature(&start) {
        return Ok(Some(kind));
    }
    if let Some(superblock) = start.get(ext4::AT..).and_then(|from| from.first_chunk()).map(Record::new)
        && ext4::magic(superblock) == ext4::MAGIC
    {
        return Ok(Some(ext4::kind(superblock)));
    }
    let boot = start.first_chunk().and_then(|sector| fat::BootSector::parse(sector).ok());
    Ok(boot.map(|boot| boot.kind()))
}
