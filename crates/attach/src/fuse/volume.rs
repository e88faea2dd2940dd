//! A volume as one file in a directory, as the kernel asks for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use atrest_device::{BlockDevice, Cause, DeviceError};
use atrest_filetree::posix::{Change, PosixSpace};
use atrest_filetree::{Kind, Timestamp};
use rustix::io::Errno;

use super::FILE_NAME;
use super::filesystem::{Answer, Caller, Filesystem, NewBytes, OpenHandle};
use super::protocol::abi::{ROOT, init_flag, open_flag};
use super::protocol::{FileAttributes, Listing};
use super::truncated::Writers;

/// The node of the file.
pub(super) const VOLUME: u64 = 2;

/// How long the kernel may believe attributes.
const LIFETIME: Duration = Duration::from_secs(1);
/// Bytes in a block, as the volume's size is told.
const BLOCK: u32 = 4096;
const NAME_LEN: u32 = 255;

pub(super) struct VolumeDirectory {
    device: Arc<dyn BlockDevice>,
    /// Whether the kernel's page cache lies between the file's users and the volume.
    cached: bool,
    uid: u32,
    gid: u32,
    since: Timestamp,
    /// Time of the last write in nanoseconds since 1970.
    modified: AtomicU64,
    /// Writes that have been done.
    writes: AtomicU64,
    /// How many of them are known to be flushed.
    flushed: AtomicU64,
    writers: Writers,
}

impl VolumeDirectory {
    pub fn new(device: Arc<dyn BlockDevice>, cached: bool) -> Self {
        let since = nanoseconds(SystemTime::now());
        Self {
            device,
            cached,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            since: timestamp(since),
            modified: AtomicU64::new(since),
            writes: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            writers: Writers::default(),
        }
    }

    fn attributes_of(&self, node: u64) -> Answer<FileAttributes> {
        let (kind, permissions, size, links) = match (node, self.device.is_read_only()) {
            (ROOT, true) => (Kind::Directory, 0o500, 0, 2),
            (ROOT, false) => (Kind::Directory, 0o700, 0, 2),
            (VOLUME, true) => (Kind::File, 0o400, self.device.size(), 1),
            (VOLUME, false) => (Kind::File, 0o600, self.device.size(), 1),
            _ => return Err(Errno::NOENT),
        };
        let modified = timestamp(self.modified.load(Ordering::Relaxed));
        Ok(FileAttributes {
            node,
            kind,
            permissions,
            links,
            uid: self.uid,
            gid: self.gid,
            device: 0,
            size,
            blocks: size.div_ceil(512),
            accessed: self.since,
            modified,
            changed: modified,
        })
    }

    /// How many of `len` bytes from `offset` on lie in the volume.
    fn inside(&self, offset: u64, len: usize) -> usize {
        // intended: nothing is there behind the end.
        let left = self.device.size().saturating_sub(offset);
        left.min(len as u64) as usize
    }

    fn flush_device(&self) -> Result<(), DeviceError> {
        let writes = self.writes.load(Ordering::SeqCst);
        self.device.flush()?;
        self.flushed.fetch_max(writes, Ordering::SeqCst);
        Ok(())
    }

    /// Fills what the program behind a truncated file takes for zero.
    fn fill(&self, handle: u64) -> Result<(), DeviceError> {
        self.writers.fill(handle, |start, end| {
            let outcome = self.device.write_zeroes(start, end - start);
            self.written();
            outcome
        })
    }

    fn written(&self) {
        self.writes.fetch_add(1, Ordering::SeqCst);
        self.modified.store(nanoseconds(SystemTime::now()), Ordering::Relaxed);
    }
}

impl Filesystem for VolumeDirectory {
    fn wishes(&self) -> u64 {
        init_flag::ASYNC_DIO | init_flag::DIRECT_IO_ALLOW_MMAP
    }

    fn lifetime(&self) -> Duration {
        LIFETIME
    }

    fn lookup(&self, parent: u64, name: &[u8]) -> Answer<FileAttributes> {
        if parent == ROOT && name == FILE_NAME.as_bytes() {
            self.attributes_of(VOLUME)
        } else {
            Err(Errno::NOENT)
        }
    }

    fn attributes(&self, node: u64) -> Answer<FileAttributes> {
        self.attributes_of(node)
    }

    /// Times may be set and are not kept; a size may be set if it is the present one; everything else is fixed. `O_TRUNC`
    /// leaves the size as it is (see [`Writers`]), and so does setting another size after it.
    fn set_attributes(
        &self,
        caller: Caller,
        node: u64,
        handle: Option<u64>,
        new: &Change,
    ) -> Answer<FileAttributes> {
        let attributes = self.attributes_of(node)?;
        let unchanged = new.mode.is_none_or(|mode| mode & 0o7777 == attributes.permissions)
            && new.uid.is_none_or(|uid| uid == attributes.uid)
            && new.gid.is_none_or(|gid| gid == attributes.gid)
            && new.size.is_none_or(|size| {
                size == attributes.size
                    || match handle {
                        // What comes from O_TRUNC names no file.
                        None => size == 0 && self.writers.truncate(caller.pid),
                        Some(handle) => size < attributes.size && self.writers.extend(handle, size),
                    }
            });
        if unchanged { Ok(attributes) } else { Err(Errno::PERM) }
    }

    fn open(&self, caller: Caller, node: u64, flags: u32) -> Answer<OpenHandle> {
        let writes = flags.cast_signed() & libc::O_ACCMODE != libc::O_RDONLY;
        if node != VOLUME {
            return Err(Errno::ISDIR);
        }
        if writes && self.device.is_read_only() {
            return Err(Errno::ROFS);
        }
        let flags = if self.cached {
            open_flag::KEEP_CACHE
        } else {
            open_flag::DIRECT_IO | open_flag::PARALLEL_DIRECT_WRITES
        };
        let number = if writes { self.writers.open(caller.pid) } else { 0 };
        Ok(OpenHandle { number, flags })
    }

    fn release(&self, handle: u64) {
        self.writers.close(handle);
    }

    fn read(&self, _node: u64, _handle: u64, offset: u64, room: &mut [u8]) -> Answer<usize> {
        let len = self.inside(offset, room.len());
        let Some(room) = room.get_mut(..len).filter(|room| !room.is_empty()) else { return Ok(0) };
        self.device.read_at(offset, room).map_err(|error| errno_of(&error))?;
        Ok(len)
    }

    fn write(&self, _node: u64, handle: u64, bytes: NewBytes<'_>) -> Answer<usize> {
        let NewBytes { offset, data, durably, .. } = bytes;
        let len = self.inside(offset, data.len());
        if len == 0 && !data.is_empty() {
            return Err(Errno::NOSPC);
        }
        let data = data.get_mut(..len).ok_or(Errno::IO)?;
        self.writers.will_write(handle, offset, offset + len as u64);
        let written = self.device.write_consuming(offset, data);
        self.written();
        let outcome = written.and_then(|()| if durably { self.flush_device() } else { Ok(()) });
        outcome.map_err(|error| errno_of(&error))?;
        Ok(len)
    }

    /// On every `close`: an error of the volume's flush is the last that the caller can be told. So while a flush is
    /// under way for another caller, this one does not take the volume for clean but flushes as well.
    fn flush(&self, _node: u64, handle: u64) -> Answer<()> {
        self.fill(handle).map_err(|error| errno_of(&error))?;
        if self.writes.load(Ordering::SeqCst) == self.flushed.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.flush_device().map_err(|error| errno_of(&error))
    }

    fn sync(&self, _node: u64, handle: u64, _data_only: bool) -> Answer<()> {
        self.fill(handle).and_then(|()| self.flush_device()).map_err(|error| errno_of(&error))
    }

    fn sync_directory(&self, _node: u64, _handle: u64, _data_only: bool) -> Answer<()> {
        Ok(())
    }

    fn allocate(&self, _caller: Caller, _node: u64, handle: u64, range: (u64, u64), mode: u32) -> Answer<()> {
        let (offset, len) = range;
        let end = offset.checked_add(len).filter(|&end| end <= self.device.size()).ok_or(Errno::NOSPC)?;
        match mode.cast_signed() & !libc::FALLOC_FL_KEEP_SIZE {
            // The volume's own space is what it is.
            0 => Ok(()),
            libc::FALLOC_FL_ZERO_RANGE => {
                self.writers.will_write(handle, offset, end);
                let outcome = self.device.write_zeroes(offset, len);
                self.written();
                outcome.map_err(|error| errno_of(&error))
            }
            _ => Err(Errno::OPNOTSUPP),
        }
    }
    fn seek(&self, _node: u64, offset: u64, whence: u32) -> Answer<u64> {
        let wants_hole = match whence.cast_signed() {
            libc::SEEK_HOLE => true,
            libc::SEEK_DATA => false,
            _ => return Err(Errno::INVAL),
        };
        let size = self.device.size();
        let mut at = offset;
        if at >= size {
            return Err(Errno::NXIO);
        }
        while at < size {
            let extent = self.device.extent(at, size - at).map_err(|error| errno_of(&error))?;
            if extent.hole == wants_hole {
                break;
            }
            at += extent.len.max(1);
        }
        // The end of the file counts as a hole.
        if at >= size && !wants_hole { Err(Errno::NXIO) } else { Ok(at.min(size)) }
    }
    fn list(&self, node: u64, _handle: u64, offset: u64, listing: &mut Listing<'_>) -> Answer<()> {
        if node != ROOT {
            return Err(Errno::NOTDIR);
        }
        let entries = [(ROOT, "."), (ROOT, ".."), (VOLUME, FILE_NAME)];
        for (next, (node, name)) in (1..).zip(entries) {
            let kind = if node == ROOT { Kind::Directory } else { Kind::File };
            if next > offset && !listing.add(node, next, Some(kind), name.as_bytes()) {
                break;
            }
        }
        Ok(())
    }

    fn space(&self) -> Answer<PosixSpace> {
        let blocks = self.device.size().div_ceil(BLOCK.into());
        Ok(PosixSpace { block_size: BLOCK, blocks, nodes: 1, name_len: NAME_LEN, ..PosixSpace::default() })
    }
}

fn errno_of(error: &DeviceError) -> Errno {
    match error.cause {
        Cause::Os(number) => Errno::from_raw_os_error(number),
        Cause::NoSpace => Errno::NOSPC,
        Cause::ReadOnly | Cause::Protected => Errno::ROFS,
        Cause::Unsupported => Errno::OPNOTSUPP,
        Cause::Misaligned { .. } | Cause::OutOfBounds { .. } => Errno::INVAL,
        _ => Errno::IO,
    }
}

/// Since 1970.
fn nanoseconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

fn timestamp(nanoseconds: u64) -> Timestamp {
    let since = Duration::from_nanos(nanoseconds);
    Timestamp { seconds: since.as_secs().cast_signed(), nanoseconds: since.subsec_nanos() }
}
