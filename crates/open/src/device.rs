//! What a volume lies on, by the name that a person gives it: a path, or the URI of an NBD export.

use core::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use atrest_device::{BlockDevice, Cause, DeviceError, Extent, Geometry, LockMode, Media, Storage};
use atrest_engine::{Access, FileDevice, PartitionPlace, Sequence, partition_place, store_scheme};
use atrest_nbd::{ConnectError, Export, Options, Uri};

#[cfg(feature = "sealed")]
use crate::sealed::{self, SealedDevice, SealedError};

/// A regular file, a block device, an export of an NBD server, or a stream.
#[derive(Debug)]
pub struct Device {
    path: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    File(FileDevice),
    /// Nobody else can be kept from using it: NBD has no locks.
    Export(Export),
    /// What comes through a pipe.
    Sequence(Arc<Sequence>),
    /// A store of objects. What is read and written here is its header.
    #[cfg(feature = "sealed")]
    Sealed(SealedDevice),
}

impl Device {
    /// Opens what `path` names. A path that begins with `nbd://`, `nbds://`, `nbd+unix://` or `nbds+unix://` is the URI of
    /// an NBD export.
    ///
    /// # Errors
    /// [`DeviceOpenError`]: nothing is there, it is something else, it is in use, or `access` is not permitted.
    pub fn open(path: impl AsRef<Path>, access: Access) -> Result<Self, DeviceOpenError> {
        let path = path.as_ref();
        #[cfg(feature = "sealed")]
        if sealed::is_meant(path) {
            let write = matches!(access, Access::ReadWrite | Access::ReadWriteExclusive);
            return Ok(Self { path: path.into(), kind: Kind::Sealed(SealedDevice::open(path, write)?) });
        }
        let kind = match Uri::is_meant(path) {
            false => Kind::File(FileDevice::open(path, access)?),
            true => {
                let write = matches!(access, Access::ReadWrite | Access::ReadWriteExclusive);
                let text = path.to_str().ok_or(DeviceOpenError::UriEncoding)?;
                let uri = Uri::parse(text).map_err(ConnectError::Uri)?;
                Kind::Export(Export::connect(uri, write, Options::default())?)
            }
        };
        Ok(Self { path: path.into(), kind })
    }

    /// Opens what `path` names, to restore a header backup to it. A store of objects may have no header then.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_to_restore(path: impl AsRef<Path>) -> Result<Self, DeviceOpenError> {
        let path = path.as_ref();
        #[cfg(feature = "sealed")]
        if sealed::is_meant(path) {
            return Ok(Self { path: path.into(), kind: Kind::Sealed(SealedDevice::open_to_restore(path)?) });
        }
        Self::open(path, Access::ReadWriteExclusive)
    }

    /// A volume that comes as a stream.
    pub fn stream(sequence: Arc<Sequence>) -> Self {
        Self { path: "-".into(), kind: Kind::Sequence(sequence) }
    }

    /// The path or URI it was opened by; `-` for a stream.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where it lies on its drive, if it is a partition.
    ///
    /// # Errors
    /// [`DeviceOpenError`] if the kernel's answer can't be read.
    pub fn partition(&self) -> Result<Option<PartitionPlace>, DeviceOpenError> {
        match &self.kind {
            Kind::File(_) => Ok(partition_place(&self.path)?),
            _ => Ok(None),
        }
    }

    /// The file or block device, for whatever can't be done with an export.
    ///
    /// # Errors
    /// [`DeviceOpenError::NotHere`] for an export.
    pub fn into_file(self) -> Result<FileDevice, DeviceOpenError> {
        match self.kind {
            Kind::File(file) => Ok(file),
            _ => Err(DeviceOpenError::NotHere),
        }
    }

    /// Maps it into memory, so that long reads need no copy: [`FileDevice::map`].
    ///
    /// # Errors
    /// [`DeviceOpenError::NotHere`] for an export or a stream; otherwise it fails where [`FileDevice::map`] does.
    pub fn map(&mut self) -> Result<(), DeviceOpenError> {
        match &mut self.kind {
            Kind::File(file) => Ok(file.map()?),
            _ => Err(DeviceOpenError::NotHere),
        }
    }

    /// Looks whether it has grown, and returns its size in bytes: [`FileDevice::grow`]. An export and a stream keep theirs.
    ///
    /// # Errors
    /// Fails where [`FileDevice::grow`] does.
    pub fn grow(&self) -> Result<u64, DeviceError> {
        match &self.kind {
            Kind::File(file) => file.grow(),
            _ => Ok(self.size()),
        }
    }

    /// Whether it is a store of sealed objects, of which the header is seen here.
    pub fn is_sealed(&self) -> bool {
        #[cfg(feature = "sealed")]
        if matches!(self.kind, Kind::Sealed(_)) {
            return true;
        }
        false
    }

    /// The store of sealed objects, if it is one.
    #[cfg(feature = "sealed")]
    pub fn sealed(&self) -> Option<&SealedDevice> {
        match &self.kind {
            Kind::Sealed(device) => Some(device),
            _ => None,
        }
    }

    /// Whether it is an export of a server.
    pub fn is_remote(&self) -> bool {
        matches!(self.kind, Kind::Export(_))
    }

    /// Whether it is a stream, which passes once.
    pub fn is_stream(&self) -> bool {
        matches!(self.kind, Kind::Sequence(_))
    }

    /// Whether it is a block device or an export, whose size nobody here decides, rather than a regular file.
    pub fn is_disk(&self) -> bool {
        match &self.kind {
            Kind::File(file) => file.is_block_device(),
            _ => true,
        }
    }

    /// The number of a block device.
    pub fn device_number(&self) -> Option<u64> {
        match &self.kind {
            Kind::File(file) => file.device_number(),
            _ => None,
        }
    }

    /// Whether anything may be stored on it: a block device or an export always counts as full, a regular file does unless
    /// it is empty or one hole.
    pub fn holds_data(&self) -> bool {
        match &self.kind {
            Kind::File(file) => file.holds_data(),
            _ => true,
        }
    }

    /// When a regular file was last written.
    pub fn modified(&self) -> Option<SystemTime> {
        match &self.kind {
            Kind::File(file) => file.modified(),
            _ => None,
        }
    }

    fn media(&self) -> &dyn Media {
        match &self.kind {
            Kind::File(file) => file,
            Kind::Export(export) => export,
            Kind::Sequence(sequence) => &**sequence,
            #[cfg(feature = "sealed")]
            Kind::Sealed(device) => device.header(),
        }
    }
}

impl From<FileDevice> for Device {
    fn from(file: FileDevice) -> Self {
        Self { path: file.path().into(), kind: Kind::File(file) }
    }
}

/// Everything is asked of what it is, also what has a default.
impl BlockDevice for Device {
    fn size(&self) -> u64 {
        self.media().size()
    }

    fn geometry(&self) -> Geometry {
        self.media().geometry()
    }

    fn is_read_only(&self) -> bool {
        self.media().is_read_only()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.media().read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.media().write_at(offset, data)
    }

    fn lend(&self, offset: u64, len: usize, take: &mut dyn FnMut(&[u8])) -> bool {
        self.media().lend(offset, len, take)
    }

    fn write_consuming(&self, offset: u64, data: &mut [u8]) -> Result<(), DeviceError> {
        self.media().write_consuming(offset, data)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.media().flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.media().discard(offset, len)
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.media().write_zeroes(offset, len)
    }

    fn extent(&self, offset: u64, len: u64) -> Result<Extent, DeviceError> {
        self.media().extent(offset, len)
    }

    fn read_if_cached(&self, offset: u64, buf: &mut [u8]) -> Result<bool, DeviceError> {
        self.media().read_if_cached(offset, buf)
    }

    fn prefetch(&self, offset: u64, len: u64) {
        self.media().prefetch(offset, len);
    }
}

impl Media for Device {
    fn storage(&self) -> Option<Storage> {
        self.media().storage()
    }

    fn read_media_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.media().read_media_at(offset, buf)
    }

    fn lock_metadata(&self, mode: LockMode) -> Result<(), DeviceError> {
        self.media().lock_metadata(mode)
    }

    fn unlock_metadata(&self) {
        self.media().unlock_metadata();
    }
}

/// Whether `path` is the URI of an NBD export, or the URL of a store of objects, and no path.
pub fn is_url(path: &Path) -> bool {
    Uri::is_meant(path) || store_scheme(path).is_some()
}

/// Why a file, a block device or an export can't be opened.
#[non_exhaustive]
#[derive(Debug)]
pub enum DeviceOpenError {
    /// A file or block device.
    Device(DeviceError),
    /// An export.
    Nbd(ConnectError),
    /// A store of sealed objects.
    #[cfg(feature = "sealed")]
    Sealed(SealedError),
    /// A URI has letters that are not encoded.
    UriEncoding,
    /// What is to be done needs a file or block device of this machine, and it is an export of a server.
    NotHere,
}

impl DeviceOpenError {
    /// Whether another process uses it.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Device(error) if error.cause == Cause::Busy)
    }
}

impl From<DeviceError> for DeviceOpenError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

#[cfg(feature = "sealed")]
impl From<SealedError> for DeviceOpenError {
    fn from(error: SealedError) -> Self {
        Self::Sealed(error)
    }
}

impl From<ConnectError> for DeviceOpenError {
    fn from(error: ConnectError) -> Self {
        Self::Nbd(error)
    }
}

impl fmt::Display for DeviceOpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => error.fmt(f),
            Self::Nbd(error) => error.fmt(f),
            #[cfg(feature = "sealed")]
            Self::Sealed(error) => error.fmt(f),
            Self::UriEncoding => f.write_str("the URI has letters that are not UTF-8"),
            Self::NotHere => f.write_str(
                "this needs a file or block device of this machine, and it is an NBD export, a store of objects or a stream",
            ),
        }
    }
}

impl core::error::Error for DeviceOpenError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Device(error) => Some(error),
            Self::Nbd(error) => Some(error),
            #[cfg(feature = "sealed")]
            Self::Sealed(error) => Some(error),
            Self::UriEncoding | Self::NotHere => None,
        }
    }
}
