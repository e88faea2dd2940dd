//! What starts at the first byte of a device, by the signatures that each format defines.

use alloc::vec;
use alloc::vec::Vec;

use atrest_device::{BlockDevice, DeviceError};

use crate::fat::BootSector;
use crate::{ExtSuperblock, FilesystemKind, LOOK_AT, by_signature, further_back};

/// Which filesystem or volume starts at the first byte of `device`; none if we know none that does.
///
/// # Errors
/// If the first bytes can't be read. A filesystem whose signature is right may still fail to open.
pub fn detect(device: &dyn BlockDevice) -> Result<Option<FilesystemKind>, DeviceError> {
    let start = first(device, LOOK_AT)?;
    if let Some(kind) = by_signature(&start) {
        return Ok(Some(kind));
    }
    if let Some(superblock) = ExtSuperblock::find(&start) {
        return Ok(Some(superblock.kind()));
    }
    let boot = start.first_chunk().and_then(|sector| BootSector::parse(sector).ok());
    match boot {
        Some(boot) => Ok(Some(boot.kind)),
        None => further_back(device),
    }
}

/// The first `len` bytes of a device, or all that it has.
pub(crate) fn first(device: &dyn BlockDevice, len: usize) -> Result<Vec<u8>, DeviceError> {
    let len = usize::try_from(device.size()).map_or(len, |size| size.min(len));
    let mut start = vec![0; len];
    device.read_at(0, &mut start)?;
    Ok(start)
}
