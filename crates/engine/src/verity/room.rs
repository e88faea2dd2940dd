//! Files that get a tree or its parity.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use atrest_device::{Cause, DeviceError, Operation};

use crate::{Access, FileDevice};

/// Opens a device to be written. A file that is not there is created, for its owner only, and one that is shorter than `len`
/// bytes gets longer; a block device is as long as it is.
///
/// # Errors
/// [`DeviceError`] if it can't be created, opened or made longer. A file that this has created does not stay then.
pub fn open_with_room(path: &Path, len: u64) -> Result<FileDevice, DeviceError> {
    let failed = |error: std::io::Error| {
        let cause = Cause::Os(error.raw_os_error().unwrap_or(libc::EIO));
        DeviceError::new(Operation::Open, 0, 0, cause)
    };
    let created = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => true,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(failed(error)),
    };
    let open = || -> Result<FileDevice, DeviceError> {
        let device = FileDevice::open(path, Access::ReadWriteExclusive)?;
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if !metadata.is_file() || metadata.len() >= len {
            return Ok(device);
        }
        let file = OpenOptions::new().write(true).open(path).map_err(failed)?;
        file.set_len(len).map_err(failed)?;
        // Its size is that of the moment when it was opened.
        drop(device);
        FileDevice::open(path, Access::ReadWriteExclusive)
    };
    let opened = open();
    if opened.is_err() && created {
        // What failed is what is told.
        let _ = std::fs::remove_file(path);
    }
    opened
}
