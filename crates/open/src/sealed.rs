//! Sealed volumes: a device that is a store of objects, by its URL. Its header is what the keyslots lie on; its data are the objects, which the
//! key of that header opens.

use core::fmt;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atrest_device::{BlockDevice, DeviceError, Extent, Geometry};
use atrest_engine::DiskError;
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::Keys;
use atrest_sealedvolume::header::HeaderObject;
use atrest_sealedvolume::store::{DirectoryStore, ObjectStore, StoreError};
use atrest_sealedvolume::volume::{Access, Freshness, OpenError, Settings, VolumeError};
use atrest_volume::SealedKey;

/// What a path begins with that is the URL of a directory of objects.
const FILE: &[u8] = b"file://";

/// Whether a path is meant to be the URL of a store of objects.
pub fn is_meant(path: &Path) -> bool {
    path.as_os_str().as_bytes().starts_with(FILE)
}

/// The directory that a URL names.
///
/// # Errors
/// [`SealedError::Url`] unless it is `file://` and an absolute path. Nothing in it is encoded.
pub fn directory(url: &Path) -> Result<PathBuf, SealedError> {
    let rest = url.as_os_str().as_bytes().strip_prefix(FILE).ok_or(SealedError::Url)?;
    match rest.first() {
        Some(b'/') => Ok(PathBuf::from(std::ffi::OsStr::from_bytes(rest))),
        _ => Err(SealedError::Url),
    }
}

/// A store of objects, and the header in it.
pub struct SealedDevice {
    store: Arc<dyn ObjectStore>,
    header: HeaderObject,
}

impl SealedDevice {
    /// Opens the store that a URL names, and its newest header.
    ///
    /// # Errors
    /// [`SealedError::Url`], [`SealedError::Store`], or [`SealedError::NoHeader`] if no volume is there.
    pub fn open(url: &Path, write: bool) -> Result<Self, SealedError> {
        let directory = directory(url)?;
        let store: Arc<dyn ObjectStore> = Arc::new(DirectoryStore::to_read(directory)?);
        let header = HeaderObject::open(store.clone(), Settings::default().patience, !write)?;
        Ok(Self { store, header: header.ok_or(SealedError::NoHeader)? })
    }

    /// Opens the store that a URL names, to restore a header to it. There may be none, or none that can be read.
    ///
    /// # Errors
    /// [`SealedError::Url`] or [`SealedError::Store`].
    pub fn open_to_restore(url: &Path) -> Result<Self, SealedError> {
        let store: Arc<dyn ObjectStore> = Arc::new(DirectoryStore::to_read(directory(url)?)?);
        let header = HeaderObject::open_or_blank(store.clone(), Settings::default().patience)?;
        Ok(Self { store, header })
    }

    /// The objects.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// The device that keyslots lie on.
    pub fn header(&self) -> &HeaderObject {
        &self.header
    }

    /// Opens the volume with its key.
    ///
    /// # Errors
    /// [`SealedError::Open`], or [`SealedError::KeyLength`] for a key that no sealed volume has.
    pub fn volume(
        &self,
        key: &SealedKey,
        freshness: Freshness,
        access: Access,
        settings: Settings,
    ) -> Result<SealedVolume, SealedError> {
        let keys = Keys::new(&key.key, key.format).map_err(|_| SealedError::KeyLength)?;
        let settings = Settings { stores: Some(Arc::new(store_at)), ..settings };
        Ok(SealedVolume::open(self.store.clone(), keys, freshness, access, settings)?)
    }
}

/// The objects of a volume that another one is a clone of, by its URL.
fn store_at(url: &str) -> Result<Arc<dyn ObjectStore>, StoreError> {
    let directory = directory(Path::new(url)).map_err(|_| StoreError::Name)?;
    Ok(Arc::new(DirectoryStore::to_read(directory)?))
}

impl fmt::Debug for SealedDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedDevice").field("header", &self.header).finish_non_exhaustive()
    }
}

/// How a sealed volume is opened, beside its key.
#[derive(Debug)]
pub struct SealedOptions {
    /// What tells its newest state from an older one.
    pub freshness: Freshness,
    /// A snapshot, by its name, in place of the newest state. It can be read only.
    pub snapshot: Option<String>,
}

impl Default for SealedOptions {
    fn default() -> Self {
        Self { freshness: Freshness::Nothing, snapshot: None }
    }
}

/// The data of a sealed volume. When it goes, the session is closed in good order if that can be.
pub(crate) struct SealedData {
    volume: SealedVolume,
    /// Keeps other processes of this machine from writing to the store, or from collecting in it.
    _held: Option<File>,
}

impl SealedData {
    pub(crate) fn open(
        device: &SealedDevice,
        key: &SealedKey,
        options: SealedOptions,
        read_only: bool,
    ) -> Result<Self, SealedError> {
        let access = if read_only || options.snapshot.is_some() { Access::Read } else { Access::Write };
        let held = match access {
            Access::Write => device.store.hold()?,
            Access::Read => device.store.hold_to_read()?,
        };
        let volume = device.volume(key, options.freshness, access, Settings::default())?;
        let Some(name) = options.snapshot else { return Ok(Self { volume, _held: held }) };
        let snapshot = volume.snapshots()?.into_iter().rev().find(|snapshot| snapshot.name == name);
        let id = snapshot.ok_or(SealedError::Volume(VolumeError::NoSuchSnapshot))?.id;
        Ok(Self { volume: volume.snapshot(id)?, _held: held })
    }
}

impl Drop for SealedData {
    fn drop(&mut self) {
        if !self.volume.is_read_only() {
            // intended: whoever wants to know flushes before. What was not closed in good order is opened as after a crash.
            let _ = self.volume.close();
        }
    }
}

impl BlockDevice for SealedData {
    fn size(&self) -> u64 {
        self.volume.size()
    }

    fn geometry(&self) -> Geometry {
        self.volume.geometry()
    }

    fn is_read_only(&self) -> bool {
        self.volume.is_read_only()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.volume.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.volume.write_at(offset, data)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.volume.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.volume.discard(offset, len)
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.volume.write_zeroes(offset, len)
    }

    fn extent(&self, offset: u64, len: u64) -> Result<Extent, DeviceError> {
        self.volume.extent(offset, len)
    }
}

/// Why a sealed volume is not opened.
#[non_exhaustive]
#[derive(Debug)]
pub enum SealedError {
    /// The URL is none that names a store.
    Url,
    /// The store does not answer.
    Store(StoreError),
    /// The store has no header.
    NoHeader,
    /// The header is of a sealed volume, and lies on a device that is no store, or the other way round.
    NoStore,
    /// The key has another length than that of a sealed volume.
    KeyLength,
    /// Why it does not open.
    Open(OpenError),
    /// A snapshot of it does not open.
    Volume(VolumeError),
    /// The disk can't be made of it.
    Disk(DiskError),
}

impl From<StoreError> for SealedError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<OpenError> for SealedError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

impl From<VolumeError> for SealedError {
    fn from(error: VolumeError) -> Self {
        Self::Volume(error)
    }
}

impl fmt::Display for SealedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url => f.write_str("the URL of a store is file:// and an absolute path"),
            Self::Store(error) => write!(f, "the store can't be read: {error}"),
            Self::NoHeader => f.write_str("no sealed volume is there: the directory has no header object"),
            Self::NoStore => f.write_str("the header is that of a sealed volume, whose data lies in a store"),
            Self::KeyLength => f.write_str("the key is none of a sealed volume"),
            Self::Open(error) => error.fmt(f),
            Self::Volume(error) => error.fmt(f),
            Self::Disk(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SealedError {}
