//! Sealed volumes: a device that is a store of objects, by its URL. Its header is what the keyslots lie on; its data are the objects, which the
//! key of that header opens.

use core::fmt;
use std::fs::File;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "cloud")]
use atrest_cloud::{CloudError, Location};
use atrest_device::{BlockDevice, Cause, DeviceError, Extent, Geometry, StoreRequests};
use atrest_engine::{Access as FileAccess, DiskError, FileDevice, store_scheme};
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::{Keys, Kind};
use atrest_sealedvolume::header::HeaderObject;
use atrest_sealedvolume::store::{DirectoryStore, ObjectStore, StoreError};
use atrest_sealedvolume::volume::{
    Access, Freshness, JournalSettings, OpenError, Patience, Settings, VolumeError,
};
use atrest_volume::SealedKey;

/// Requests at once over a network: 8 log objects of 8 MiB, or as many ranges of 1 MiB.
#[cfg(feature = "cloud")]
const AT_ONCE: NonZeroUsize = NonZeroUsize::new(8).expect("it is not 0");
/// Blocks that are kept of what was read over a network: 20 MiB, of which 8 are what is fetched ahead.
const CACHED_BLOCKS: usize = 5120;
/// In a directory too, objects are stored while others are written: each waits for the disk.
const STORE_THREADS: NonZeroUsize = NonZeroUsize::new(2).expect("it is not 0");

/// Whether a path is meant to be the URL of a store of objects, also of a kind that is not known here.
pub fn is_meant(path: &Path) -> bool {
    store_scheme(path).is_some()
}

/// Where a store of objects is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A directory.
    Directory(PathBuf),
    /// A prefix in a store of a cloud.
    #[cfg(feature = "cloud")]
    Cloud(Location),
}

impl Place {
    /// Reads `file://` and an absolute path, in which nothing is encoded, or the URL of a cloud ([`Location`]).
    ///
    /// # Errors
    /// [`SealedError::Url`] or [`SealedError::Cloud`] for one that names nothing, [`SealedError::Scheme`] for one of another kind.
    pub fn parse(url: &Path) -> Result<Self, SealedError> {
        match store_scheme(url) {
            Some("file") => {
                let rest = url.as_os_str().as_bytes().strip_prefix(b"file://").ok_or(SealedError::Url)?;
                match rest.first() {
                    Some(b'/') => Ok(Self::Directory(PathBuf::from(std::ffi::OsStr::from_bytes(rest)))),
                    _ => Err(SealedError::Url),
                }
            }
            #[cfg(feature = "cloud")]
            Some(_) => Ok(Self::Cloud(Location::parse(url.to_str().ok_or(CloudError::Url)?)?)),
            _ => Err(SealedError::Scheme),
        }
    }

    /// Requests that it is asked at once: several where each takes a while.
    fn parallel(&self) -> NonZeroUsize {
        match self {
            Self::Directory(_) => NonZeroUsize::MIN,
            #[cfg(feature = "cloud")]
            Self::Cloud(_) => AT_ONCE,
        }
    }

    /// The store there. In a directory, which must be there, nothing is made or removed until an object is stored. Of a cloud nothing is asked yet.
    ///
    /// # Errors
    /// [`SealedError::Store`] if there is no such directory, [`SealedError::Cloud`] without usable settings and credentials.
    pub fn store(&self) -> Result<Arc<dyn ObjectStore>, SealedError> {
        Ok(match self {
            Self::Directory(path) => Arc::new(DirectoryStore::to_read(path)?),
            #[cfg(feature = "cloud")]
            Self::Cloud(at) => at.open()?,
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
        let settings = Settings { stores, parallel, store_threads: STORE_THREADS, cached_blocks, ..settings };
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

/// The journal of a sealed volume: a regular file, which is made if it is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalFile {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes of one that is made.
    pub size: u64,
    /// A flush waits for the store once something has waited to be stored for longer.
    pub max_lag: Duration,
}

/// A journal that is open for a volume which is being opened.
struct OpenJournal {
    device: Arc<FileDevice>,
    /// It was made now: if the volume does not open, it goes.
    made: Option<PathBuf>,
}

impl JournalFile {
    fn open(&self) -> Result<OpenJournal, SealedError> {
        let at = |error: DeviceError| SealedError::Journal(error.cause);
        match std::fs::metadata(&self.path) {
            Ok(found) if !found.is_file() => return Err(SealedError::JournalKind),
            Ok(_) => {
                let device = FileDevice::open(&self.path, FileAccess::ReadWriteExclusive).map_err(at)?;
                return Ok(OpenJournal { device: Arc::new(device), made: None });
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(SealedError::Journal(error.raw_os_error().map_or(Cause::Gone, Cause::Os)));
            }
        }
        let device = FileDevice::create(&self.path, self.size).map_err(at)?;
        let journal = OpenJournal { device: Arc::new(device), made: Some(self.path.clone()) };
        match journal.device.reserve() {
            Ok(()) => Ok(journal),
            Err(error) => {
                journal.give_up();
                Err(SealedError::Journal(error.cause))
            }
        }
    }
}

impl OpenJournal {
    /// Takes away what was made for a volume that did not open. What was begun stays: the volume may name it.
    fn give_up(self) {
        let mut head = [0; 4096];
        let is_blank = self.device.read_at(0, &mut head).is_ok() && head == [0; 4096];
        if let Some(path) = self.made.filter(|_| is_blank) {
            // The opening fails for another reason, which is told.
            let _ = std::fs::remove_file(path);
        }
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
    /// Where flushes are kept until they are stored. Without one they wait for the store. To read it is not opened.
    pub journal: Option<JournalFile>,
    /// What the volume's journal holds that the store does not is given up, or to read left out.
    pub without_journal: bool,
}

impl SealedOptions {
    /// Opens the volume on a device with its key, to be written or to be read. What keeps other processes of this machine away comes with it.
    pub(crate) fn open(
        self,
        device: &SealedDevice,
        key: &SealedKey,
        write: bool,
    ) -> Result<(SealedVolume, Option<File>), SealedError> {
        let held = if write { device.store.hold()? } else { device.store.hold_to_read()? };
        let access = if write { Access::Write } else { Access::Read };
        let file = self.journal.filter(|_| write);
        let journal = file.as_ref().map(JournalFile::open).transpose()?;
        let with_lag = journal.as_ref().zip(file.as_ref());
        let settings = Settings {
            patience: self.patience,
            forgo_journal: self.without_journal,
            journal: with_lag.map(|(open, file)| JournalSettings {
                device: Arc::clone(&open.device) as _,
                max_lag: file.max_lag,
            }),
            ..Settings::default()
        };
        match (device.volume(key, self.freshness, access, settings), journal) {
            (Ok(volume), _) => Ok((volume, held)),
            (Err(error), journal) => {
                if let Some(journal) = journal {
                    journal.give_up();
                }
                Err(error)
            }
        }
    }
}

impl Default for SealedOptions {
    fn default() -> Self {
        let (journal, without_journal) = (None, false);
        let (freshness, patience) = (Freshness::Nothing, Patience::default());
        Self { freshness, snapshot: None, patience, journal, without_journal }
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
        let snapshot = options.snapshot.clone();
        let (volume, held) = options.open(device, key, !read_only && snapshot.is_none())?;
        let Some(name) = snapshot else { return Ok(Self { volume, _held: held }) };
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

    fn read_if_cached(&self, offset: u64, buf: &mut [u8]) -> Result<bool, DeviceError> {
        self.volume.read_if_cached(offset, buf)
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
    /// The settings for a cloud, or its URL.
    #[cfg(feature = "cloud")]
    Cloud(CloudError),
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
    /// The journal can't be opened or made, for this reason.
    Journal(Cause),
    /// The journal is no regular file.
    JournalKind,
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

#[cfg(feature = "cloud")]
impl From<CloudError> for SealedError {
    fn from(error: CloudError) -> Self {
        match error {
            CloudError::Scheme => Self::Scheme,
            error => Self::Cloud(error),
        }
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
            #[cfg(feature = "cloud")]
            Self::Scheme => f.write_str(concat!(
                "stores of objects are directories (file:///path)",
                ", buckets of S3 (s3://BUCKET/PREFIX)",
                ", containers of Azure (az://CONTAINER/PREFIX)",
                " and buckets of Google Cloud Storage (gs://BUCKET/PREFIX)",
            )),
            #[cfg(not(feature = "cloud"))]
            Self::Scheme => f.write_str("stores of objects are directories here (file:///path)"),
            #[cfg(feature = "cloud")]
            Self::Cloud(error) => error.fmt(f),
            Self::Store(error) => write!(f, "the store can't be read: {error}"),
            Self::NoHeader => f.write_str("no sealed volume is there: the store has no header object"),
            Self::CutHeader => f.write_str("the header object in the store is cut off"),
            Self::NoStore => f.write_str("the header is that of a sealed volume, whose data lies in a store"),
            Self::KeyLength => f.write_str("the key is none of a sealed volume"),
            Self::Journal(cause) => write!(f, "the journal can't be opened: {cause}"),
            Self::JournalKind => f.write_str("a journal is a regular file"),
            Self::Open(error) => error.fmt(f),
            Self::Volume(error) => error.fmt(f),
            Self::Disk(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SealedError {}
