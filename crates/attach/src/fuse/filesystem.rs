//! What the kernel may ask about the directory and the file in it (Linux's fuse(4) protocol by the `fuser` crate).

use super::FILE_NAME;
use super::truncated::Writers;
use atrest_device::{BlockDevice, Cause, DeviceError};
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const ROOT: INodeNo = INodeNo::ROOT;
const VOLUME: INodeNo = INodeNo(2);

/// How long the kernel may believe attributes.
const TTL: Duration = Duration::from_secs(1);
/// Largest read or write in one request, in bytes.
const MAX_TRANSFER: u32 = 1 << 20;
/// Requests that the kernel may have under way without a caller that waits.
const MAX_BACKGROUND: u16 = 64;

pub(super) struct VolumeDirectory {
    device: Arc<dyn BlockDevice>,
    /// Whether the kernel's page cache lies between the file's users and the volume.
    cached: bool,
    uid: u32,
    gid: u32,
    since: SystemTime,
    /// Time of the last write in nanoseconds since 1970.
    modified: AtomicU64,
    /// Writes that have been done.
    writes: AtomicU64,
    /// How many of them are known to be flushed.
    flushed: AtomicU64,
    writers: Writers,
}

thread_local! {
    /// Each of the session's threads reads into its own buffer, of [`MAX_TRANSFER`] bytes at most.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl VolumeDirectory {
    pub fn new(device: Arc<dyn BlockDevice>, cached: bool) -> Self {
        let since = SystemTime::now();
        Self {
            device,
            cached,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            since,
            modified: AtomicU64::new(nanoseconds(since)),
            writes: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            writers: Writers::default(),
        }
    }

    fn attributes(&self, ino: INodeNo) -> Option<FileAttr> {
        let read_only = self.device.is_read_only();
        let (kind, perm, size, nlink) = match ino {
            ROOT => (FileType::Directory, if read_only { 0o500 } else { 0o700 }, 0, 2),
            VOLUME => {
                let perm = if read_only { 0o400 } else { 0o600 };
                (FileType::RegularFile, perm, self.device.size(), 1)
            }
            _ => return None,
        };
        let modified = UNIX_EPOCH + Duration::from_nanos(self.modified.load(Ordering::Relaxed));
        Some(FileAttr {
            ino,
            size,
            blocks: size.div_ceil(512),
            atime: self.since,
            mtime: modified,
            ctime: modified,
            crtime: self.since,
            kind,
            perm,
            nlink,
            uid: self.uid,
            gid: self.gid,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn flush_device(&self) -> Result<(), DeviceError> {
        let writes = self.writes.load(Ordering::SeqCst);
        self.device.flush()?;
        self.flushed.fetch_max(writes, Ordering::SeqCst);
        Ok(())
    }

    /// Fills what the program behind a truncated file takes for zero.
    fn fill(&self, fh: FileHandle) -> Result<(), DeviceError> {
        self.writers.fill(fh.0, |start, end| {
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
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Kernels that know less than this still serve, with smaller requests or without shared mappings.
        let _ = config.set_max_write(MAX_TRANSFER);
        if let Err(most) = config.set_max_readahead(MAX_TRANSFER) {
            let _ = config.set_max_readahead(most);
        }
        let _ = config.set_max_background(MAX_BACKGROUND);
        for capability in [InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP] {
            let _ = config.add_capabilities(capability);
        }
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(VOLUME) {
            Some(attributes) if parent == ROOT && name == FILE_NAME => {
                reply.entry(&TTL, &attributes, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(ino) {
            Some(attributes) => reply.attr(&TTL, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// Times may be set and are not kept; a size may be set if it is the present one; everything else is fixed. `O_TRUNC`
    /// leaves the size as it is (see [`Writers`]), and so does setting another size after it.
    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let Some(attributes) = self.attributes(ino) else { return reply.error(Errno::ENOENT) };
        let unchanged = mode.is_none_or(|mode| mode & 0o7777 == u32::from(attributes.perm))
            && uid.is_none_or(|uid| uid == attributes.uid)
            && gid.is_none_or(|gid| gid == attributes.gid)
            && size.is_none_or(|size| {
                size == attributes.size
                    || match fh {
                        // What comes from O_TRUNC names no file.
                        None => size == 0 && self.writers.truncate(request.pid()),
                        Some(fh) => size < attributes.size && self.writers.extend(fh.0, size),
                    }
            });
        if unchanged { reply.attr(&TTL, &attributes) } else { reply.error(Errno::EPERM) }
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let writes = flags.0 & libc::O_ACCMODE != libc::O_RDONLY;
        let handle = || FileHandle(if writes { self.writers.open(request.pid()) } else { 0 });
        if ino != VOLUME {
            reply.error(Errno::EISDIR);
        } else if writes && self.device.is_read_only() {
            reply.error(Errno::EROFS);
        } else if self.cached {
            reply.opened(handle(), FopenFlags::FOPEN_KEEP_CACHE);
        } else {
            let direct = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
            reply.opened(handle(), direct);
        }
    }

    fn release(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.writers.close(fh.0);
        reply.ok();
    }

    fn read(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        // intended: nothing is there behind the end.
        let left = self.device.size().saturating_sub(offset);
        let len = left.min(u64::from(size)) as usize;
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < len {
                buffer.resize(len, 0);
            }
            match self.device.read_at(offset, &mut buffer[..len]) {
                Ok(()) => reply.data(&buffer[..len]),
                Err(error) if len > 0 => reply.error(errno_of(&error)),
                Err(_) => reply.data(&[]),
            }
        });
    }

    fn write(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // intended: nothing is there behind the end.
        let left = self.device.size().saturating_sub(offset);
        let len = left.min(data.len() as u64) as usize;
        if len == 0 && !data.is_empty() {
            return reply.error(Errno::ENOSPC);
        }
        self.writers.will_write(fh.0, offset, offset + len as u64);
        let mut outcome = self.device.write_at(offset, &data[..len]);
        self.written();
        if flags.0 & libc::O_DSYNC != 0 {
            outcome = outcome.and_then(|()| self.flush_device());
        }
        match outcome {
            Ok(()) => reply.written(len as u32),
            Err(error) => reply.error(errno_of(&error)),
        }
    }

    /// On every `close`: an error of the volume's flush is the last that the caller can be told. So while a flush is
    /// under way for another caller, this one does not take the volume for clean but flushes as well.
    fn flush(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        let filled = self.fill(fh);
        if filled.is_ok() && self.writes.load(Ordering::SeqCst) == self.flushed.load(Ordering::SeqCst) {
            return reply.ok();
        }
        answer(reply, filled.and_then(|()| self.flush_device()));
    }

    fn fsync(&self, _request: &Request, _ino: INodeNo, fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        answer(reply, self.fill(fh).and_then(|()| self.flush_device()));
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn fallocate(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.device.size());
        match mode & !libc::FALLOC_FL_KEEP_SIZE {
            _ if !inside => reply.error(Errno::ENOSPC),
            // The volume's own space is what it is.
            0 => reply.ok(),
            libc::FALLOC_FL_ZERO_RANGE => {
                self.writers.will_write(fh.0, offset, offset + length);
                let outcome = self.device.write_zeroes(offset, length);
                self.written();
                answer(reply, outcome);
            }
            _ => reply.error(Errno::EOPNOTSUPP),
        }
    }

    fn lseek(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let wants_hole = match whence {
            libc::SEEK_HOLE => true,
            libc::SEEK_DATA => false,
            _ => return reply.error(Errno::EINVAL),
        };
        let size = self.device.size();
        let Some(mut at) = u64::try_from(offset).ok().filter(|&at| at < size) else {
            return reply.error(Errno::ENXIO);
        };
        while at < size {
            match self.device.extent(at, size - at) {
                Ok(extent) if extent.hole == wants_hole => break,
                Ok(extent) => at += extent.len.max(1),
                Err(error) => return reply.error(errno_of(&error)),
            }
        }
        // The end of the file counts as a hole.
        if at >= size && !wants_hole {
            return reply.error(Errno::ENXIO);
        }
        reply.offset(at.min(size) as i64);
    }

    fn readdir(
        &self,
        _request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if ino != ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let entries = [
            (ROOT, FileType::Directory, "."),
            (ROOT, FileType::Directory, ".."),
            (VOLUME, FileType::RegularFile, FILE_NAME),
        ];
        for (index, (ino, kind, name)) in entries.into_iter().enumerate().skip(offset as usize) {
            if reply.add(ino, index as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    // The directory is what it is.

    fn create(
        &self,
        _request: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        reply.error(Errno::EPERM);
    }

    fn mknod(
        &self,
        _request: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        reply.error(Errno::EPERM);
    }

    fn mkdir(
        &self,
        _request: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        reply.error(Errno::EPERM);
    }

    fn unlink(&self, _request: &Request, _parent: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rmdir(&self, _request: &Request, _parent: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rename(
        &self,
        _request: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _new_parent: INodeNo,
        _new_name: &OsStr,
        _flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EPERM);
    }

    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        reply.statfs(self.device.size().div_ceil(4096), 0, 0, 1, 0, 4096, 255, 4096);
    }
}

fn answer(reply: ReplyEmpty, outcome: Result<(), DeviceError>) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno_of(&error)),
    }
}

fn errno_of(error: &DeviceError) -> Errno {
    match error.cause {
        Cause::Os(number) => Errno::from_i32(number),
        Cause::NoSpace => Errno::ENOSPC,
        Cause::ReadOnly => Errno::EROFS,
        Cause::Unsupported => Errno::EOPNOTSUPP,
        Cause::Misaligned { .. } | Cause::OutOfBounds { .. } => Errno::EINVAL,
        _ => Errno::EIO,
    }
}

fn nanoseconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
