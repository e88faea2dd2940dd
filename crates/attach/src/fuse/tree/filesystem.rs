//! What the kernel may ask about a tree (Linux's fuse(4) protocol by the `fuser` crate).

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use atrest_filetree::{FileTree, IfExists, Kind, MAX_NAME_LEN, Metadata, TreeError, TreePath};
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use super::errors::errno_of;
use super::nodes::Nodes;
use crate::fuse::convert::{file_type, sent_time, system_time};

/// How long the kernel may believe names and attributes: nobody else changes the tree.
const TTL: Duration = Duration::from_secs(1);
/// Zeros are written in pieces of so many bytes.
const ZEROS: usize = 64 << 10;
/// The number that FUSE has for "look it up".
const UNKNOWN: INodeNo = INodeNo(0xffff_ffff);

pub(in super::super) struct TreeDirectory {
    tree: Arc<dyn FileTree>,
    nodes: Arc<Mutex<Nodes>>,
    /// Listings of open directories by their handles.
    listings: Mutex<HashMap<u64, Listing>>,
    handles: AtomicU64,
    writable: bool,
    uid: u32,
    gid: u32,
}

type Outcome<T> = Result<T, Errno>;
/// Names and kinds.
type Listing = Vec<(Vec<u8>, FileType)>;

impl TreeDirectory {
    pub fn new(tree: Arc<dyn FileTree>) -> Self {
        Self {
            writable: tree.about().writable,
            tree,
            nodes: Arc::new(Mutex::new(Nodes::new())),
            listings: Mutex::default(),
            handles: AtomicU64::new(1),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        }
    }

    /// What the kernel was told of.
    pub fn known(&self) -> Arc<Mutex<Nodes>> {
        self.nodes.clone()
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, ino: INodeNo) -> Outcome<TreePath> {
        self.nodes().path(ino).ok_or(Errno::ESTALE)
    }

    fn child(&self, parent: INodeNo, name: &OsStr) -> Outcome<TreePath> {
        self.path(parent)?.join(name.as_bytes()).map_err(|_| Errno::ENAMETOOLONG)
    }

    fn metadata(&self, path: &TreePath) -> Outcome<Metadata> {
        self.tree.metadata(path).map_err(|error| errno_of(&error))
    }

    fn attributes(&self, ino: INodeNo, metadata: &Metadata) -> FileAttr {
        let kind = file_type(metadata.kind);
        let owner =
            if metadata.mode & 0o100 != 0 || metadata.kind == Kind::Directory { 0o700 } else { 0o600 };
        let modified = system_time(metadata.modified);
        FileAttr {
            ino,
            size: metadata.size,
            blocks: metadata.allocated.div_ceil(512),
            atime: system_time(metadata.accessed),
            mtime: modified,
            ctime: system_time(metadata.changed),
            crtime: modified,
            kind,
            // Whoever could open the volume may use what is in it.
            perm: if self.writable { owner } else { owner & 0o500 },
            nlink: metadata.links,
            uid: self.uid,
            gid: self.gid,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    /// What there is at a path, told to the kernel.
    fn entry(&self, path: &TreePath) -> Outcome<FileAttr> {
        let metadata = self.metadata(path)?;
        let ino = self.nodes().told(path);
        Ok(self.attributes(ino, &metadata))
    }

    fn of(&self, ino: INodeNo) -> Outcome<FileAttr> {
        let path = self.path(ino)?;
        let metadata = self.tree.metadata(&path).map_err(|error| self.errno_of_open(&path, &error))?;
        Ok(self.attributes(ino, &metadata))
    }

    /// What a program is told of a file that it has open: where the name is gone because its directory was locked meanwhile, that
    /// the key is missing.
    fn errno_of_open(&self, path: &TreePath, error: &TreeError) -> Errno {
        let mut above = path.parent().filter(|_| *error == TreeError::NotFound);
        while let Some(directory) = above {
            match self.tree.check_readable(&directory) {
                Err(TreeError::NotFound) => above = directory.parent(),
                Err(locked @ TreeError::Locked { .. }) => return errno_of(&locked),
                _ => break,
            }
        }
        errno_of(error)
    }

    fn make(&self, path: &TreePath, exclusive: bool) -> Outcome<FileAttr> {
        match self.tree.metadata(path) {
            Ok(_) if exclusive => return Err(Errno::EEXIST),
            Ok(found) if found.kind == Kind::File => {}
            Ok(_) => return Err(Errno::EISDIR),
            Err(TreeError::NotFound) => {
                self.tree.write_from(path, &mut |_| Ok(0)).map_err(|error| errno_of(&error))?;
            }
            Err(error) => return Err(errno_of(&error)),
        }
        self.entry(path)
    }

    /// Cuts a file, or fills it up with zeros: the trees have no holes.
    fn resize(&self, path: &TreePath, size: u64) -> Outcome<()> {
        let has = self.metadata(path)?.size;
        if size < has {
            return self.tree.truncate(path, size).map_err(|error| errno_of(&error));
        }
        let mut at = has;
        while at < size {
            let len = (size - at).min(ZEROS as u64);
            let zeros = vec![0; len as usize];
            self.tree.write_at(path, at, &zeros).map_err(|error| errno_of(&error))?;
            at += len;
        }
        Ok(())
    }

    fn change(&self, ino: INodeNo, change: &Change) -> Outcome<FileAttr> {
        let path = self.path(ino)?;
        let attributes = self.of(ino)?;
        let same = change.mode.is_none_or(|mode| mode & 0o7777 == u32::from(attributes.perm))
            && change.uid.is_none_or(|uid| uid == self.uid)
            && change.gid.is_none_or(|gid| gid == self.gid);
        if !same {
            return Err(Errno::EPERM);
        }
        if let Some(size) = change.size {
            self.resize(&path, size)?;
        }
        if let (Some(time), Kind::File) = (change.modified, self.metadata(&path)?.kind) {
            let time = match time {
                TimeOrNow::SpecificTime(time) => time,
                TimeOrNow::Now => SystemTime::now(),
            };
            self.tree.set_modified(&path, sent_time(time)).map_err(|error| errno_of(&error))?;
        }
        self.of(ino)
    }

    fn remove(&self, parent: INodeNo, name: &OsStr, directory: bool) -> Outcome<()> {
        let path = self.child(parent, name)?;
        match (self.metadata(&path)?.kind == Kind::Directory, directory) {
            (true, false) => return Err(Errno::EISDIR),
            (false, true) => return Err(Errno::ENOTDIR),
            _ => {}
        }
        self.tree.remove(&path).map_err(|error| errno_of(&error))?;
        self.nodes().removed(&path);
        Ok(())
    }

    fn rename(&self, from: &TreePath, to: &TreePath, flags: RenameFlags) -> Outcome<()> {
        if flags.intersects(RenameFlags::RENAME_EXCHANGE | RenameFlags::RENAME_WHITEOUT) {
            return Err(Errno::EINVAL);
        }
        let if_exists = match flags.contains(RenameFlags::RENAME_NOREPLACE) {
            true => IfExists::Fail,
            false => IfExists::Replace,
        };
        self.tree.rename(from, to, if_exists).map_err(|error| errno_of(&error))?;
        self.nodes().renamed(from, to);
        Ok(())
    }

    fn flush_tree(&self) -> Outcome<()> {
        if self.writable { self.tree.flush().map_err(|error| errno_of(&error)) } else { Ok(()) }
    }
}

/// What is to be changed about an entry.
struct Change {
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    size: Option<u64>,
    modified: Option<TimeOrNow>,
}

impl Filesystem for TreeDirectory {
    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(reply, self.child(parent, name).and_then(|path| self.entry(&path)));
    }

    fn forget(&self, _request: &Request, ino: INodeNo, nlookup: u64) {
        self.nodes().forget(ino, nlookup);
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.of(ino) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match self.change(ino, &Change { mode, uid, gid, size, modified: mtime }) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn readlink(&self, _request: &Request, ino: INodeNo, reply: ReplyData) {
        let target = |path: TreePath| self.tree.read_link(&path).map_err(|error| errno_of(&error));
        match self.path(ino).and_then(target) {
            Ok(target) => reply.data(&target),
            Err(errno) => reply.error(errno),
        }
    }

    fn mknod(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        if mode & libc::S_IFMT != libc::S_IFREG {
            return reply.error(Errno::EPERM);
        }
        entry(reply, self.child(parent, name).and_then(|path| self.make(&path, true)));
    }

    fn mkdir(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let make = |path: TreePath| {
            self.tree.make_dir(&path).map_err(|error| errno_of(&error))?;
            self.entry(&path)
        };
        entry(reply, self.child(parent, name).and_then(make));
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.remove(parent, name, false));
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.remove(parent, name, true));
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let paths = self.child(parent, name).and_then(|from| Ok((from, self.child(new_parent, new_name)?)));
        answer(reply, paths.and_then(|(from, to)| TreeDirectory::rename(self, &from, &to, flags)));
    }

    fn open(&self, _request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let writes = flags.0 & libc::O_ACCMODE != libc::O_RDONLY;
        match self.path(ino) {
            Ok(_) if writes && !self.writable => reply.error(Errno::EROFS),
            Ok(_) => reply.opened(FileHandle(0), FopenFlags::empty()),
            Err(errno) => reply.error(errno),
        }
    }

    fn create(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let exclusive = flags & libc::O_EXCL != 0;
        match self.child(parent, name).and_then(|path| self.make(&path, exclusive)) {
            Ok(attributes) => {
                reply.created(&TTL, &attributes, Generation(0), FileHandle(0), FopenFlags::empty());
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let path = match self.path(ino) {
            Ok(path) => path,
            Err(errno) => return reply.error(errno),
        };
        let mut buf = vec![0; size as usize];
        let mut len = 0;
        // The kernel takes less for the end of the file.
        while let Some(rest) = buf.get_mut(len..).filter(|rest| !rest.is_empty()) {
            match self.tree.read_at(&path, offset + len as u64, rest) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) => return reply.error(self.errno_of_open(&path, &error)),
            }
        }
        match buf.get(..len) {
            Some(data) => reply.data(data),
            None => reply.error(Errno::EIO),
        }
    }

    fn write(
        &self,
        _request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.path(ino).and_then(|path| {
            if offset > self.metadata(&path)?.size {
                self.resize(&path, offset)?;
            }
            self.tree.write_at(&path, offset, data).map_err(|error| errno_of(&error))?;
            if flags.0 & libc::O_DSYNC != 0 { self.flush_tree() } else { Ok(()) }
        });
        match written {
            Ok(()) => reply.written(data.len() as u32),
            Err(errno) => reply.error(errno),
        }
    }

    /// On every `close`: the last that the caller can be told.
    fn flush(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        answer(reply, self.flush_tree());
    }

    fn fsync(&self, _request: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        answer(reply, self.flush_tree());
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        answer(reply, self.flush_tree());
    }

    fn opendir(&self, _request: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let listed = self.path(ino).and_then(|path| self.tree.list(&path).map_err(|error| errno_of(&error)));
        match listed {
            Ok(entries) => {
                let dots = [b".".as_slice(), b".."].map(|name| (name.to_vec(), FileType::Directory));
                let named = entries.into_iter().map(|entry| (entry.name, file_type(entry.kind)));
                let handle = self.handles.fetch_add(1, Ordering::Relaxed);
                let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
                listings.insert(handle, dots.into_iter().chain(named).collect());
                reply.opened(FileHandle(handle), FopenFlags::empty());
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn readdir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entries) = listings.get(&fh.0) else { return reply.error(Errno::EBADF) };
        for (index, (name, kind)) in entries.iter().enumerate().skip(offset as usize) {
            if reply.add(UNKNOWN, index as u64 + 1, *kind, OsStr::from_bytes(name)) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner).remove(&fh.0);
        reply.ok();
    }

    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        match self.tree.space() {
            Ok(space) => {
                let (size, free) = (space.block_size, space.free);
                reply.statfs(space.blocks, free, free, 0, 0, size, MAX_NAME_LEN as u32, size);
            }
            Err(error) => reply.error(errno_of(&error)),
        }
    }
}

fn entry(reply: ReplyEntry, outcome: Outcome<FileAttr>) {
    match outcome {
        Ok(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
        Err(errno) => reply.error(errno),
    }
}

fn answer(reply: ReplyEmpty, outcome: Outcome<()>) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}
