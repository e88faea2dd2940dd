//! `/dev/mapper/NAME`: udev's link, or, without udev, a node that is made here.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode};

use super::control::Control;
use super::error::DmError;

const DIRECTORY: &str = "/dev/mapper";

/// Major and minor number of a device.
pub fn major_minor(device: u64) -> (u32, u32) {
    (rustix::fs::major(device), rustix::fs::minor(device))
}

/// The path of a mapping, which is there when this returns.
pub fn appear(control: &Control, name: &str) -> Result<PathBuf, DmError> {
    let path = Path::new(DIRECTORY).join(name);
    let failed = |error| DmError::Node { path: path.clone(), error };
    let found = control.status(name)?.ok_or_else(|| DmError::NotOpen { name: name.into() })?;
    match path.metadata() {
        Ok(metadata) if metadata.file_type().is_block_device() && metadata.rdev() == found.device => {
            return Ok(path);
        }
        // Of a mapping that is gone, or a link to nothing.
        Ok(_) => std::fs::remove_file(&path).map_err(failed)?,
        Err(_) if path.symlink_metadata().is_ok() => std::fs::remove_file(&path).map_err(failed)?,
        Err(_) => {}
    }
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::mknodat(CWD, &path, FileType::BlockDevice, mode, found.device) {
        Ok(()) => Ok(path),
        // udev was faster.
        Err(error) if error == rustix::io::Errno::EXIST => Ok(path),
        Err(error) => Err(failed(error.into())),
    }
}

/// Removes the path of a mapping that is gone.
pub fn disappear(name: &str) -> Result<(), DmError> {
    let path = Path::new(DIRECTORY).join(name);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(DmError::Node { path, error }),
        _ => Ok(()),
    }
}
