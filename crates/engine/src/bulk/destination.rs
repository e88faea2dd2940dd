//! Where a decrypted volume goes. It is looked at first, then everything that can refuse the run has its say, and only
//! then is it created or loses what it holds.

use std::path::{Path, PathBuf};

use atrest_device::{BlockDevice, DeviceError};

use crate::{Access, FileDevice};

/// A file or block device that a volume is to be decrypted to, as it was found.
#[derive(Debug)]
pub struct Destination {
    path: PathBuf,
    found: Found,
}

#[derive(Debug)]
enum Found {
    /// Nothing: it is created.
    Nothing,
    /// A regular file, whose contents go.
    File(FileDevice),
    /// A block device, or the output of an interrupted run. It is written as it is.
    AsItIs(FileDevice),
}

impl Destination {
    /// Looks at `path`, and keeps others from using what is there. Changes nothing. An output that is to be resumed is
    /// kept as it is.
    ///
    /// # Errors
    /// [`DeviceError`] if what is at `path` can't be opened to be written: no regular file or block device,
    /// not permitted, or in use.
    pub fn look(path: &Path, resume: bool) -> Result<Self, DeviceError> {
        let found = match path.try_exists() {
            Ok(false) => Found::Nothing,
            // What can't be looked at exists as far as we know; opening it says what is wrong.
            _ => {
                let device = FileDevice::open(path, Access::ReadWriteExclusive)?;
                if device.is_block_device() || resume { Found::AsItIs(device) } else { Found::File(device) }
            }
        };
        Ok(Self { path: path.to_path_buf(), found })
    }

    /// What is there, if it holds data ([`FileDevice::holds_data`]).
    pub fn data(&self) -> Option<&FileDevice> {
        match &self.found {
            Found::Nothing => None,
            Found::File(device) | Found::AsItIs(device) => Some(device).filter(|device| device.holds_data()),
        }
    }

    /// Its size, if that stays as it is.
    pub(super) fn fixed_size(&self) -> Option<u64> {
        match &self.found {
            Found::AsItIs(device) => Some(device.size()),
            Found::Nothing | Found::File(_) => None,
        }
    }

    pub(super) fn is_new(&self) -> bool {
        matches!(self.found, Found::Nothing)
    }

    /// The destination with room for `size` bytes, and whether it reads as zeros where it isn't written.
    pub(super) fn open(self, size: u64) -> Result<(FileDevice, bool), DeviceError> {
        match self.found {
            Found::Nothing => FileDevice::create(self.path, size).map(|device| (device, true)),
            Found::File(mut device) => device.replace_contents(size).map(|()| (device, true)),
            // What lies behind the part that is done may be anything, so zeros have to be written there.
            Found::AsItIs(device) => Ok((device, false)),
        }
    }
}
