//! The tree itself.

use core::fmt;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use atrest_filetree::is_valid_name;
use atrest_filetree::posix::{
    Attributes, Change, Errno, New, Node, Opened, Outcome, Owner, PosixDirectory, PosixSpace, PosixTree,
    Rename, SetXattr,
};
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat};
use rustix::process::{Resource, Rlimit};

use super::Layer;
use super::attributes::open_if_same;
use super::directory::OpenDirectory;
use super::nodes::{LowerNode, Nodes, Place, Which, open_as};
use super::open::{Opener, proc_name};
use crate::flags;

/// Why a lower directory can't be served.
#[non_exhaustive]
#[derive(Debug)]
pub enum LowerError {
    /// The directory can't be opened.
    Directory(io::Error),
    /// Another process serves it, or this one does.
    InUse,
    /// `/proc` is not mounted: files can't be opened again without races.
    NoProc(io::Error),
}

impl fmt::Display for LowerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(error) => write!(f, "cannot open the lower directory: {error}"),
            Self::InUse => f.write_str("the lower directory is in use by another mount"),
            Self::NoProc(error) => write!(f, "cannot use /proc/self/fd: {error}"),
        }
    }
}

impl core::error::Error for LowerError {}

/// More descriptors of nodes are of little use: they spare the opening of directories above all.
const MOST_HELD: usize = 4096;

/// A lower directory with POSIX behaviour, through a layer.
pub struct LowerPosix<M: Layer> {
    inner: Arc<Inner<M>>,
}

pub(super) struct Inner<M: Layer> {
    pub layer: Arc<M>,
    pub nodes: Nodes<M::File>,
    /// Whoever finds a node by its name reads, and whoever takes a name away writes.
    names: RwLock<()>,
    pub opener: Opener,
    /// Holds the lock as long as the tree lives, and answers for the whole filesystem.
    root: OwnedFd,
    /// Root's process: it gives files away, and the system lets it leave bits that others may not.
    pub is_root: bool,
}

impl<M: Layer> Drop for Inner<M> {
    fn drop(&mut self) {
        // Closing alone would leave the lock to a process that is being started: it has a copy of the descriptor.
        let _ = rustix::fs::flock(&self.root, FlockOperation::Unlock);
    }
}

impl<M: Layer> LowerPosix<M> {
    /// Opens a lower directory. A writable one is nobody else's until it is dropped; several may read one.
    ///
    /// # Errors
    /// [`LowerError::Directory`] if the directory can't be opened, [`LowerError::InUse`] if somebody else has
    /// opened it and one of the two writes. [`LowerError::NoProc`] without `/proc`.
    pub fn open(directory: &Path, layer: M, writable: bool) -> Result<Self, LowerError> {
        Self::open_holding(directory, layer, writable, room_for_nodes())
    }

    /// Opens a lower directory, and holds at most so many descriptors of what it shows, beside those of what is open and of what
    /// has lost its name.
    ///
    /// # Errors
    /// Fails where [`open`](Self::open) does.
    pub fn open_holding(
        directory: &Path,
        layer: M,
        writable: bool,
        descriptors: usize,
    ) -> Result<Self, LowerError> {
        let failed = |error: Errno| LowerError::Directory(error.into());
        let root = rustix::fs::openat(CWD, directory, flags::DIRECTORY, Mode::empty()).map_err(failed)?;
        let lock = if writable {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        rustix::fs::flock(&root, lock).map_err(|error| match error {
            Errno::WOULDBLOCK => LowerError::InUse,
            error => failed(error),
        })?;
        let proc_fds = rustix::fs::openat(CWD, "/proc/self/fd", flags::PLACE, Mode::empty());
        let proc_fds = proc_fds.map_err(|error| LowerError::NoProc(error.into()))?;
        let node = rustix::fs::openat(&root, ".", flags::PLACE, Mode::empty()).map_err(failed)?;
        let stat = rustix::fs::fstat(&node).map_err(failed)?;
        let inner = Inner {
            layer: Arc::new(layer),
            nodes: Nodes::new(node, &stat, descriptors),
            names: RwLock::new(()),
            opener: Opener { proc_fds, writable },
            root,
            is_root: rustix::process::geteuid().is_root(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }
}

/// How many descriptors of nodes are held, once there is room for as many as the system lets there be: the rest is for open files.
fn room_for_nodes() -> usize {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let highest = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // Without more of them, fewer files can be open at once.
    let _ = rustix::process::setrlimit(Resource::Nofile, highest);
    let room = rustix::process::getrlimit(Resource::Nofile).current;
    // intended: without a limit there is room for all that are of use.
    room.and_then(|room| usize::try_from(room / 4).ok()).unwrap_or(MOST_HELD).min(MOST_HELD)
}

impl<M: Layer> Inner<M> {
    fn writable(&self) -> Outcome<()> {
        if self.opener.writable { Ok(()) } else { Err(Errno::ROFS) }
    }

    /// Until this is dropped no name goes away, so that a node is where it was found. No state of a node may be asked for
    /// meanwhile: who holds that waits for names.
    pub fn names_stay(&self) -> RwLockReadGuard<'_, ()> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn names_go(&self) -> RwLockWriteGuard<'_, ()> {
        self.names.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A descriptor of a node, opened with `O_PATH`.
    pub fn descriptor(&self, node: &LowerNode<M::File>) -> Outcome<Arc<OwnedFd>> {
        let _still = self.names_stay();
        self.nodes.descriptor(node)
    }

    fn directory(&self, number: Node) -> Outcome<Arc<OwnedFd>> {
        self.descriptor(&*self.nodes.get(number)?)
    }

    /// The node under a name of the lower directory, with one reference more, and what it looks like. `at` is a descriptor of
    /// the directory.
    pub fn refer(&self, (parent, at): (Node, &impl AsFd), lower: &[u8]) -> Outcome<Attributes> {
        let (node, stat) = {
            let _still = self.names_stay();
            let stat = stat_at(at, lower)?;
            (self.nodes.refer(Place::new(parent, lower), &stat), stat)
        };
        self.told(&node, &stat, || open_if_same(at, lower, node.which))
    }

    /// What has a name, with one reference more.
    fn look_up(&self, (parent, at): (Node, &OwnedFd), name: &[u8]) -> Outcome<Attributes> {
        let (lower, node, stat) = {
            let _still = self.names_stay();
            let (lower, found) = self.find(at, name)?;
            let stat = found?;
            (lower.clone(), self.nodes.refer(Place::new(parent, &lower), &stat), stat)
        };
        self.told(&node, &stat, || open_if_same(at, &lower, node.which))
    }

    /// What a node that was just referred to looks like.
    pub fn told(
        &self,
        node: &LowerNode<M::File>,
        stat: &Stat,
        open: impl FnOnce() -> Outcome<File>,
    ) -> Outcome<Attributes> {
        let attributes = self.shown(node, stat, open);
        if attributes.is_err() {
            self.nodes.forget(node.number, 1);
        }
        attributes
    }

    /// The name in the lower directory of an entry that there may be, and what the system says of it if there is one. One that the
    /// layer would not have made is found, too.
    fn find<'a>(&self, at: impl AsFd, name: &'a [u8]) -> Outcome<(Cow<'a, [u8]>, Outcome<Stat>)> {
        if !is_valid_name(name) {
            return Err(if name.len() > 255 { Errno::NAMETOOLONG } else { Errno::INVAL });
        }
        let mapped = self.layer.lower_name(name);
        let found = mapped.as_ref().map_err(|error| *error).and_then(|mapped| stat_at(&at, mapped));
        if found.is_err()
            && !mapped.as_ref().is_ok_and(|mapped| **mapped == *name)
            && *self.layer.plain_name(name) == *name
            && let Ok(stat) = stat_at(&at, name)
        {
            return Ok((Cow::Borrowed(name), Ok(stat)));
        }
        Ok((mapped?, found))
    }

    /// The name in the lower directory of an entry that is to be made.
    fn lower_name<'a>(&self, at: impl AsFd, name: &'a [u8]) -> Outcome<Cow<'a, [u8]>> {
        if is_valid_name(name) && self.layer.lower_name(name).is_ok_and(|mapped| *mapped == *name) {
            return Ok(Cow::Borrowed(name));
        }
        self.find(at, name).map(|(lower, _)| lower)
    }

    /// Before a name goes away: what is known of what has it keeps a descriptor.
    fn keep(&self, at: impl AsFd, lower: &[u8], found: Outcome<Stat>) -> Outcome<Option<Kept<M>>> {
        let Some(node) = found.ok().and_then(|stat| self.nodes.known(&stat)) else { return Ok(None) };
        let fd = Arc::new(open_as(at, lower, node.which)?);
        let place = self.nodes.lost(&node, fd);
        Ok(Some(Kept { node, place }))
    }

    /// The name is still there.
    fn keep_no_longer(&self, kept: Option<Kept<M>>) {
        if let Some(Kept { node, place: Some(place) }) = kept {
            self.nodes.moved(&node, place);
        }
    }

    /// Gives something new to whoever made it, with the permissions that were asked for.
    fn hand_over(&self, fd: impl AsFd + Copy, owner: Owner, mode: Option<u32>) -> Outcome<()> {
        let stat = rustix::fs::fstat(fd)?;
        if self.is_root {
            let uid = (owner.uid != stat.st_uid).then_some(owner.uid);
            // Otherwise the directory has handed on its group.
            let own_group = rustix::process::getegid().as_raw() == stat.st_gid;
            let gid = (own_group && owner.gid != stat.st_gid).then_some(owner.gid);
            if uid.is_some() || gid.is_some() {
                self.chown(fd, uid, gid)?;
            }
        }
        if let Some(mode) = mode {
            // The set-group-ID bit of a directory is its parent's affair.
            let wanted = (mode & 0o7777) | (stat.st_mode & 0o2000);
            if rustix::fs::fstat(fd)?.st_mode & 0o7777 != wanted {
                let wanted = Mode::from_raw_mode(wanted);
                rustix::fs::chmodat(&self.opener.proc_fds, proc_name(fd), wanted, AtFlags::empty())?;
            }
        }
        Ok(())
    }
}

/// What is known, and is about to lose its name.
struct Kept<M: Layer> {
    node: Arc<LowerNode<M::File>>,
    place: Option<Place>,
}

pub(super) fn stat_at(parent: impl AsFd, lower: &[u8]) -> Outcome<Stat> {
    rustix::fs::statat(parent, OsStr::from_bytes(lower), AtFlags::SYMLINK_NOFOLLOW)
}

impl<M: Layer> PosixTree for LowerPosix<M> {
    fn is_writable(&self) -> bool {
        self.inner.opener.writable
    }

    fn lookup(&self, parent: Node, name: &[u8]) -> Outcome<Attributes> {
        let at = self.inner.directory(parent)?;
        self.inner.look_up((parent, &*at), name)
    }

    fn forget(&self, node: Node, times: u64) {
        self.inner.nodes.forget(node, times);
    }

    fn attributes(&self, node: Node) -> Outcome<Attributes> {
        self.inner.attributes_of(&*self.inner.nodes.get(node)?)
    }

    fn set_attributes(&self, node: Node, change: &Change) -> Outcome<Attributes> {
        self.inner.writable()?;
        let node = self.inner.nodes.get(node)?;
        self.inner.change(&node, change)?;
        self.inner.attributes_of(&node)
    }

    fn drop_set_ids(&self, node: Node) -> Outcome<()> {
        self.inner.drop_set_ids(&*self.inner.nodes.get(node)?)
    }

    fn read_link(&self, node: Node) -> Outcome<Vec<u8>> {
        self.inner.target(&*self.inner.nodes.get(node)?)
    }

    fn make(&self, parent: Node, name: &[u8], new: New<'_>, owner: Owner) -> Outcome<Attributes> {
        let inner = &*self.inner;
        inner.writable()?;
        let at = &*inner.directory(parent)?;
        let lower = inner.lower_name(at, name)?;
        let lower_name = OsStr::from_bytes(&lower);
        let mode = match new {
            New::Directory { mode } => {
                rustix::fs::mkdirat(at, lower_name, Mode::from_raw_mode(mode & 0o7777))?;
                Some(mode)
            }
            New::Node { mode, device } => {
                let kind = match FileType::from_raw_mode(mode) {
                    FileType::Unknown => FileType::RegularFile,
                    kind => kind,
                };
                rustix::fs::mknodat(at, lower_name, kind, Mode::from_raw_mode(mode & 0o7777), device.into())?;
                Some(mode)
            }
            New::Link { target } => {
                let target = inner.layer.lower_target(target)?;
                rustix::fs::symlinkat(OsStr::from_bytes(&target), at, lower_name)?;
                None
            }
        };
        // The descriptor of what was made, whatever has the name from now on.
        let made = rustix::fs::openat(at, lower_name, flags::INNER_PLACE, Mode::empty())?;
        inner.hand_over(&made, owner, mode)?;
        let stat = rustix::fs::fstat(&made)?;
        let node = inner.nodes.refer(Place::new(parent, &lower), &stat);
        inner.told(&node, &stat, || inner.opener.reopen(&made, OFlags::RDONLY))
    }

    fn create(&self, parent: Node, name: &[u8], mode: u32, owner: Owner) -> Outcome<(Attributes, Opened)> {
        let inner = &*self.inner;
        inner.writable()?;
        let at = &*inner.directory(parent)?;
        let lower = inner.lower_name(at, name)?;
        let permissions = Mode::from_raw_mode(mode & 0o7777);
        let file: File =
            rustix::fs::openat(at, OsStr::from_bytes(&lower), flags::NEW_FILE, permissions)?.into();
        inner.hand_over(&file, owner, Some(mode))?;
        // What was made, whatever has the name by now.
        let node = inner.nodes.refer(Place::new(parent, &lower), &rustix::fs::fstat(&file)?);
        let opened = inner.opener.open_new(&*inner.layer, &node, file);
        match opened.and_then(|opened| Ok((inner.attributes_of(&node)?, opened))) {
            Ok(created) => Ok(created),
            Err(error) => {
                inner.nodes.forget(node.number, 1);
                Err(error)
            }
        }
    }

    fn link(&self, node: Node, parent: Node, name: &[u8]) -> Outcome<Attributes> {
        let inner = &*self.inner;
        inner.writable()?;
        let (node, at) = (inner.nodes.get(node)?, &*inner.directory(parent)?);
        let place = inner.descriptor(&node)?;
        let lower = inner.lower_name(at, name)?;
        let lower_name = OsStr::from_bytes(&lower);
        if node.kind == FileType::Symlink {
            rustix::fs::linkat(&*place, "", at, lower_name, AtFlags::EMPTY_PATH)?;
        } else {
            let fds = &inner.opener.proc_fds;
            rustix::fs::linkat(fds, proc_name(&*place), at, lower_name, AtFlags::SYMLINK_FOLLOW)?;
        }
        inner.refer((parent, at), &lower)
    }

    fn remove(&self, parent: Node, name: &[u8], directory: bool) -> Outcome<()> {
        let inner = &*self.inner;
        inner.writable()?;
        let at = inner.directory(parent)?;
        let flags = if directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        let _alone = inner.names_go();
        let (lower, found) = inner.find(&*at, name)?;
        let kept = inner.keep(&*at, &lower, found)?;
        let removed = rustix::fs::unlinkat(&*at, OsStr::from_bytes(&lower), flags);
        if removed.is_err() {
            inner.keep_no_longer(kept);
        }
        removed
    }

    fn rename(&self, from: (Node, &[u8]), to: (Node, &[u8]), how: Rename) -> Outcome<()> {
        let inner = &*self.inner;
        inner.writable()?;
        let (at, new_at) = (inner.directory(from.0)?, inner.directory(to.0)?);
        let _alone = inner.names_go();
        let (lower, found) = inner.find(&*at, from.1)?;
        let (new_lower, there) = inner.find(&*new_at, to.1)?;
        let flags = match how {
            Rename::Replace => RenameFlags::empty(),
            Rename::NoReplace => RenameFlags::NOREPLACE,
            Rename::Exchange => RenameFlags::EXCHANGE,
        };
        let node = |found: Outcome<Stat>| found.ok().and_then(|stat| inner.nodes.known(&stat));
        let moved = node(found);
        // Of two names of one file none goes away.
        let is_other = |there: &Stat| found.is_ok_and(|found| Which::of(&found) != Which::of(there));
        let other = there.and_then(|there| if is_other(&there) { Ok(there) } else { Err(Errno::EXIST) });
        let kept = match how {
            Rename::Replace => inner.keep(&*new_at, &new_lower, other)?,
            Rename::NoReplace | Rename::Exchange => None,
        };
        let names = (OsStr::from_bytes(&lower), OsStr::from_bytes(&new_lower));
        if let Err(error) = rustix::fs::renameat_with(&*at, names.0, &*new_at, names.1, flags) {
            inner.keep_no_longer(kept);
            return Err(error);
        }
        if let Some(moved) = moved.filter(|_| there.is_err() || other.is_ok()) {
            inner.nodes.moved(&moved, Place::new(to.0, &new_lower));
        }
        if let Some(other) = node(other).filter(|_| how == Rename::Exchange) {
            inner.nodes.moved(&other, Place::new(from.0, &lower));
        }
        Ok(())
    }

    fn open(&self, node: Node, write: bool) -> Outcome<Opened> {
        let inner = &*self.inner;
        if write {
            inner.writable()?;
        }
        let node = inner.nodes.get(node)?;
        if !node.is_file() {
            return Err(Errno::INVAL);
        }
        inner.opener.open(&*inner.layer, (&node, &*inner.descriptor(&node)?), write)
    }

    fn open_directory(&self, node: Node) -> Outcome<Box<dyn PosixDirectory>> {
        let inner = &self.inner;
        let node = inner.nodes.refer_again(node)?;
        let opened =
            inner.descriptor(&node).and_then(|place| inner.opener.reopen(&*place, OFlags::DIRECTORY));
        match opened {
            Ok(directory) => Ok(Box::new(OpenDirectory::new(Arc::clone(inner), node.number, directory))),
            Err(error) => {
                inner.nodes.forget(node.number, 1);
                Err(error)
            }
        }
    }

    fn space(&self) -> Outcome<PosixSpace> {
        let found = rustix::fs::fstatvfs(&self.inner.root)?;
        let name_len = u32::try_from(found.f_namemax).unwrap_or(255);
        Ok(PosixSpace {
            block_size: u32::try_from(found.f_frsize).unwrap_or(4096),
            blocks: found.f_blocks,
            free: found.f_bfree,
            available: found.f_bavail,
            nodes: found.f_files,
            free_nodes: found.f_ffree,
            name_len: self.inner.layer.name_len(name_len),
        })
    }

    fn xattr(&self, node: Node, name: &[u8]) -> Outcome<Vec<u8>> {
        self.inner.xattr(&*self.inner.nodes.get(node)?, name)
    }

    fn xattrs(&self, node: Node) -> Outcome<Vec<u8>> {
        self.inner.xattrs(&*self.inner.nodes.get(node)?)
    }

    fn set_xattr(&self, node: Node, name: &[u8], value: &[u8], how: SetXattr) -> Outcome<()> {
        self.inner.writable()?;
        self.inner.set_xattr(&*self.inner.nodes.get(node)?, name, value, how)
    }

    fn remove_xattr(&self, node: Node, name: &[u8]) -> Outcome<()> {
        self.inner.writable()?;
        self.inner.remove_xattr(&*self.inner.nodes.get(node)?, name)
    }

    fn flush(&self) -> Outcome<()> {
        rustix::fs::syncfs(&self.inner.root)
    }
}

impl<M: Layer> fmt::Debug for LowerPosix<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LowerPosix").field("writable", &self.inner.opener.writable).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::FdFlags;

    use super::super::Identity;
    use super::super::attributes::open_to_read;
    use super::*;

    fn open() -> LowerPosix<Identity> {
        LowerPosix::open(Path::new("/proc/self/fdinfo"), Identity, false).expect("a directory")
    }

    /// As a process has one that is being started.
    #[test]
    fn the_lock_goes_with_the_tree_even_where_a_copy_of_its_descriptor_stays() {
        let scratch = atrest_testkit::Scratch::new();
        let tree = LowerPosix::open(scratch.as_path(), Identity, true).expect("it is free");
        let copy = rustix::io::dup(&tree.inner.root).expect("a descriptor");
        drop(tree);
        LowerPosix::open(scratch.as_path(), Identity, true).expect("it is free again");
        drop(copy);
    }

    #[test]
    fn no_descriptor_of_a_tree_goes_to_a_program_that_is_started() {
        let scratch = atrest_testkit::Scratch::new();
        scratch.file("file", b"contents");
        let tree = LowerPosix::open(scratch.as_path(), Identity, true).expect("it is free");
        let stays_here = |fd: &dyn AsFd| {
            let flags = rustix::io::fcntl_getfd(fd.as_fd()).expect("it is open");
            assert!(flags.contains(FdFlags::CLOEXEC));
        };
        let inner = &tree.inner;
        stays_here(&inner.root);
        stays_here(&inner.opener.proc_fds);
        let place = |number| {
            let node = inner.nodes.get(number).expect("it is known");
            inner.descriptor(&node).expect("it is there")
        };
        stays_here(&*place(Node::ROOT));
        let found = tree.lookup(Node::ROOT, b"file").expect("it is there").node;
        stays_here(&*place(found));
        stays_here(&inner.opener.reopen(&*place(found), OFlags::RDONLY).expect("readable"));
        let owner = Owner { uid: 0, gid: 0 };
        let (made, _opened) = tree.create(Node::ROOT, b"new", 0o600, owner).expect("room");
        let node = inner.nodes.get(made.node).expect("it is known");
        stays_here(&*place(made.node));
        let state = node.state();
        let (lower, _) = state.lower().expect("it is open");
        stays_here(&lower);
    }

    /// A file that nobody can write, not even root, is read; and a tree that is only read opens nothing to be written.
    #[test]
    fn what_can_not_be_written_is_opened_to_be_read_and_not_otherwise() {
        let scratch = atrest_testkit::Scratch::new();
        let directory = rustix::fs::openat(CWD, "/proc/sys/kernel", flags::DIRECTORY, Mode::empty());
        let directory = directory.expect("it is there");
        for (writable, refused) in [(true, Errno::ACCESS), (false, Errno::ROFS)] {
            let tree = LowerPosix::open(scratch.as_path(), Identity, writable).expect("it is free");
            let inner = &tree.inner;
            let place = open_to_read(&directory, b"osrelease").expect("every kernel has it");
            let stat = rustix::fs::fstat(&place).expect("it is open");
            let node = inner.nodes.refer(Place::new(Node::ROOT, b"osrelease"), &stat);
            let open = |write| inner.opener.open(&*inner.layer, (&node, &place), write);
            assert_eq!(open(true).map(drop), Err(refused));
            assert!(open(false).expect("readable").file.read_at(0, &mut [0; 4]).is_ok_and(|read| read > 0));
            assert_eq!(inner.opener.set_len(&*inner.layer, (&node, &place), 0), Err(refused));
        }
    }

    /// All who have a file open share one lower file: only that knows how long the contents are.
    #[test]
    fn a_lower_file_is_opened_once_however_many_have_it_open() {
        let scratch = atrest_testkit::Scratch::new();
        scratch.file("file", b"contents");
        let tree = LowerPosix::open(scratch.as_path(), Identity, true).expect("it is free");
        let number = tree.lookup(Node::ROOT, b"file").expect("it is there").node;
        let node = tree.inner.nodes.get(number).expect("it is known");
        let lower = || node.state().lower().map(|(file, _)| std::os::fd::AsRawFd::as_raw_fd(file));
        let first = tree.open(number, false).expect("ours");
        let opened = lower();
        assert!(opened.is_some());
        let others = [true, false, true].map(|write| {
            let handle = tree.open(number, write).expect("ours");
            assert_eq!(lower(), opened);
            handle
        });
        drop((first, others));
        assert_eq!(lower(), None, "it is closed with the last of them");
    }

    /// Open files take descriptors, and so does what is looked at.
    #[test]
    fn there_is_room_for_as_many_open_files_as_the_system_lets_there_be() {
        let limit = || rustix::process::getrlimit(Resource::Nofile);
        let maximum = limit().maximum;
        let less = maximum.unwrap_or(1 << 20) - 1;
        rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(less), maximum }).expect("less");
        drop(open());
        assert_eq!(limit().current, maximum);
    }

    /// Descriptors of this process for which a link below `/proc` begins so.
    fn descriptors(of: &Path) -> usize {
        let all = std::fs::read_dir("/proc/self/fd").expect("our own");
        all.filter(|fd| {
            let link = fd.as_ref().ok().and_then(|fd| std::fs::read_link(fd.path()).ok());
            link.is_some_and(|link| link.starts_with(of))
        })
        .count()
    }

    #[test]
    fn no_more_descriptors_are_held_than_was_said_however_many_nodes_are_known() {
        let scratch = atrest_testkit::Scratch::new();
        let top = scratch.directory("top");
        let tree = LowerPosix::open_holding(&top, Identity, true, 3).expect("it is free");
        // One that serves as the lock, and one of the top itself.
        let before = descriptors(&top);
        assert_eq!(before, 2);
        let owner = Owner { uid: 0, gid: 0 };
        let mut parent = Node::ROOT;
        let mut nodes = Vec::new();
        for depth in 0..20_u8 {
            parent = tree
                .make(parent, &[b'd', b'a' + depth], New::Directory { mode: 0o700 }, owner)
                .expect("room")
                .node;
            nodes.push(parent);
            let (made, opened) = tree.create(parent, b"file", 0o600, owner).expect("room");
            opened.file.write_at(0, &[depth]).expect("room");
            nodes.push(made.node);
        }
        assert!(descriptors(&top) <= before + 3);
        for (index, node) in nodes.iter().enumerate().rev() {
            let found = tree.attributes(*node).expect("it is there").metadata;
            assert_eq!(found.size == 1, index % 2 == 1);
            tree.set_attributes(*node, &Change { mode: Some(0o711), ..Change::default() })
                .expect("it is ours");
            let Ok(opened) = tree.open(*node, false) else { continue };
            let mut byte = [0];
            opened.file.read_at(0, &mut byte).expect("readable");
            assert_eq!(usize::from(byte[0]), index / 2);
            drop(opened);
            assert!(descriptors(&top) <= before + 3, "{}", descriptors(&top));
        }
        // What has lost its name keeps one beyond those, and is still itself.
        let files: Vec<Node> = nodes.iter().copied().skip(1).step_by(2).collect();
        for (depth, file) in files.iter().enumerate() {
            tree.remove(nodes[2 * depth], b"file", false).expect("it is there");
            assert_eq!(tree.attributes(*file).expect("it is known").metadata.links, 0);
        }
        assert!(descriptors(&top) >= before + files.len());
        files.iter().for_each(|file| tree.forget(*file, 1));
        assert!(descriptors(&top) <= before + 3);
    }
}
