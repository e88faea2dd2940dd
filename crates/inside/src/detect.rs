//! What starts at the first byte of a device, by the signatures that each format defines.

use atrest_device::{BlockDevice, DeviceError};
pub use atrest_engine::contents::FilesystemKind;
use atrest_engine::contents::{LOOK_AT, by_signature};

use crate::bytes::Fields;
use crate::fat;

/// Which filesystem starts at the first byte of `device`; none if we know none that does.
///
/// Only I/O failures are errors. A filesystem whose signature is right may still fail to open.
pub fn detect(device: &dyn BlockDevice) -> Result<Option<FilesystemKind>, DeviceError> {
    let len = usize::try_from(device.size()).map_or(LOOK_AT, |size| size.min(LOOK_AT));
    let mut start = vec![0; len];
    device.read_at(0, &mut start)?;
    let fields = Fields(&start);
    if let Some(kind) = by_signature(&start) {
        return Ok(Some(kind));
    }
    if fields.le16(1024 + 0x38) == crate::ext4::MAGIC {
        return Ok(Some(crate::ext4::kind(Fields(fields.slice(1024, 1024)))));
    }
    Ok(fat::BootSector::parse(fields.slice(0, 512)).ok().map(|boot| boot.kind()))
}
