//! The tree itself.

use core::fmt;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use atrest_filetree::is_valid_name;
use atrest_filetree::posix::{
    Attributes, Change, Errno, New, Node, Opened, Outcome, Owner, PosixDirectory, PosixSpace, PosixTree,
    Rename, SetXattr,
};
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat};
use rustix::process::{Resource, Rlimit};

use super::Layer;
use super::directory::OpenDirectory;
use super::nodes::{LowerNode, Nodes};
use super::open::Opener;
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

/// A lower directory with POSIX behaviour, through a layer.
pub struct LowerPosix<M: Layer> {
    inner: Arc<Inner<M>>,
}

pub(super) struct Inner<M: Layer> {
    pub layer: Arc<M>,
    pub nodes: Nodes<M::File>,
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
        raise_limit();
        let inner = Inner {
            layer: Arc::new(layer),
            nodes: Nodes::new(node, &stat),
            opener: Opener { proc_fds, writable },
            root,
            is_root: rustix::process::geteuid().is_root(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }
}

/// Every node that the kernel knows holds a descriptor.
fn raise_limit() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let highest = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // Without more of them, fewer nodes can be known at once.
    let _ = rustix::process::setrlimit(Resource::Nofile, highest);
}

impl<M: Layer> Inner<M> {
    fn writable(&self) -> Outcome<()> {
        if self.opener.writable { Ok(()) } else { Err(Errno::ROFS) }
    }

    /// The node under a name of the lower directory, with one reference more.
    fn refer(&self, parent: impl AsFd, lower: &[u8]) -> Outcome<Arc<LowerNode<M::File>>> {
        let fd = rustix::fs::openat(parent, OsStr::from_bytes(lower), flags::INNER_PLACE, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        Ok(self.nodes.refer(fd, &stat))
    }

    /// What a node that was just referred to looks like.
    fn told(&self, node: &LowerNode<M::File>) -> Outcome<Attributes> {
        let attributes = self.attributes_of(node);
        if attributes.is_err() {
            self.nodes.forget(node.number, 1);
        }
        attributes
    }

    /// The name in the lower directory of an entry that there may be. One that the layer would not have made is found, too.
    fn lower_name<'a>(&self, parent: impl AsFd, name: &'a [u8]) -> Outcome<Cow<'a, [u8]>> {
        if !is_valid_name(name) {
            return Err(if name.len() > 255 { Errno::NAMETOOLONG } else { Errno::INVAL });
        }
        let mapped = self.layer.lower_name(name);
        if mapped.as_ref().is_ok_and(|mapped| **mapped == *name) {
            return mapped;
        }
        let is_there = |lower: &[u8]| stat_at(&parent, lower).is_ok();
        if mapped.as_ref().is_ok_and(|mapped| is_there(mapped)) {
            return mapped;
        }
        if *self.layer.plain_name(name) == *name && is_there(name) {
            return Ok(Cow::Borrowed(name));
        }
        mapped
    }

    /// Gives something new to whoever made it, with the permissions that were asked for.
    fn hand_over(
        &self,
        fd: impl AsFd + Copy,
        proc_name: &str,
        owner: Owner,
        mode: Option<u32>,
    ) -> Outcome<()> {
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
                rustix::fs::chmodat(&self.opener.proc_fds, proc_name, wanted, AtFlags::empty())?;
            }
        }
        Ok(())
    }
}

fn stat_at(parent: impl AsFd, lower: &[u8]) -> Outcome<Stat> {
    rustix::fs::statat(parent, OsStr::from_bytes(lower), AtFlags::SYMLINK_NOFOLLOW)
}

impl<M: Layer> PosixTree for LowerPosix<M> {
    fn is_writable(&self) -> bool {
        self.inner.opener.writable
    }

    fn lookup(&self, parent: Node, name: &[u8]) -> Outcome<Attributes> {
        let parent = self.inner.nodes.get(parent)?;
        let lower = self.inner.lower_name(&parent.fd, name)?;
        let node = self.inner.refer(&parent.fd, &lower)?;
        self.inner.told(&node)
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
        let parent = inner.nodes.get(parent)?;
        let lower = inner.lower_name(&parent.fd, name)?;
        let (at, lower_name) = (&parent.fd, OsStr::from_bytes(&lower));
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
        let node = inner.refer(at, &lower)?;
        let handed = inner.hand_over(node.fd.as_fd(), &node.proc_name(), owner, mode);
        if let Err(error) = handed {
            inner.nodes.forget(node.number, 1);
            return Err(error);
        }
        inner.told(&node)
    }

    fn create(&self, parent: Node, name: &[u8], mode: u32, owner: Owner) -> Outcome<(Attributes, Opened)> {
        let inner = &*self.inner;
        inner.writable()?;
        let parent = inner.nodes.get(parent)?;
        let lower = inner.lower_name(&parent.fd, name)?;
        let permissions = Mode::from_raw_mode(mode & 0o7777);
        let file: File =
            rustix::fs::openat(&parent.fd, OsStr::from_bytes(&lower), flags::NEW_FILE, permissions)?.into();
        // The descriptor of what was made, not of what has the name by now.
        let stat = rustix::fs::fstat(&file)?;
        let proc_name = std::os::fd::AsRawFd::as_raw_fd(&file).to_string();
        let fd = rustix::fs::openat(&inner.opener.proc_fds, proc_name, flags::PLACE, Mode::empty())?;
        let node = inner.nodes.refer(fd, &stat);
        let opened = inner
            .hand_over(node.fd.as_fd(), &node.proc_name(), owner, Some(mode))
            .and_then(|()| inner.opener.open(&*inner.layer, &node, true, Some(file)));
        match opened {
            Ok(opened) => Ok((inner.told(&node)?, opened)),
            Err(error) => {
                inner.nodes.forget(node.number, 1);
                Err(error)
            }
        }
    }

    fn link(&self, node: Node, parent: Node, name: &[u8]) -> Outcome<Attributes> {
        let inner = &*self.inner;
        inner.writable()?;
        let (node, parent) = (inner.nodes.get(node)?, inner.nodes.get(parent)?);
        let lower = inner.lower_name(&parent.fd, name)?;
        let lower_name = OsStr::from_bytes(&lower);
        if node.kind == FileType::Symlink {
            rustix::fs::linkat(&node.fd, "", &parent.fd, lower_name, AtFlags::EMPTY_PATH)?;
        } else {
            let (fds, found) = (&inner.opener.proc_fds, node.proc_name());
            rustix::fs::linkat(fds, found, &parent.fd, lower_name, AtFlags::SYMLINK_FOLLOW)?;
        }
        let node = inner.refer(&parent.fd, &lower)?;
        inner.told(&node)
    }

    fn remove(&self, parent: Node, name: &[u8], directory: bool) -> Outcome<()> {
        self.inner.writable()?;
        let parent = self.inner.nodes.get(parent)?;
        let lower = self.inner.lower_name(&parent.fd, name)?;
        let flags = if directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        rustix::fs::unlinkat(&parent.fd, OsStr::from_bytes(&lower), flags)
    }

    fn rename(&self, from: (Node, &[u8]), to: (Node, &[u8]), how: Rename) -> Outcome<()> {
        let inner = &*self.inner;
        inner.writable()?;
        let (parent, new_parent) = (inner.nodes.get(from.0)?, inner.nodes.get(to.0)?);
        let lower = inner.lower_name(&parent.fd, from.1)?;
        let new_lower = inner.lower_name(&new_parent.fd, to.1)?;
        let flags = match how {
            Rename::Replace => RenameFlags::empty(),
            Rename::NoReplace => RenameFlags::NOREPLACE,
            Rename::Exchange => RenameFlags::EXCHANGE,
        };
        let (lower, new_lower) = (OsStr::from_bytes(&lower), OsStr::from_bytes(&new_lower));
        rustix::fs::renameat_with(&parent.fd, lower, &new_parent.fd, new_lower, flags)
    }

    fn open(&self, node: Node, write: bool) -> Outcome<Opened> {
        let inner = &*self.inner;
        if write {
            inner.writable()?;
        }
        inner.opener.open(&*inner.layer, &inner.nodes.get(node)?, write, None)
    }

    fn open_directory(&self, node: Node) -> Outcome<Box<dyn PosixDirectory>> {
        let node = self.inner.nodes.get(node)?;
        let directory = self.inner.opener.reopen(&node, OFlags::DIRECTORY)?;
        Ok(Box::new(OpenDirectory { tree: Arc::clone(&self.inner), directory }))
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
        stays_here(&inner.nodes.get(Node::ROOT).expect("the top").fd);
        let found = tree.lookup(Node::ROOT, b"file").expect("it is there").node;
        let node = inner.nodes.get(found).expect("it is known");
        stays_here(&node.fd);
        stays_here(&inner.opener.reopen(&node, OFlags::RDONLY).expect("readable"));
        let owner = Owner { uid: 0, gid: 0 };
        let (made, _opened) = tree.create(Node::ROOT, b"new", 0o600, owner).expect("room");
        let node = inner.nodes.get(made.node).expect("it is known");
        stays_here(&node.fd);
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
            let node = inner.refer(&directory, b"osrelease").expect("every kernel has it");
            let open = |write| inner.opener.open(&*inner.layer, &node, write, None);
            assert_eq!(open(true).map(drop), Err(refused));
            assert!(open(false).expect("readable").file.read_at(0, &mut [0; 4]).is_ok_and(|read| read > 0));
            assert_eq!(inner.opener.set_len(&*inner.layer, &node, 0), Err(refused));
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

    /// Every node that is known holds a descriptor.
    #[test]
    fn there_is_room_for_as_many_nodes_as_the_system_lets_there_be() {
        let limit = || rustix::process::getrlimit(Resource::Nofile);
        let maximum = limit().maximum;
        let less = maximum.unwrap_or(1 << 20) - 1;
        rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(less), maximum }).expect("less");
        drop(open());
        assert_eq!(limit().current, maximum);
    }
}
