//! Sealed volumes: a device that is a store of objects, by its URL. Its header is what the keyslots lie on; its data are the objects, which the
//! key of that header opens.

use core::fmt;
use std::fs::File;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atrest_device::{BlockDevice, DeviceError, Extent, Geometry, StoreRequests};
use atrest_engine::DiskError;
#[cfg(feature = "s3")]
use atrest_s3::{Location, S3Error, S3Store, Settings as S3Settings};
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::{Keys, Kind};
use atrest_sealedvolume::header::HeaderObject;
use atrest_sealedvolume::store::{DirectoryStore, ObjectStore, StoreError};
use atrest_sealedvolume::volume::{Access, Freshness, OpenError, Patience, Settings, VolumeError};
use atrest_volume::SealedKey;

use crate::device::store_scheme;

/// Requests at once over a network: 8 log objects of 8 MiB, or as many ranges of 1 MiB.
#[cfg(feature = "s3")]
const AT_ONCE: NonZeroUsize = NonZeroUsize::new(8).expect("it is not 0");
/// Blocks that are kept of what was read over a network: 20 MiB, of which 8 are what is fetched ahead.
const CACHED_BLOCKS: usize = 5120;

/// Whether a path is meant to be the URL of a store of objects, also of a kind that is not known here.
pub fn is_meant(path: &Path) -> bool {
    store_scheme(path).is_some()
}

/// Where a store of objects is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A directory.
    Directory(PathBuf),
    /// A prefix in a bucket of S3.
    #[cfg(feature = "s3")]
    S3(Location),
}

impl Place {
    /// Reads `file://` and an absolute path, in which nothing is encoded, or `s3://BUCKET/PREFIX`.
    ///
    /// # Errors
    /// [`SealedError::Url`] or [`SealedError::S3`] for one that names nothing, [`SealedError::Scheme`] for one of another kind.
    pub fn parse(url: &Path) -> Result<Self, SealedError> {
        match store_scheme(url) {
            Some("file") => {
                let rest = url.as_os_str().as_bytes().strip_prefix(b"file://").ok_or(SealedError::Url)?;
                match rest.first() {
                    Some(b'/') => Ok(Self::Directory(PathBuf::from(std::ffi::OsStr::from_bytes(rest)))),
                    _ => Err(SealedError::Url),
                }
            }
            #[cfg(feature = "s3")]
            Some("s3") => Ok(Self::S3(Location::parse(url.to_str().ok_or(S3Error::Url)?)?)),
            _ => Err(SealedError::Scheme),
        }
    }

    /// Requests that it is asked at once: several where each takes a while.
    fn parallel(&self) -> NonZeroUsize {
        match self {
            Self::Directory(_) => NonZeroUsize::MIN,
            #[cfg(feature = "s3")]
            Self::S3(_) => AT_ONCE,
        }
    }

    /// The store there. In a directory, which must be there, nothing is made or removed until an object is stored. Of S3 nothing is asked yet.
    ///
    /// # Errors
    /// [`SealedError::Store`] if there is no such directory, [`SealedError::S3`] without usable settings and credentials.
    pub fn store(&self) -> Result<Arc<dyn ObjectStore>, SealedError> {
        Ok(match self {
            Self::Directory(path) => Arc::new(DirectoryStore::to_read(path)?),
            #[cfg(feature = "s3")]
            Self::S3(at) => Arc::new(S3Store::open(at, S3Settings::from_environment()?)?),
        })
    }
}

/// A store of objects, and the header in it.
pub struct SealedDevice {
    store: Arc<dyn ObjectStore>,
    header: HeaderObject,
    parallel: NonZeroUsize,
}

impl SealedDevice {
    /// Opens the store that a URL names, and its newest header.
    ///
    /// # Errors
    /// Those of [`Place`], [`SealedError::NoHeader`] if no volume is there, or [`SealedError::CutHeader`] if none of its headers is whole.
    pub fn open(url: &Path, write: bool) -> Result<Self, SealedError> {
        let place = Place::parse(url)?;
        let (store, parallel) = (place.store()?, place.parallel());
        match HeaderObject::open(store.clone(), Settings::default().patience, !write)? {
            Some(header) => Ok(Self { store, header, parallel }),
            None if store.list_after(Kind::Header, None)?.is_empty() => Err(SealedError::NoHeader),
            None => Err(SealedError::CutHeader),
        }
    }

    /// Opens the store that a URL names, to restore a header to it. There may be none, or none that can be read.
    ///
    /// # Errors
    /// Those of [`Place`].
    pub fn open_to_restore(url: &Path) -> Result<Self, SealedError> {
        let place = Place::parse(url)?;
        let (store, parallel) = (place.store()?, place.parallel());
        let header = HeaderObject::open_or_blank(store.clone(), Settings::default().patience)?;
        Ok(Self { store, header, parallel })
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
        self.store.wait_at_most(settings.patience.deadline);
        if access == Access::Write {
            settings.patience.again(|| self.store.probe())?;
        }
        let cached_blocks = if self.parallel.get() > 1 { CACHED_BLOCKS } else { settings.cached_blocks };
        let (stores, parallel) = (Some(Arc::new(store_at) as _), self.parallel);
        let settings = Settings { stores, parallel, cached_blocks, ..settings };
        Ok(SealedVolume::open(self.store.clone(), keys, freshness, access, settings)?)
    }
}

/// The objects of a volume that another one is a clone of, by its URL.
fn store_at(url: &str) -> Result<Arc<dyn ObjectStore>, StoreError> {
    let place = Place::parse(Path::new(url)).map_err(|_| StoreError::Name)?;
    place.store().map_err(|error| match error {
        SealedError::Store(error) => error,
        // Settings and credentials that were there for the clone itself.
        _ => StoreError::Name,
    })
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
    /// How long its store is waited for.
    pub patience: Patience,
}

impl SealedOptions {
    pub(crate) fn settings(&self) -> Settings {
        Settings { patience: self.patience, ..Settings::default() }
    }
}

impl Default for SealedOptions {
    fn default() -> Self {
        Self { freshness: Freshness::Nothing, snapshot: None, patience: Patience::default() }
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
        let settings = options.settings();
        let volume = device.volume(key, options.freshness, access, settings)?;
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

    fn store_requests(&self) -> Option<StoreRequests> {
        self.volume.store_requests()
    }
}

/// Why a sealed volume is not opened.
#[non_exhaustive]
#[derive(Debug)]
pub enum SealedError {
    /// The URL is none that names a directory.
    Url,
    /// The URL is of a kind of store that is not known here.
    Scheme,
    /// The settings for S3, or its URL.
    #[cfg(feature = "s3")]
    S3(S3Error),
    /// The store does not answer.
    Store(StoreError),
    /// The store has no header.
    NoHeader,
    /// No header in the store has the length of one.
    CutHeader,
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

#[cfg(feature = "s3")]
impl From<S3Error> for SealedError {
    fn from(error: S3Error) -> Self {
        Self::S3(error)
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
            Self::Url => f.write_str("the URL of a directory is file:// and an absolute path"),
            #[cfg(feature = "s3")]
            Self::Scheme => f.write_str(
                "stores of objects are directories (file:///path) and buckets of S3 (s3://BUCKET/PREFIX)",
            ),
            #[cfg(not(feature = "s3"))]
            Self::Scheme => f.write_str("stores of objects are directories here (file:///path)"),
            #[cfg(feature = "s3")]
            Self::S3(error) => error.fmt(f),
            Self::Store(error) => write!(f, "the store can't be read: {error}"),
            Self::NoHeader => f.write_str("no sealed volume is there: the store has no header object"),
            Self::CutHeader => f.write_str("the header object in the store is cut off"),
            Self::NoStore => f.write_str("the header is that of a sealed volume, whose data lies in a store"),
            Self::KeyLength => f.write_str("the key is none of a sealed volume"),
            Self::Open(error) => error.fmt(f),
            Self::Volume(error) => error.fmt(f),
            Self::Disk(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SealedError {}
