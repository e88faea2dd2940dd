//! A tree, as the kernel asks for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use atrest_filetree::posix::{Change, New, NewTime, PosixSpace};
use atrest_filetree::{
    Cursor, Entry, FileTree, IfExists, Kind, Listed, MAX_NAME_LEN, Metadata, Timestamp, TreeError, TreePath,
    Wanted,
};
use rustix::io::Errno;

use super::errors::errno_of;
use super::nodes::Nodes;
use crate::fuse::filesystem::{Answer, Caller, Filesystem, NewBytes, OpenHandle};
use crate::fuse::looks::Looks;
use crate::fuse::protocol::abi::init_flag;
use crate::fuse::protocol::{FileAttributes, Listing};

/// How long the kernel may believe names and attributes: nobody else changes the tree, what can be written has one name, and
/// what is locked or unlocked the kernel is told to forget.
const LIFETIME: Duration = Duration::from_secs(3600);
/// Zeros are written in pieces of so many bytes.
const ZEROS: usize = 64 << 10;
/// The number that FUSE has for "look it up".
const UNKNOWN: u64 = 0xffff_ffff;
/// Places behind `.` and `..`, which no tree has: theirs have 63 bits.
const BEHIND_DOT: u64 = i64::MAX as u64;
const BEHIND_DOTS: u64 = BEHIND_DOT - 1;

pub(in super::super) struct TreeDirectory {
    tree: Arc<dyn FileTree>,
    nodes: Arc<Mutex<Nodes>>,
    looks: Looks,
    writable: bool,
    uid: u32,
    gid: u32,
}

impl TreeDirectory {
    pub fn new(tree: Arc<dyn FileTree>) -> Self {
        Self {
            writable: tree.about().writable,
            tree,
            nodes: Arc::new(Mutex::new(Nodes::new())),
            looks: Looks::default(),
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

    fn path(&self, node: u64) -> Answer<TreePath> {
        self.nodes().path(node).ok_or(Errno::STALE)
    }

    fn child(&self, parent: u64, name: &[u8]) -> Answer<TreePath> {
        self.path(parent)?.join(name).map_err(|_| Errno::NAMETOOLONG)
    }

    fn metadata(&self, path: &TreePath) -> Answer<Metadata> {
        self.tree.metadata(path).map_err(|error| errno_of(&error))
    }

    fn described(&self, node: u64, metadata: &Metadata) -> FileAttributes {
        let owner =
            if metadata.mode & 0o100 != 0 || metadata.kind == Kind::Directory { 0o700 } else { 0o600 };
        FileAttributes {
            node,
            kind: metadata.kind,
            // Whoever could open the volume may use what is in it.
            permissions: if self.writable { owner } else { owner & 0o500 },
            links: metadata.links,
            uid: self.uid,
            gid: self.gid,
            device: 0,
            size: metadata.size,
            blocks: metadata.allocated.div_ceil(512),
            accessed: metadata.accessed,
            modified: metadata.modified,
            changed: metadata.changed,
        }
    }

    /// What there is at a path, told to the kernel.
    fn entry(&self, path: &TreePath) -> Answer<FileAttributes> {
        let metadata = self.metadata(path)?;
        let node = self.nodes().told(path);
        Ok(self.described(node, &metadata))
    }

    fn of(&self, node: u64) -> Answer<FileAttributes> {
        let path = self.path(node)?;
        let metadata = self.tree.metadata(&path).map_err(|error| self.errno_of_open(&path, &error))?;
        Ok(self.described(node, &metadata))
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

    fn make_file(&self, path: &TreePath, exclusive: bool) -> Answer<FileAttributes> {
        match self.tree.metadata(path) {
            Ok(_) if exclusive => return Err(Errno::EXIST),
            Ok(found) if found.kind == Kind::File => {}
            Ok(_) => return Err(Errno::ISDIR),
            Err(TreeError::NotFound) => {
                self.tree.write_from(path, &mut |_| Ok(0)).map_err(|error| errno_of(&error))?;
            }
            Err(error) => return Err(errno_of(&error)),
        }
        self.entry(path)
    }

    /// Cuts a file, or fills it up with zeros: the trees have no holes.
    fn resize(&self, path: &TreePath, size: u64) -> Answer<()> {
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

    fn change(&self, node: u64, new: &Change) -> Answer<FileAttributes> {
        let path = self.path(node)?;
        let attributes = self.of(node)?;
        let same = new.mode.is_none_or(|mode| mode & 0o7777 == attributes.permissions)
            && new.uid.is_none_or(|uid| uid == self.uid)
            && new.gid.is_none_or(|gid| gid == self.gid);
        if !same {
            return Err(Errno::PERM);
        }
        if let Some(size) = new.size {
            self.resize(&path, size)?;
        }
        if let (Some(time), Kind::File) = (new.modified, attributes.kind) {
            let time = match time {
                NewTime::At(time) => time,
                NewTime::Now => now(),
            };
            self.tree.set_modified(&path, time).map_err(|error| errno_of(&error))?;
        }
        self.of(node)
    }

    fn flush_tree(&self) -> Answer<()> {
        if self.writable { self.tree.flush().map_err(|error| errno_of(&error)) } else { Ok(()) }
    }
}

fn now() -> Timestamp {
    // intended: a clock that stands before 1970 was never set.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Timestamp { seconds: since.as_secs().cast_signed(), nanoseconds: since.subsec_nanos() }
}

impl TreeDirectory {
    /// Adds an entry, whose metadata are told to the kernel as by a lookup. False if it has no room.
    fn add(&self, directory: &TreePath, listed: Listed, listing: &mut Listing<'_>) -> bool {
        let Listed { entry: Entry { name, kind, .. }, metadata, next } = listed;
        if !listing.has_room(&name) {
            return false;
        }
        // What can't be looked at is a name all the same: whoever asks for it is told why.
        match (metadata, directory.join(&name)) {
            (Some(Ok(metadata)), Ok(path)) => {
                let node = self.nodes().told(&path);
                listing.add_found(&self.described(node, &metadata), next.0, &name)
            }
            _ => listing.add(UNKNOWN, next.0, Some(kind), &name),
        }
    }
}

impl Filesystem for TreeDirectory {
    fn wishes(&self) -> u64 {
        init_flag::PARALLEL_DIROPS | init_flag::CACHE_SYMLINKS | init_flag::DO_READDIRPLUS
    }

    fn lifetime(&self) -> Duration {
        LIFETIME
    }

    fn lookup(&self, parent: u64, name: &[u8]) -> Answer<FileAttributes> {
        let found = self.entry(&self.child(parent, name)?)?;
        if found.kind != Kind::Directory {
            self.looks.at_look(parent);
        }
        Ok(found)
    }

    fn forget(&self, node: u64, times: u64) {
        self.nodes().forget(node, times);
    }

    fn attributes(&self, node: u64) -> Answer<FileAttributes> {
        self.of(node)
    }

    fn set_attributes(
        &self,
        _caller: Caller,
        node: u64,
        _handle: Option<u64>,
        new: &Change,
    ) -> Answer<FileAttributes> {
        self.change(node, new)
    }

    fn read_link(&self, node: u64) -> Answer<Vec<u8>> {
        self.tree.read_link(&self.path(node)?).map_err(|error| errno_of(&error))
    }

    fn make(&self, _caller: Caller, parent: u64, name: &[u8], new: New<'_>) -> Answer<FileAttributes> {
        let path = self.child(parent, name)?;
        match new {
            New::Directory { .. } => {
                self.tree.make_dir(&path).map_err(|error| errno_of(&error))?;
                self.entry(&path)
            }
            New::Node { mode, .. } if mode & libc::S_IFMT == libc::S_IFREG => self.make_file(&path, true),
            New::Node { .. } | New::Link { .. } => Err(Errno::PERM),
        }
    }

    fn remove(&self, parent: u64, name: &[u8], directory: bool) -> Answer<()> {
        let path = self.child(parent, name)?;
        match (self.metadata(&path)?.kind == Kind::Directory, directory) {
            (true, false) => return Err(Errno::ISDIR),
            (false, true) => return Err(Errno::NOTDIR),
            _ => {}
        }
        self.tree.remove(&path).map_err(|error| errno_of(&error))?;
        self.nodes().removed(&path);
        Ok(())
    }

    fn rename(&self, from: (u64, &[u8]), to: (u64, &[u8]), flags: u32) -> Answer<()> {
        let from = self.child(from.0, from.1)?;
        let to = self.child(to.0, to.1)?;
        let if_exists = match flags {
            0 => IfExists::Replace,
            libc::RENAME_NOREPLACE => IfExists::Fail,
            _ => return Err(Errno::INVAL),
        };
        self.tree.rename(&from, &to, if_exists).map_err(|error| errno_of(&error))?;
        self.nodes().renamed(&from, &to);
        Ok(())
    }

    fn open(&self, _caller: Caller, node: u64, flags: u32) -> Answer<OpenHandle> {
        let writes = flags.cast_signed() & libc::O_ACCMODE != libc::O_RDONLY;
        self.path(node)?;
        if writes && !self.writable { Err(Errno::ROFS) } else { Ok(OpenHandle::default()) }
    }

    fn create(
        &self,
        _caller: Caller,
        parent: u64,
        name: &[u8],
        _mode: u32,
        flags: u32,
    ) -> Answer<(FileAttributes, OpenHandle)> {
        let exclusive = flags.cast_signed() & libc::O_EXCL != 0;
        Ok((self.make_file(&self.child(parent, name)?, exclusive)?, OpenHandle::default()))
    }

    fn read(&self, node: u64, _handle: u64, offset: u64, room: &mut [u8]) -> Answer<usize> {
        let path = self.path(node)?;
        let mut len = 0;
        // The kernel takes less for the end of the file.
        while let Some(rest) = room.get_mut(len..).filter(|rest| !rest.is_empty()) {
            match self.tree.read_at(&path, offset + len as u64, rest) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) => return Err(self.errno_of_open(&path, &error)),
            }
        }
        Ok(len)
    }

    fn write(&self, node: u64, _handle: u64, bytes: NewBytes<'_>) -> Answer<usize> {
        let NewBytes { offset, data, durably, .. } = bytes;
        let path = self.path(node)?;
        if offset > self.metadata(&path)?.size {
            self.resize(&path, offset)?;
        }
        self.tree.write_at(&path, offset, data).map_err(|error| errno_of(&error))?;
        if durably {
            self.flush_tree()?;
        }
        Ok(data.len())
    }

    /// On every `close`: the last that the caller can be told.
    fn flush(&self, _node: u64, _handle: u64) -> Answer<()> {
        self.flush_tree()
    }

    fn sync(&self, _node: u64, _handle: u64, _data_only: bool) -> Answer<()> {
        self.flush_tree()
    }

    fn sync_directory(&self, _node: u64, _handle: u64, _data_only: bool) -> Answer<()> {
        self.flush_tree()
    }

    fn open_directory(&self, node: u64) -> Answer<OpenHandle> {
        // That it is one, and can be read.
        let first = Wanted { entries: 1, metadata: false };
        let listed = self.tree.list_from(&self.path(node)?, Cursor::START, first);
        listed.map_err(|error| errno_of(&error)).map(|_| OpenHandle::default())
    }

    /// In portions, from the tree's own places on: behind the two dots, whose places are not the tree's.
    fn list(&self, node: u64, _handle: u64, offset: u64, listing: &mut Listing<'_>) -> Answer<()> {
        let path = self.path(node)?;
        let metadata = listing.takes_attributes() && self.looks.at_listing(node);
        for (next, dot) in [(BEHIND_DOT, b".".as_slice()), (BEHIND_DOTS, b"..")] {
            let is_before = offset == 0 || offset == BEHIND_DOT && next == BEHIND_DOTS;
            if is_before && !listing.add(UNKNOWN, next, Some(Kind::Directory), dot) {
                return Ok(());
            }
        }
        let mut from =
            if offset == BEHIND_DOT || offset == BEHIND_DOTS { Cursor::START } else { Cursor(offset) };
        loop {
            let wanted = Wanted { entries: listing.most(), metadata };
            let portion = self.tree.list_from(&path, from, wanted).map_err(|error| errno_of(&error))?;
            let Some(last) = portion.last() else { return Ok(()) };
            from = last.next;
            for listed in portion {
                if !self.add(&path, listed, listing) {
                    return Ok(());
                }
            }
        }
    }

    fn space(&self) -> Answer<PosixSpace> {
        let space = self.tree.space().map_err(|error| errno_of(&error))?;
        Ok(PosixSpace {
            block_size: space.block_size,
            blocks: space.blocks,
            free: space.free,
            available: space.free,
            name_len: MAX_NAME_LEN as u32,
            ..PosixSpace::default()
        })
    }
}
