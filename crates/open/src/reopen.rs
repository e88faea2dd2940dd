//! An open volume whose key is taken away for a while: its files and devices stay open and locked meanwhile.

use core::fmt;
use std::sync::Arc;

use atrest_device::Media;
use atrest_engine::{Disk, DiskError, DiskOptions};
use atrest_volume::{Devices, OpenError, UnlockError, UnlockOptions, VolumeKey};

use crate::locked::find;
use crate::{Device, Format, Key};

/// What a volume is opened again with, but for its key.
#[derive(Debug)]
pub struct Reopen {
    pub(crate) media: Arc<Device>,
    pub(crate) header: Option<Arc<Device>>,
    pub(crate) format: Format,
    pub(crate) unlock: UnlockOptions,
    pub(crate) disk: DiskOptions,
    /// Bytes of plaintext that were shown of it.
    pub(crate) size: u64,
}

/// Why a volume is not opened again.
#[derive(Debug)]
pub enum ReopenError {
    /// Its header.
    Open(OpenError),
    /// Its key.
    Unlock(UnlockError),
    /// It does not fit its media any more.
    Disk(DiskError),
}

impl fmt::Display for ReopenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => error.fmt(f),
            Self::Unlock(error) => error.fmt(f),
            Self::Disk(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ReopenError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Open(error) => Some(error),
            Self::Unlock(error) => Some(error),
            Self::Disk(error) => Some(error),
        }
    }
}

impl Reopen {
    /// The plaintext, with a volume key that the header has a digest of.
    ///
    /// # Errors
    /// [`ReopenError`] names the step that failed. A key that the header's digest is not of is
    /// [`UnlockError::WrongVolumeKey`].
    pub fn open(&self, key: &[u8]) -> Result<Disk, ReopenError> {
        let header = self.header.as_deref().map(|header| header as &dyn Media);
        let locked = find(Devices::with_header(header, &*self.media), &self.format);
        let key = Key::Volume(VolumeKey::copy_from(key));
        let volume = locked.map_err(ReopenError::Open)?.try_key(&key, &self.unlock);
        let mut volume = volume.map_err(ReopenError::Unlock)?;
        if volume.size() > self.size {
            volume.limit(self.size);
        }
        let disk = Disk::new(self.media.clone(), volume, self.disk.clone()).map_err(ReopenError::Disk)?;
        Ok(match &self.header {
            Some(header) => disk.with_header(header.clone()),
            None => disk,
        })
    }
}
