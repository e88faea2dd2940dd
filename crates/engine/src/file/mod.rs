//! A regular file or a block device as a [`BlockDevice`].
//!
//! Two locks guard it, and they do not touch each other. The *metadata lock* ([`lock`]) is cryptsetup's own: held
//! for moments, waited for. The *use lock* is held for as long as the device is open ([`Access`]), and waited for no
//! longer than a copy of a closed descriptor may live ([`patiently`]): a second writer gets [`Cause::Busy`]. It is an `F_OFD_SETLK` lock on the whole file, so `cryptsetup
//! luksDump` and `atrest key add` work on a volume that is being served; on block devices `O_EXCL` is added, which
//! a mounted filesystem, dm-crypt or any other exclusive user refuses. Both reach through loop devices ([`below`]): a
//! volume in a file has one writer, by whatever name it is opened.

mod below;
mod cached;
mod lock;
mod loops;
mod media;
mod new;
mod reencryption_lock;
mod storage;
mod sysfs;
#[cfg(test)]
mod tests;
mod whole;

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use atrest_device::{
    BlockDevice, Cause, DeviceError, Durability, Extent, Geometry, LockMode, Media, Operation, Storage,
};
use rustix::fs::{Advice, FallocateFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::mapping::Mapping;
use crate::patience::patiently;
use crate::sys;
use cached::WithoutCache;
use lock::MetadataLock;
pub use loops::loop_devices_on;
pub use new::NewFile;
pub use reencryption_lock::ReencryptionLock;
pub use storage::is_same;
pub use sysfs::{PartitionPlace, partition_place};
use whole::Wholeness;

/// Zeros are written from a block of at most this many bytes. It is made where it is needed: a constant one would lie in the program.
const ZEROS_LEN: usize = 64 << 10;

/// How a device is opened, and what that keeps others from doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading a device that others may be writing: looking at a header.
    ReadOnly,
    /// Reading for as long as the device is open, while nobody holds [`Access::ReadWriteExclusive`].
    ReadOnlyShared,
    /// Writing metadata under the metadata lock, while the data may be in use elsewhere.
    ReadWrite,
    /// Writing data: nobody else holds [`Access::ReadOnlyShared`] or [`Access::ReadWriteExclusive`], and a block
    /// device is neither mounted nor claimed by the kernel.
    ReadWriteExclusive,
}

impl Access {
    fn writes(self) -> bool {
        matches!(self, Access::ReadWrite | Access::ReadWriteExclusive)
    }

    fn use_lock(self) -> Option<LockMode> {
        match self {
            Access::ReadOnly | Access::ReadWrite => None,
            Access::ReadOnlyShared => Some(LockMode::Shared),
            Access::ReadWriteExclusive => Some(LockMode::Exclusive),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Regular,
    Block,
}

/// A regular file or a block device. Its size is what it was when it was opened, until [`grow`](FileDevice::grow) looks again.
#[derive(Debug)]
pub struct FileDevice {
    file: File,
    path: PathBuf,
    kind: Kind,
    size: AtomicU64,
    geometry: Geometry,
    access: Access,
    /// Files and devices below a block device, open for their use locks.
    _below: Vec<File>,
    /// Remembers a failed flush: the kernel reports a lost write once, then forgets it.
    durability: Durability,
    metadata_lock: MetadataLock,
    without_cache: WithoutCache,
    wholeness: Wholeness,
    /// Long reads are lent from it.
    mapping: Option<Mapping>,
}

/// The descriptor, and with it the use lock: whoever has the kernel keep a copy of it keeps the lock.
impl AsFd for FileDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl FileDevice {
    /// Opens an existing regular file or block device.
    ///
    /// # Errors
    /// [`DeviceError`] if nothing is there, it is something else, or `access` is not permitted.
    /// [`Cause::Busy`] if somebody else uses it in a way that `access` excludes, after some time of waiting
    /// for those that are just closing it.
    pub fn open(path: impl AsRef<Path>, access: Access) -> Result<Self, DeviceError> {
        let path = path.as_ref();
        patiently(|error: &DeviceError| error.cause == Cause::Busy, || Self::open_at_once(path, access))
    }

    fn open_at_once(path: &Path, access: Access) -> Result<Self, DeviceError> {
        // Looked at before it is opened: opening a FIFO would wait for its other end.
        let kind = kind(&std::fs::metadata(path).map_err(open_error)?)?;
        let mut options = OpenOptions::new();
        options.read(true).write(access.writes());
        if kind == Kind::Block && access == Access::ReadWriteExclusive {
            options.custom_flags(libc::O_EXCL);
        }
        let file = options.open(path).map_err(open_error)?;
        Self::from_open_file(file, path, access)
    }

    /// Creates a regular file of `size` zero bytes that only its owner can read.
    ///
    /// # Errors
    /// [`DeviceError`] if the path exists, its directory can't be written, or the file system refuses the
    /// size. No file stays then.
    pub fn create(path: impl AsRef<Path>, size: u64) -> Result<Self, DeviceError> {
        let path = path.as_ref();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(open_error)?;
        file.set_len(size).map_err(|error| {
            // A size that the filesystem refuses leaves no file behind; it was made just now.
            let _ = std::fs::remove_file(path);
            open_error(error)
        })?;
        let device = Self::from_open_file(file, path, Access::ReadWriteExclusive)?;
        new::sync_directory(path).map_err(open_error)?;
        Ok(device)
    }

    /// Has the filesystem keep room for all of a regular file, so that no write to it fails for want of room. One that keeps no room says so
    /// when it is written.
    ///
    /// # Errors
    /// [`Cause::Os`] with `ENOSPC` if there is not so much room.
    pub fn reserve(&self) -> Result<(), DeviceError> {
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, self.size()) {
            Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
            Err(errno) => Err(open_error(errno.into())),
        }
    }

    /// Replaces the contents of a regular file by `size` zero bytes and takes it from everyone but its owner; for
    /// callers who asked first. Nothing is changed while somebody else uses the file.
    ///
    /// # Errors
    /// Fails where [`open`](Self::open) or [`replace_contents`](Self::replace_contents) does.
    pub fn overwrite(path: impl AsRef<Path>, size: u64) -> Result<Self, DeviceError> {
        let mut device = Self::open(path, Access::ReadWriteExclusive)?;
        device.replace_contents(size)?;
        Ok(device)
    }

    /// Replaces the contents of a regular file that is open for writing by `size` zero bytes, and takes it from everyone but
    /// its owner. [`overwrite`](Self::overwrite) opens the file, too.
    ///
    /// # Errors
    /// [`Cause::Unsupported`] for a block device. Another [`DeviceError`] if the file is somebody else's or
    /// the file system refuses the size: its contents may be gone then.
    pub fn replace_contents(&mut self, size: u64) -> Result<(), DeviceError> {
        if self.kind != Kind::Regular {
            return Err(DeviceError::new(Operation::Open, 0, 0, Cause::Unsupported));
        }
        self.file.set_permissions(Permissions::from_mode(0o600)).map_err(open_error)?;
        self.mapping = None;
        self.file.set_len(0).map_err(open_error)?;
        self.file.set_len(size).map_err(open_error)?;
        self.size = AtomicU64::new(size);
        Ok(())
    }

    fn from_open_file(file: File, path: &Path, access: Access) -> Result<Self, DeviceError> {
        let metadata = file.metadata().map_err(open_error)?;
        let kind = kind(&metadata)?;
        if let Some(mode) = access.use_lock() {
            sys::lock_description(&file, mode).map_err(open_error)?;
        }
        let (size, geometry) = match kind {
            Kind::Regular => (metadata.len(), Geometry::default()),
            Kind::Block => (
                sys::block_device_size(&file).map_err(open_error)?,
                block_geometry(&file).map_err(open_error)?,
            ),
        };
        let below = match (kind, access.use_lock()) {
            (Kind::Block, Some(mode)) => {
                below::lock(&file, metadata.rdev(), size, mode).map_err(open_failure)?
            }
            (Kind::Regular, Some(LockMode::Exclusive)) => {
                if below::is_claimed(loops::identity(&metadata)).map_err(open_failure)? {
                    return Err(open_failure(Cause::Busy));
                }
                Vec::new()
            }
            _ => Vec::new(),
        };
        let metadata_lock = match kind {
            Kind::Regular => MetadataLock::on_file(loops::identity(&metadata)),
            Kind::Block => MetadataLock::on_block_device(metadata.rdev()),
        };
        Ok(Self {
            file,
            path: path.to_path_buf(),
            kind,
            size: AtomicU64::new(size),
            geometry,
            access,
            _below: below,
            durability: Durability::new(),
            metadata_lock,
            without_cache: WithoutCache::new(),
            wholeness: Wholeness::new(),
            mapping: None,
        })
    }

    /// Looks whether it has grown since it was opened, and returns its size in bytes. One that shrank keeps the size that it had: reads of
    /// what is gone fail.
    ///
    /// # Errors
    /// [`Cause::Unsupported`] if it stands on others whose bytes are locked, as a loop device does on its file: the lock would not reach
    /// to the new end. Otherwise the system's error if it does not tell.
    pub fn grow(&self) -> Result<u64, DeviceError> {
        let size = match self.kind {
            Kind::Regular => self.file.metadata().map_err(open_error)?.len(),
            Kind::Block => sys::block_device_size(&self.file).map_err(open_error)?,
        };
        if size > self.size() {
            if !self._below.is_empty() {
                return Err(DeviceError::new(Operation::Open, 0, 0, Cause::Unsupported));
            }
            self.size.store(size, Ordering::Release);
        }
        Ok(self.size())
    }

    /// Maps it into memory: long reads of a volume are decrypted from there, without a copy of the ciphertext. The system counts
    /// the pages that were read as this process's, though they are its cache's. Where a read meets what was cut off, or
    /// fails on the media, the mapping is given up and system calls say what is wrong.
    ///
    /// # Errors
    /// [`Cause::Os`]: there is no room in the address space, the file is of a kind that can't be mapped, or too many are.
    pub fn map(&mut self) -> Result<(), DeviceError> {
        // An empty one has nothing to map.
        if self.size() > 0 {
            self.mapping = Some(Mapping::new(&self.file, self.size()).map_err(open_error)?);
        }
        Ok(())
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How it was opened.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Whether it is a block device rather than a regular file.
    pub fn is_block_device(&self) -> bool {
        self.kind == Kind::Block
    }

    /// The number of a block device.
    pub fn device_number(&self) -> Option<u64> {
        match self.kind {
            Kind::Block => self.file.metadata().ok().map(|metadata| metadata.rdev()),
            Kind::Regular => None,
        }
    }

    /// Whether anything may be stored on it: a block device always counts as full, a regular file does unless it is
    /// empty or one hole.
    pub fn holds_data(&self) -> bool {
        let size = self.size();
        if self.is_block_device() {
            return true;
        }
        size > 0 && !matches!(self.extent(0, size), Ok(extent) if extent.hole && extent.len == size)
    }

    /// Tells the kernel that it will be read here and there, so that nothing around what is asked for is read along.
    pub fn expect_random_reads(&self) {
        // It is advice.
        let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::Random);
    }

    /// Takes that back.
    pub fn expect_usual_reads(&self) {
        // It is advice.
        let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::Normal);
    }

    /// When a regular file was last written.
    pub fn modified(&self) -> Option<SystemTime> {
        match self.kind {
            Kind::Regular => self.file.metadata().and_then(|metadata| metadata.modified()).ok(),
            Kind::Block => None,
        }
    }

    fn check_writable(&self, operation: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        if !self.access.writes() {
            return Err(DeviceError::new(operation, offset, len, Cause::ReadOnly));
        }
        self.durability.check(operation, offset, len)?;
        self.check_range(operation, offset, len)
    }

    /// Makes writes durable by `sync`.
    fn flush_by(&self, sync: impl FnOnce(&File) -> io::Result<()>) -> Result<(), DeviceError> {
        self.durability.flush(|| match self.access.writes() {
            true => {
                sync(&self.file).map_err(|error| DeviceError::new(Operation::Flush, 0, 0, sys::cause(&error)))
            }
            false => Ok(()),
        })
    }
}

impl BlockDevice for FileDevice {
    fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn is_read_only(&self) -> bool {
        !self.access.writes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.check_range(Operation::Read, offset, buf.len() as u64)?;
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let (at, len) = (offset + done as u64, rest.len() as u64);
            let fail = |cause| DeviceError::new(Operation::Read, at, len, cause);
            match self.file.read_at(rest, at) {
                Ok(0) => return Err(fail(Cause::UnexpectedEnd)),
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(fail(sys::cause(&error))),
            }
        }
        Ok(())
    }

    fn read_if_cached(&self, offset: u64, buf: &mut [u8]) -> Result<bool, DeviceError> {
        self.check_range(Operation::Read, offset, buf.len() as u64)?;
        let in_memory = match self.without_cache.known() {
            Some(in_memory) => in_memory,
            None => match preadv2(&self.file, &mut [IoSliceMut::new(buf)], offset, ReadWriteFlags::NOWAIT) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.without_cache.ask(&self.file),
                // If only a part is in the cache, if the file has become short, or if the media fails, then whoever
                // may wait finds out.
                read => return Ok(read == Ok(buf.len())),
            },
        };
        if in_memory.0 { self.read_at(offset, buf).map(|()| true) } else { Ok(false) }
    }

    fn lend(&self, offset: u64, len: usize, take: &mut dyn FnMut(&[u8])) -> bool {
        self.mapping.as_ref().is_some_and(|mapping| mapping.read(offset, len, take))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.check_writable(Operation::Write, offset, data.len() as u64)?;
        self.check_whole(offset, data.len() as u64)?;
        let mut done = 0;
        while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
            let at = offset + done as u64;
            let fail = |cause| DeviceError::new(Operation::Write, at, rest.len() as u64, cause);
            match self.file.write_at(rest, at) {
                Ok(0) => return Err(fail(Cause::UnexpectedEnd)),
                Ok(written) => done += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(fail(sys::cause(&error))),
            }
        }
        // A flush that failed meanwhile may have been about these bytes.
        self.durability.check(Operation::Write, offset, data.len() as u64)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.flush_by(File::sync_data)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.check_writable(Operation::Discard, offset, len)?;
        // Only whole blocks can be given back; the rest of the range stays as it is, which "undefined" allows.
        let block = u64::from(self.geometry.logical_block);
        let start = offset.next_multiple_of(block);
        let end = (offset + len) / block * block;
        if start >= end {
            return Ok(());
        }
        match self.kind {
            Kind::Regular => {
                let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(&self.file, punch, start, end - start).map_err(io::Error::from)
            }
            Kind::Block => sys::block_device_discard(&self.file, start, end - start),
        }
        .map_err(|error| DeviceError::new(Operation::Discard, offset, len, sys::cause(&error)))
    }

    /// Zeros are written, not `fallocate`d: what is wiped this way must be gone from the media, while an extent that
    /// the filesystem merely marks as unwritten keeps its old bytes there.
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.check_writable(Operation::Write, offset, len)?;
        let zeros = vec![0; len.min(ZEROS_LEN as u64) as usize];
        let mut done = 0;
        while done < len {
            let step = (len - done).min(ZEROS_LEN as u64);
            self.write_at(offset + done, &zeros[..step as usize])?;
            done += step;
        }
        Ok(())
    }

    fn extent(&self, offset: u64, len: u64) -> Result<Extent, DeviceError> {
        self.check_range(Operation::Read, offset, len)?;
        if self.kind == Kind::Block || len == 0 {
            return Ok(Extent { len, hole: false });
        }
        // Reads and writes never use the descriptor's position, so moving it disturbs nobody.
        let data = match rustix::fs::seek(&self.file, SeekFrom::Data(offset)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(Extent { len, hole: true }),
            Err(_) => return Ok(Extent { len, hole: false }),
        };
        if data > offset {
            return Ok(Extent { len: len.min(data - offset), hole: true });
        }
        let hole = rustix::fs::seek(&self.file, SeekFrom::Hole(offset)).unwrap_or(offset + len);
        // A file that changes meanwhile may answer "here" to both questions; an extent is never empty.
        let stored = if hole > offset { hole - offset } else { len };
        Ok(Extent { len: len.min(stored), hole: false })
    }

    fn prefetch(&self, offset: u64, len: u64) {
        // intended: nothing is read ahead behind the end.
        if let Some(len) = std::num::NonZeroU64::new(len.min(self.size().saturating_sub(offset))) {
            // Advice: a file system that ignores it costs time, not data.
            let _ = rustix::fs::fadvise(&self.file, offset, Some(len), Advice::WillNeed);
        }
    }
}

impl Media for FileDevice {
    fn storage(&self) -> Option<Storage> {
        storage::of(&self.file)
    }

    fn read_media_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.check_range(Operation::Read, offset, buf.len() as u64)?;
        self.flush()?;
        media::read(&self.file, self.size(), offset, buf)
            .map_err(|(at, cause)| DeviceError::new(Operation::Read, at, buf.len() as u64, cause))
    }

    fn lock_metadata(&self, mode: LockMode) -> Result<(), DeviceError> {
        self.metadata_lock
            .acquire(mode, &self.file, self.access.writes())
            .map_err(|cause| DeviceError::new(Operation::Lock, 0, 0, cause))
    }

    fn unlock_metadata(&self) {
        self.metadata_lock.release();
    }
}

impl FileDevice {
    /// Writing behind the end would make a file that shrank long again, and what it lost would read as zeros. The
    /// length is asked for once in a while: nobody can keep another program from cutting the file off between
    /// question and write, however close they are.
    fn check_whole(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        if self.kind == Kind::Block || self.wholeness.was_seen() {
            return Ok(());
        }
        let fail = |at: u64, cause| Err(DeviceError::new(Operation::Write, at, offset + len - at, cause));
        match self.file.metadata() {
            Ok(now) if !now.is_file() || now.len() >= self.size() => {
                self.wholeness.saw();
                Ok(())
            }
            Ok(now) if now.len() >= offset + len => Ok(()),
            Ok(now) => fail(now.len().max(offset), Cause::UnexpectedEnd),
            Err(error) => fail(offset, sys::cause(&error)),
        }
    }
}

fn kind(metadata: &Metadata) -> Result<Kind, DeviceError> {
    let file_type = metadata.file_type();
    if file_type.is_file() {
        Ok(Kind::Regular)
    } else if file_type.is_block_device() {
        Ok(Kind::Block)
    } else if file_type.is_dir() {
        Err(DeviceError::new(Operation::Open, 0, 0, Cause::Os(libc::EISDIR)))
    } else {
        Err(DeviceError::new(Operation::Open, 0, 0, Cause::Unsupported))
    }
}

fn block_geometry(device: &File) -> io::Result<Geometry> {
    let logical_block = rustix::fs::ioctl_blksszget(device)?;
    let physical_block = rustix::fs::ioctl_blkpbszget(device)?.max(logical_block);
    let default = Geometry::default().optimal_alignment;
    // Some USB bridges report nonsense such as 33553920 bytes, which is no power of two.
    let optimal_alignment = match sys::block_device_optimal_io(device) {
        Ok(size) if size.is_power_of_two() && size >= physical_block => size.max(default),
        _ => default,
    };
    // intended: a device that names none begins with a whole block.
    let alignment_offset = sys::block_device_alignment_offset(device).unwrap_or(0);
    Ok(Geometry { logical_block, physical_block, optimal_alignment, alignment_offset })
}

/// The directory that a path's last component lies in.
fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn open_error(error: io::Error) -> DeviceError {
    open_failure(sys::cause(&error))
}

fn open_failure(cause: Cause) -> DeviceError {
    DeviceError::new(Operation::Open, 0, 0, cause)
}
