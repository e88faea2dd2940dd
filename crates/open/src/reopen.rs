//! An open volume whose key is taken away for a while: its files and devices stay open and locked meanwhile.

use core::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use atrest_device::{DeviceError, Media};
use atrest_engine::{Disk, DiskError, DiskOptions};
use atrest_volume::{Devices, LockedVolume, OpenError, UnlockError, UnlockOptions, Volume, VolumeKey};

use crate::locked::find;
use crate::{Device, Format, Key};

/// What a volume is opened again with, but for its key.
#[derive(Debug)]
pub struct Reopen {
    pub(crate) media: Arc<Device>,
    pub(crate) header: Option<Arc<Device>>,
    /// Where the header lies, whatever directory the process is in by then.
    pub(crate) header_path: Option<PathBuf>,
    pub(crate) format: Format,
    pub(crate) unlock: UnlockOptions,
    pub(crate) disk: DiskOptions,
    /// Bytes of plaintext that are shown of it.
    pub(crate) size: AtomicU64,
}

/// How large the plaintext of a volume can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes that there is room for, in whole data units.
    pub bytes: u64,
    /// Bytes in a data unit.
    pub unit: u64,
}

/// Why a volume is not opened again.
#[derive(Debug)]
pub enum ReopenError {
    /// Its header.
    Open(OpenError),
    /// Its media does not tell its size.
    Device(DeviceError),
    /// Its key.
    Unlock(UnlockError),
    /// It does not fit its media any more.
    Disk(DiskError),
}

impl fmt::Display for ReopenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
            Self::Unlock(error) => error.fmt(f),
            Self::Disk(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ReopenError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Open(error) => Some(error),
            Self::Device(error) => Some(error),
            Self::Unlock(error) => Some(error),
            Self::Disk(error) => Some(error),
        }
    }
}

impl Reopen {
    /// How large the plaintext can be by what the header says and what the media has by now. `None` for a volume whose size is what it is:
    /// of several segments, with tags, or without a header.
    ///
    /// # Errors
    /// [`ReopenError::Device`] or [`ReopenError::Open`] if neither tells.
    pub fn room(&self) -> Result<Option<Room>, ReopenError> {
        let has = self.media.grow().map_err(ReopenError::Device)?;
        let Format::ByHeader = self.format else { return Ok(None) };
        let info = LockedVolume::read(self.header()).map_err(ReopenError::Open)?.info();
        let [segment] = info.segments.as_slice() else { return Ok(None) };
        let unit = u64::from(segment.data_unit);
        let Some(rest) = has.checked_sub(segment.offset).filter(|_| segment.integrity.is_none() && unit > 0)
        else {
            return Ok(None);
        };
        let bytes = segment.size.map_or(rest, |size| size.min(rest));
        Ok(Some(Room { bytes: bytes - bytes % unit, unit }))
    }

    /// Whether [`open`](Self::open) could open it with its volume key, as the header is now. During a re-encryption it can't.
    ///
    /// # Errors
    /// [`ReopenError::Open`] if the header can't be read, [`ReopenError::Unlock`] if it says that a re-encryption is not finished.
    pub fn check(&self) -> Result<(), ReopenError> {
        let Format::ByHeader = self.format else { return Ok(()) };
        let begun = match LockedVolume::read(self.header()) {
            Ok(locked) => is_marked(&locked),
            // Of another kind.
            Err(OpenError::NotLuks) => false,
            Err(error) => return Err(ReopenError::Open(error)),
        };
        match begun {
            true => Err(ReopenError::Unlock(UnlockError::ReencryptionInProgress)),
            false => Ok(()),
        }
    }

    /// What the header lies on.
    pub(crate) fn header(&self) -> &dyn Media {
        match &self.header {
            Some(header) => &**header,
            None => &*self.media,
        }
    }

    /// So many bytes of plaintext are shown by now.
    pub fn resized(&self, size: u64) {
        self.size.store(size, Ordering::Release);
    }

    /// The plaintext, with a volume key that the header has a digest of.
    ///
    /// # Errors
    /// [`ReopenError`] names the step that failed. A key that the header's digest is not of is
    /// [`UnlockError::WrongVolumeKey`].
    pub fn open(&self, key: &[u8]) -> Result<Disk, ReopenError> {
        let header = self.header.as_deref().map(|header| header as &dyn Media);
        let locked = find(Devices::with_header(header, &*self.media), None, &self.format);
        let key = Key::Volume(VolumeKey::copy_from(key));
        let volume = locked.map_err(ReopenError::Open)?.try_key(&key, &self.unlock);
        let volume = match (volume, &key) {
            // What is held can't be touched by others, but its header be marked.
            (Err(UnlockError::ReencryptionInProgress), Key::Volume(key)) => self.untouched(key)?,
            (volume, _) => volume,
        };
        let mut volume = volume.map_err(ReopenError::Unlock)?;
        // A media that shrank shows less: whoever holds the clients notices.
        volume.limit(self.size.load(Ordering::Acquire));
        let disk = Disk::new(self.media.clone(), volume, self.disk.clone()).map_err(ReopenError::Disk)?;
        Ok(match &self.header {
            Some(header) => disk.with_header(header.clone()),
            None => disk,
        })
    }

    /// A volume whose header says that a re-encryption has begun, of which nothing is done.
    fn untouched(&self, key: &VolumeKey) -> Result<Result<Volume, UnlockError>, ReopenError> {
        let header = self.header.as_deref().map(|header| header as &dyn Media);
        let devices = Devices::with_header(header, &*self.media);
        let locked = LockedVolume::read(devices.header).map_err(ReopenError::Open)?;
        let luks2 = locked.luks2().ok_or(ReopenError::Unlock(UnlockError::ReencryptionInProgress))?;
        Ok(luks2.unlock_untouched(devices, key, &self.unlock))
    }
}

/// Whether the header says that a re-encryption is not finished.
pub(crate) fn is_marked(locked: &LockedVolume) -> bool {
    locked.info().requirements.iter().any(|name| name.contains("reencrypt"))
}
