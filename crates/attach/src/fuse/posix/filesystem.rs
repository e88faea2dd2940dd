//! A tree with POSIX behaviour, as the kernel asks for it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use atrest_filetree::posix::{
    Attributes, Change, EntrySink, Look, New, Node, Opened, Owner, PosixDirectory, PosixEntry, PosixFile,
    PosixSpace, PosixTree, Rename, SetXattr,
};
use atrest_filetree::{Cursor, Kind};
use rustix::io::Errno;

use super::handles::Handles;
use crate::fuse::filesystem::{Answer, Caller, Filesystem, NewBytes, OpenHandle};
use crate::fuse::looks::Looks;
use crate::fuse::protocol::abi::{init_flag, open_flag};
use crate::fuse::protocol::{FileAttributes, Listing};

/// How long the kernel may believe names and attributes: whoever changes the lower directory is seen after so long.
const LIFETIME: Duration = Duration::from_secs(1);

pub(in super::super) struct PosixDirectoryServer {
    tree: Arc<dyn PosixTree>,
    files: Handles<dyn PosixFile>,
    directories: Handles<dyn PosixDirectory>,
    looks: Looks,
}

impl PosixDirectoryServer {
    pub fn new(tree: Arc<dyn PosixTree>) -> Self {
        Self { tree, files: Handles::default(), directories: Handles::default(), looks: Looks::default() }
    }

    fn file(&self, opened: Opened) -> OpenHandle {
        // What is written is with the tree already: nothing is to be done on close.
        let kept = if opened.unchanged { open_flag::KEEP_CACHE } else { 0 };
        OpenHandle { number: self.files.add(Arc::from(opened.file)), flags: open_flag::NOFLUSH | kept }
    }

    /// Before a change that the kernel sends without saying whether set-ID bits may stand: they may where root asks.
    fn before_change(&self, caller: Caller, node: u64) -> Answer<()> {
        if caller.uid == 0 { Ok(()) } else { self.tree.drop_set_ids(Node(node)) }
    }
}

fn writes(flags: u32) -> bool {
    flags.cast_signed() & libc::O_ACCMODE != libc::O_RDONLY
}

fn described(attributes: &Attributes) -> FileAttributes {
    let metadata = &attributes.metadata;
    FileAttributes {
        node: attributes.node.0,
        kind: metadata.kind,
        permissions: metadata.mode.into(),
        links: metadata.links,
        uid: metadata.uid,
        gid: metadata.gid,
        // Linux's numbers of devices have 32 bits on this way.
        device: attributes.device as u32,
        size: metadata.size,
        blocks: metadata.allocated.div_ceil(512),
        accessed: metadata.accessed,
        modified: metadata.modified,
        changed: metadata.changed,
    }
}

impl Filesystem for PosixDirectoryServer {
    fn wishes(&self) -> u64 {
        // Without the second the kernel asks for `security.capability` before every write.
        init_flag::PARALLEL_DIROPS | init_flag::HANDLE_KILLPRIV_V2 | init_flag::DO_READDIRPLUS
    }

    fn lifetime(&self) -> Duration {
        LIFETIME
    }

    fn lookup(&self, parent: u64, name: &[u8]) -> Answer<FileAttributes> {
        let found = self.tree.lookup(Node(parent), name)?;
        if found.metadata.kind != Kind::Directory {
            self.looks.at_look(parent);
        }
        Ok(described(&found))
    }

    fn forget(&self, node: u64, times: u64) {
        self.tree.forget(Node(node), times);
    }

    fn attributes(&self, node: u64) -> Answer<FileAttributes> {
        self.tree.attributes(Node(node)).map(|found| described(&found))
    }

    fn set_attributes(
        &self,
        caller: Caller,
        node: u64,
        _handle: Option<u64>,
        change: &Change,
    ) -> Answer<FileAttributes> {
        if change.size.is_some() {
            self.before_change(caller, node)?;
        }
        self.tree.set_attributes(Node(node), change).map(|found| described(&found))
    }

    fn read_link(&self, node: u64) -> Answer<Vec<u8>> {
        self.tree.read_link(Node(node))
    }

    fn make(&self, caller: Caller, parent: u64, name: &[u8], new: New<'_>) -> Answer<FileAttributes> {
        let owner = Owner { uid: caller.uid, gid: caller.gid };
        self.tree.make(Node(parent), name, new, owner).map(|made| described(&made))
    }

    fn link(&self, node: u64, parent: u64, name: &[u8]) -> Answer<FileAttributes> {
        self.tree.link(Node(node), Node(parent), name).map(|found| described(&found))
    }

    fn remove(&self, parent: u64, name: &[u8], directory: bool) -> Answer<()> {
        self.tree.remove(Node(parent), name, directory)
    }

    fn rename(&self, from: (u64, &[u8]), to: (u64, &[u8]), flags: u32) -> Answer<()> {
        let how = match flags {
            0 => Rename::Replace,
            libc::RENAME_NOREPLACE => Rename::NoReplace,
            libc::RENAME_EXCHANGE => Rename::Exchange,
            _ => return Err(Errno::INVAL),
        };
        self.tree.rename((Node(from.0), from.1), (Node(to.0), to.1), how)
    }

    fn open(&self, _caller: Caller, node: u64, flags: u32) -> Answer<OpenHandle> {
        self.tree.open(Node(node), writes(flags)).map(|opened| self.file(opened))
    }

    fn create(
        &self,
        caller: Caller,
        parent: u64,
        name: &[u8],
        mode: u32,
        flags: u32,
    ) -> Answer<(FileAttributes, OpenHandle)> {
        let parent = Node(parent);
        let owner = Owner { uid: caller.uid, gid: caller.gid };
        let (attributes, opened) = match self.tree.create(parent, name, mode, owner) {
            // Somebody else made it after the kernel had looked.
            Err(Errno::EXIST) if flags.cast_signed() & libc::O_EXCL == 0 => {
                let attributes = self.tree.lookup(parent, name)?;
                let opened = self.tree.open(attributes.node, writes(flags));
                if opened.is_err() {
                    self.tree.forget(attributes.node, 1);
                }
                (attributes, opened?)
            }
            created => created?,
        };
        Ok((described(&attributes), self.file(opened)))
    }

    fn read(&self, _node: u64, handle: u64, offset: u64, room: &mut [u8]) -> Answer<usize> {
        self.files.get(handle)?.read_at(offset, room)
    }

    fn write(&self, node: u64, handle: u64, bytes: NewBytes<'_>) -> Answer<usize> {
        if bytes.kill_set_ids {
            self.tree.drop_set_ids(Node(node))?;
        }
        // With O_SYNC and O_DSYNC the kernel asks for a sync by itself.
        self.files.get(handle)?.write_at(bytes.offset, bytes.data)?;
        Ok(bytes.data.len())
    }

    /// Kernels that don't know [`open_flag::NOFLUSH`] ask.
    fn flush(&self, _node: u64, _handle: u64) -> Answer<()> {
        Ok(())
    }

    fn sync(&self, _node: u64, handle: u64, data_only: bool) -> Answer<()> {
        self.files.get(handle)?.sync(data_only)
    }

    fn release(&self, handle: u64) {
        self.files.remove(handle);
    }

    fn allocate(&self, caller: Caller, node: u64, handle: u64, range: (u64, u64), mode: u32) -> Answer<()> {
        let file = self.files.get(handle)?;
        self.before_change(caller, node)?;
        file.allocate(mode, range.0, range.1)
    }

    fn open_directory(&self, node: u64) -> Answer<OpenHandle> {
        let directory = self.tree.open_directory(Node(node))?;
        Ok(OpenHandle { number: self.directories.add(Arc::from(directory)), flags: 0 })
    }

    fn list(&self, node: u64, handle: u64, offset: u64, listing: &mut Listing<'_>) -> Answer<()> {
        let attributes = listing.takes_attributes() && self.looks.at_listing(node);
        let look = if attributes { Look::Attributes } else { Look::Names };
        self.directories.get(handle)?.read(Cursor(offset), look, &mut Sink(listing))
    }

    fn sync_directory(&self, _node: u64, handle: u64, _data_only: bool) -> Answer<()> {
        self.directories.get(handle)?.sync()
    }

    fn release_directory(&self, handle: u64) {
        self.directories.remove(handle);
    }

    fn space(&self) -> Answer<PosixSpace> {
        self.tree.space()
    }

    fn xattr(&self, node: u64, name: &[u8]) -> Answer<Vec<u8>> {
        self.tree.xattr(Node(node), name)
    }

    fn xattrs(&self, node: u64) -> Answer<Vec<u8>> {
        self.tree.xattrs(Node(node))
    }

    fn set_xattr(&self, node: u64, name: &[u8], value: &[u8], how: SetXattr) -> Answer<()> {
        self.tree.set_xattr(Node(node), name, value, how)
    }

    fn remove_xattr(&self, node: u64, name: &[u8]) -> Answer<()> {
        self.tree.remove_xattr(Node(node), name)
    }
}

/// Fills the kernel's listing with a directory's entries.
struct Sink<'a, 'b>(&'a mut Listing<'b>);

impl EntrySink for Sink<'_, '_> {
    fn has_room(&self, name: &[u8]) -> bool {
        self.0.has_room(name)
    }

    fn take(&mut self, entry: &PosixEntry) -> ControlFlow<()> {
        let taken = match &entry.attributes {
            Some(attributes) => self.0.add_found(&described(attributes), entry.next.0, &entry.name),
            None => self.0.add(entry.node.0, entry.next.0, entry.kind, &entry.name),
        };
        if taken { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}
