//! A loop device for a volume in a file, as the kernel maps block devices only.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use atrest_engine::FileDevice;

use super::error::DmError;
use super::sys;

const CONTROL: &str = "/dev/loop-control";
/// `LOOP_CTL_GET_FREE`.
const GET_FREE: u32 = 0x4c82;
/// Places in a `struct loop_config`.
const INFO_FLAGS: usize = 8 + 52;
const INFO_FILE_NAME: usize = 8 + 56;
const FILE_NAME: usize = 64;
const READ_ONLY: u32 = 1;
const AUTOCLEAR: u32 = 4;
/// How often another process may take the loop device that was free.
const TRIES: u32 = 64;

/// A loop device that goes as soon as nobody holds it open.
pub struct LoopDevice {
    device: File,
    #[cfg_attr(not(feature = "fuse"), expect(dead_code, reason = "asked for by drivers only"))]
    path: PathBuf,
}

impl LoopDevice {
    /// Puts a file on a free loop device, which keeps the file's lock as long as it stays.
    pub fn attach(media: &FileDevice, read_only: bool) -> Result<Self, DmError> {
        let path = media.path();
        Self::over(media.as_fd(), path, read_only).map_err(|error| DmError::Loop { path: path.into(), error })
    }

    /// Puts an open file on a free loop device.
    pub fn over(file: BorrowedFd<'_>, path: &Path, read_only: bool) -> io::Result<Self> {
        let control = OpenOptions::new().read(true).write(true).open(CONTROL)?;
        let mut config = [0_u8; sys::LOOP_CONFIG];
        config[..4].copy_from_slice(&(file.as_raw_fd() as u32).to_ne_bytes());
        let flags = AUTOCLEAR | if read_only { READ_ONLY } else { 0 };
        config[INFO_FLAGS..INFO_FLAGS + 4].copy_from_slice(&flags.to_ne_bytes());
        let name = std::path::absolute(path)?;
        let name = name.as_os_str().as_encoded_bytes();
        let len = name.len().min(FILE_NAME - 1);
        config[INFO_FILE_NAME..INFO_FILE_NAME + len].copy_from_slice(&name[..len]);
        for _ in 0..TRIES {
            let number = sys::ioctl_none(control.as_fd(), GET_FREE)?;
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = OpenOptions::new().read(true).write(!read_only).open(&path)?;
            match sys::configure_loop(device.as_fd(), &mut config) {
                Ok(()) => return Ok(Self { device, path }),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// Its node in /dev.
    #[cfg(feature = "fuse")]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its device number.
    pub fn number(&self) -> u64 {
        // The descriptor is open: the kernel can always say what it is.
        self.device.metadata().map_or(0, |metadata| metadata.rdev())
    }
}
