//! The file that a driver works on: our own FUSE face of the volume, in a directory that only this user sees.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use atrest_device::BlockDevice;

use super::{DriverError, Program};
use crate::fuse::{self, Mount, MountId, Unmounter, WaitError};

/// A mounted volume in a directory of its own, which goes with it.
pub(super) struct VolumeFile {
    directory: PathBuf,
    /// Absent before it is mounted and after.
    mount: Option<Mount>,
}

impl VolumeFile {
    /// Serves `device` in `directory`, which is empty and this user's alone. `setuid`: a program that has root's rights as well
    /// is to see it, so it can't be left to FUSE to keep others out; the directory above it does.
    pub fn serve(
        device: Arc<dyn BlockDevice>,
        directory: PathBuf,
        setuid: Option<Program>,
    ) -> Result<Self, DriverError> {
        let mut file = Self { directory, mount: None };
        let bytes = file.directory.as_os_str().as_encoded_bytes();
        if bytes.iter().any(|byte| b",\\".contains(byte)) {
            return Err(DriverError::Comma { path: file.directory.clone() });
        }
        let options = fuse::Options { shared: setuid.is_some(), ..fuse::Options::default() };
        let mount = fuse::mount(device, &file.directory, &options).map_err(|error| match setuid {
            Some(program) => DriverError::Setuid { program, error },
            None => error.into(),
        })?;
        file.mount = Some(mount);
        Ok(file)
    }

    /// The file itself.
    pub fn path(&self) -> PathBuf {
        self.directory.join(fuse::FILE_NAME)
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn id(&self) -> Option<MountId> {
        self.mount.as_ref().map(Mount::id)
    }

    pub fn unmounter(&self) -> Option<Unmounter> {
        self.mount.as_ref().map(Mount::unmounter)
    }

    /// Takes it away once the driver is done with it, and flushes the device. `in_use`: the kernel may still have it open, which
    /// is waited for. Otherwise nobody is: another mount namespace may hold a copy of the mount for as long as it likes.
    pub fn close(mut self, in_use: bool) -> Result<(), WaitError> {
        self.end(in_use)
    }

    fn end(&mut self, in_use: bool) -> Result<(), WaitError> {
        let ended = match self.mount.take() {
            Some(mount) => {
                let unmounter = mount.unmounter();
                if unmounter.unmount().is_err() {
                    // In use, or out of sight already: it ends with its last user.
                    let _ = unmounter.detach();
                }
                if in_use { mount.wait() } else { unmounter.flush() }
            }
            None => Ok(()),
        };
        // What is left of it is an empty directory, which hurts nobody.
        let _ = std::fs::remove_dir(&self.directory);
        ended
    }
}

impl Drop for VolumeFile {
    fn drop(&mut self) {
        // Nothing was mounted from it, or an earlier error is told.
        let _ = self.end(false);
    }
}
