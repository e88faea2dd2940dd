//! What the kernel may ask about a tree with POSIX behaviour (Linux's fuse(4) protocol by the `fuser` crate).

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use atrest_filetree::Cursor;
use atrest_filetree::posix::{
    Attributes, Change, Look, New, Node, Opened, Outcome as TreeOutcome, Owner, PosixDirectory, PosixEntry,
    PosixFile, PosixTree, Rename, SetXattr,
};
use fuser::{
    BsdFileFlags, Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::convert::{errno, file_attributes, new_time};
use super::handles::Handles;
use crate::fuse::convert::file_type;

/// How long the kernel may believe names and attributes: nobody else changes the tree.
const TTL: Duration = Duration::from_secs(1);
/// Most bytes in one read or write.
const MAX_TRANSFER: u32 = 1 << 20;
/// Requests that the kernel may have under way by itself: read-ahead above all.
const MAX_BACKGROUND: u16 = 64;

thread_local! {
    /// What a thread reads into, kept for the next time.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

pub(in super::super) struct PosixDirectoryServer {
    tree: Arc<dyn PosixTree>,
    files: Handles<dyn PosixFile>,
    directories: Handles<dyn PosixDirectory>,
}

impl PosixDirectoryServer {
    pub fn new(tree: Arc<dyn PosixTree>) -> Self {
        Self { tree, files: Handles::default(), directories: Handles::default() }
    }

    fn file(&self, opened: Opened) -> (FileHandle, FopenFlags) {
        // What is written is with the tree already: nothing is to be done on close.
        let mut flags = FopenFlags::FOPEN_NOFLUSH;
        flags.set(FopenFlags::FOPEN_KEEP_CACHE, opened.unchanged);
        (self.files.add(Arc::from(opened.file)), flags)
    }

    /// Before a change that the kernel sends without saying whether set-ID bits may stand: they may where root asks.
    fn before_change(&self, request: &Request, ino: INodeNo) -> TreeOutcome<()> {
        if request.uid() == 0 { Ok(()) } else { self.tree.drop_set_ids(node(ino)) }
    }
}

fn node(ino: INodeNo) -> Node {
    Node(ino.0)
}

fn owner(request: &Request) -> Owner {
    Owner { uid: request.uid(), gid: request.gid() }
}

fn entry(reply: ReplyEntry, outcome: TreeOutcome<Attributes>) {
    match outcome {
        Ok(attributes) => reply.entry(&TTL, &file_attributes(&attributes), Generation(0)),
        Err(error) => reply.error(errno(error)),
    }
}

fn attr(reply: ReplyAttr, outcome: TreeOutcome<Attributes>) {
    match outcome {
        Ok(attributes) => reply.attr(&TTL, &file_attributes(&attributes)),
        Err(error) => reply.error(errno(error)),
    }
}

fn answer(reply: ReplyEmpty, outcome: TreeOutcome<()>) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

fn xattr(reply: ReplyXattr, size: u32, outcome: TreeOutcome<Vec<u8>>) {
    match outcome {
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(errno(error)),
    }
}

impl Filesystem for PosixDirectoryServer {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Kernels that know less than this still serve, with smaller requests.
        let _ = config.set_max_write(MAX_TRANSFER);
        if let Err(most) = config.set_max_readahead(MAX_TRANSFER) {
            let _ = config.set_max_readahead(most);
        }
        let _ = config.set_max_background(MAX_BACKGROUND);
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        // Or else the kernel asks for `security.capability` before every write.
        let _ = config.add_capabilities(InitFlags::FUSE_HANDLE_KILLPRIV_V2);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(reply, self.tree.lookup(node(parent), name.as_bytes()));
    }

    fn forget(&self, _request: &Request, ino: INodeNo, nlookup: u64) {
        self.tree.forget(node(ino), nlookup);
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        attr(reply, self.tree.attributes(node(ino)));
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let (accessed, modified) = (atime.map(new_time), mtime.map(new_time));
        let change = Change { mode, uid, gid, size, accessed, modified };
        let outcome = if size.is_some() { self.before_change(request, ino) } else { Ok(()) };
        attr(reply, outcome.and_then(|()| self.tree.set_attributes(node(ino), &change)));
    }

    fn readlink(&self, _request: &Request, ino: INodeNo, reply: ReplyData) {
        match self.tree.read_link(node(ino)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let new = New::Node { mode, device: rdev };
        entry(reply, self.tree.make(node(parent), name.as_bytes(), new, owner(request)));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let new = New::Directory { mode };
        entry(reply, self.tree.make(node(parent), name.as_bytes(), new, owner(request)));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        link_name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let new = New::Link { target: target.as_os_str().as_bytes() };
        entry(reply, self.tree.make(node(parent), link_name.as_bytes(), new, owner(request)));
    }

    fn link(&self, _request: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(reply, self.tree.link(node(ino), node(parent), name.as_bytes()));
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.tree.remove(node(parent), name.as_bytes(), false));
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.tree.remove(node(parent), name.as_bytes(), true));
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
        let how = if flags.is_empty() {
            Rename::Replace
        } else if flags == RenameFlags::RENAME_NOREPLACE {
            Rename::NoReplace
        } else if flags == RenameFlags::RENAME_EXCHANGE {
            Rename::Exchange
        } else {
            return reply.error(Errno::EINVAL);
        };
        let from = (node(parent), name.as_bytes());
        answer(reply, self.tree.rename(from, (node(new_parent), new_name.as_bytes()), how));
    }

    fn open(&self, _request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let write = flags.0 & libc::O_ACCMODE != libc::O_RDONLY;
        match self.tree.open(node(ino), write) {
            Ok(opened) => {
                let (handle, flags) = self.file(opened);
                reply.opened(handle, flags);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let parent = node(parent);
        let created = match self.tree.create(parent, name.as_bytes(), mode, owner(request)) {
            // Somebody else made it after the kernel had looked.
            Err(atrest_filetree::posix::Errno::EXIST) if flags & libc::O_EXCL == 0 => {
                self.tree.lookup(parent, name.as_bytes()).and_then(|attributes| {
                    let write = flags & libc::O_ACCMODE != libc::O_RDONLY;
                    let opened = self.tree.open(attributes.node, write);
                    if opened.is_err() {
                        self.tree.forget(attributes.node, 1);
                    }
                    Ok((attributes, opened?))
                })
            }
            created => created,
        };
        match created {
            Ok((attributes, opened)) => {
                let (handle, flags) = self.file(opened);
                reply.created(&TTL, &file_attributes(&attributes), Generation(0), handle, flags);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn read(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let file = match self.files.get(fh) {
            Ok(file) => file,
            Err(error) => return reply.error(error),
        };
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < size as usize {
                buffer.resize(size as usize, 0);
            }
            let Some(buf) = buffer.get_mut(..size as usize) else { return reply.error(Errno::EIO) };
            match file.read_at(offset, buf) {
                Ok(len) => match buf.get(..len) {
                    Some(data) => reply.data(data),
                    None => reply.error(Errno::EIO),
                },
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn write(
        &self,
        _request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID)
            && let Err(error) = self.tree.drop_set_ids(node(ino))
        {
            return reply.error(errno(error));
        }
        // With O_SYNC and O_DSYNC the kernel asks for a sync by itself.
        match self.files.get(fh).and_then(|file| file.write_at(offset, data).map_err(errno)) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
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
        self.files.remove(fh);
        reply.ok();
    }

    /// Kernels that don't know [`FopenFlags::FOPEN_NOFLUSH`] ask.
    fn flush(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn fsync(&self, _request: &Request, _ino: INodeNo, fh: FileHandle, datasync: bool, reply: ReplyEmpty) {
        match self.files.get(fh) {
            Ok(file) => answer(reply, file.sync(datasync)),
            Err(error) => reply.error(error),
        }
    }

    fn fallocate(
        &self,
        request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        match self.files.get(fh) {
            Ok(file) => answer(
                reply,
                self.before_change(request, ino)
                    .and_then(|()| file.allocate(mode.cast_unsigned(), offset, length)),
            ),
            Err(error) => reply.error(error),
        }
    }

    fn opendir(&self, _request: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.tree.open_directory(node(ino)) {
            Ok(directory) => {
                reply.opened(self.directories.add(Arc::from(directory)), FopenFlags::empty());
            }
            Err(error) => reply.error(errno(error)),
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
        let read = self.directories.get(fh).and_then(|directory| {
            let mut sink = |entry: &PosixEntry| {
                let kind = entry.kind.map_or(FileType::RegularFile, file_type);
                match reply.add(INodeNo(entry.node.0), entry.next.0, kind, OsStr::from_bytes(&entry.name)) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            };
            directory.read(Cursor(offset), Look::Names, &mut sink).map_err(errno)
        });
        match read {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn releasedir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.directories.remove(fh);
        reply.ok();
    }

    fn fsyncdir(&self, _request: &Request, _ino: INodeNo, fh: FileHandle, _data: bool, reply: ReplyEmpty) {
        match self.directories.get(fh) {
            Ok(directory) => answer(reply, directory.sync()),
            Err(error) => reply.error(error),
        }
    }

    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        match self.tree.space() {
            Ok(space) => reply.statfs(
                space.blocks,
                space.free,
                space.available,
                space.nodes,
                space.free_nodes,
                space.block_size,
                space.name_len,
                space.block_size,
            ),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setxattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let how = match flags {
            0 => SetXattr::Any,
            libc::XATTR_CREATE => SetXattr::Create,
            libc::XATTR_REPLACE => SetXattr::Replace,
            _ => return reply.error(Errno::EINVAL),
        };
        answer(reply, self.tree.set_xattr(node(ino), name.as_bytes(), value, how));
    }

    fn getxattr(&self, _request: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        xattr(reply, size, self.tree.xattr(node(ino), name.as_bytes()));
    }

    fn listxattr(&self, _request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        xattr(reply, size, self.tree.xattrs(node(ino)));
    }

    fn removexattr(&self, _request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.tree.remove_xattr(node(ino), name.as_bytes()));
    }
}
