//! The trait behind which trees with POSIX behaviour stand: nodes that keep their identity, and open files.
//!
//! A [`FileTree`](crate::FileTree) is asked by paths. Here a node stays what it is while it is renamed, and while it is open also
//! after its last name is gone, as programs expect of a mounted filesystem. Errors are the system's numbers: they go to programs.

use core::ops::ControlFlow;

use crate::{Cursor, Kind, Metadata, Timestamp};

pub use rustix::io::Errno;

/// What an operation yields.
pub type Outcome<T> = Result<T, Errno>;

/// The number of a file, link or directory, as `stat` shows it: two names with one number are one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node(pub u64);

impl Node {
    /// The tree's top.
    pub const ROOT: Self = Self(1);
}

/// A tree of files that many threads use at once.
///
/// Names are single components. Each successful [`lookup`](Self::lookup), [`make`](Self::make), [`create`](Self::create) and
/// [`link`](Self::link) is a reference that keeps the node until [`forget`](Self::forget) gives it back. Permissions are the
/// caller's affair.
///
/// # Errors
/// Each method names the numbers of its own. These are common to all:
///
/// * [`Errno::STALE`]: no reference to the node is left.
/// * [`Errno::NOENT`], [`Errno::NOTDIR`], [`Errno::NAMETOOLONG`] or [`Errno::INVAL`]: the name leads nowhere, or can't be one.
/// * [`Errno::ROFS`]: something was to be changed in a tree that is only read.
/// * [`Errno::NOKEY`]: no key that is here opens it.
/// * [`Errno::IO`]: what is stored is damaged.
/// * Whatever number the system gives for what the tree lies on, as [`Errno::NOSPC`] or [`Errno::ACCESS`].
pub trait PosixTree: Send + Sync {
    /// Whether anything can be changed.
    fn is_writable(&self) -> bool;

    /// What a name in a directory stands for.
    ///
    /// # Errors
    /// [`Errno::NOENT`] if there is no such name, and those of every method ([`PosixTree`]).
    fn lookup(&self, parent: Node, name: &[u8]) -> Outcome<Attributes>;

    /// Gives back so many references.
    fn forget(&self, node: Node, times: u64);

    /// What is known about a node.
    ///
    /// # Errors
    /// Those of every method ([`PosixTree`]).
    fn attributes(&self, node: Node) -> Outcome<Attributes>;

    /// Changes attributes, the size among them, and returns what they are then.
    ///
    /// # Errors
    /// [`Errno::INVAL`] for a size of what is no file, [`Errno::FBIG`] for one that no file has, [`Errno::PERM`] where the
    /// process may not give files away, and those of every method ([`PosixTree`]).
    fn set_attributes(&self, node: Node, change: &Change) -> Outcome<Attributes>;

    /// Takes the set-user-ID and set-group-ID bits off a file, as before a change of its contents by somebody who may not let
    /// them stand.
    ///
    /// # Errors
    /// Those of every method ([`PosixTree`]).
    fn drop_set_ids(&self, node: Node) -> Outcome<()>;

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// [`Errno::INVAL`] or [`Errno::NOENT`] if it is no symbolic link, and those of every method ([`PosixTree`]).
    fn read_link(&self, node: Node) -> Outcome<Vec<u8>>;

    /// Makes what is not opened at once.
    ///
    /// # Errors
    /// [`Errno::EXIST`] if the name is taken, [`Errno::PERM`] for a device that the process may not make, and those of every
    /// method ([`PosixTree`]).
    fn make(&self, parent: Node, name: &[u8], new: New<'_>, owner: Owner) -> Outcome<Attributes>;

    /// Makes a file of these permissions and opens it for reading and writing.
    ///
    /// # Errors
    /// [`Errno::EXIST`] if the name is taken, and those of every method ([`PosixTree`]).
    fn create(&self, parent: Node, name: &[u8], mode: u32, owner: Owner) -> Outcome<(Attributes, Opened)>;

    /// Gives a node another name.
    ///
    /// # Errors
    /// [`Errno::EXIST`] if the name is taken, [`Errno::PERM`] for a directory, [`Errno::MLINK`] if a node can have no more names,
    /// and those of every method ([`PosixTree`]).
    fn link(&self, node: Node, parent: Node, name: &[u8]) -> Outcome<Attributes>;

    /// Removes a name: of an empty directory, or of something else.
    ///
    /// # Errors
    /// [`Errno::NOTEMPTY`] for a directory that holds something, [`Errno::ISDIR`] or [`Errno::NOTDIR`] if it is not what
    /// `directory` says, and those of every method ([`PosixTree`]).
    fn remove(&self, parent: Node, name: &[u8], directory: bool) -> Outcome<()>;

    /// Moves a name.
    ///
    /// # Errors
    /// [`Errno::EXIST`] with [`Rename::NoReplace`] if the new name is taken, [`Errno::NOTEMPTY`], [`Errno::ISDIR`] or
    /// [`Errno::NOTDIR`] if what has it can't be replaced, [`Errno::INVAL`] for a directory that would be below itself, and
    /// those of every method ([`PosixTree`]).
    fn rename(&self, from: (Node, &[u8]), to: (Node, &[u8]), how: Rename) -> Outcome<()>;

    /// Opens a file for reading, or for reading and writing.
    ///
    /// # Errors
    /// [`Errno::INVAL`] if it is no file, [`Errno::ACCESS`] or [`Errno::ROFS`] if it can't be written, and those of every method
    /// ([`PosixTree`]).
    fn open(&self, node: Node, write: bool) -> Outcome<Opened>;

    /// Opens a directory.
    ///
    /// # Errors
    /// [`Errno::NOTDIR`] if it is none, and those of every method ([`PosixTree`]).
    fn open_directory(&self, node: Node) -> Outcome<Box<dyn PosixDirectory>>;

    /// How full the filesystem is.
    ///
    /// # Errors
    /// Those of every method ([`PosixTree`]).
    fn space(&self) -> Outcome<PosixSpace>;

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// [`Errno::NODATA`] if there is none of this name, [`Errno::OPNOTSUPP`] where there can be none, and those of every method
    /// ([`PosixTree`]).
    fn xattr(&self, node: Node, name: &[u8]) -> Outcome<Vec<u8>>;

    /// Names of extended attributes, each followed by a zero.
    ///
    /// # Errors
    /// [`Errno::OPNOTSUPP`] where there can be none, and those of every method ([`PosixTree`]).
    fn xattrs(&self, node: Node) -> Outcome<Vec<u8>>;

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// [`Errno::EXIST`] with [`SetXattr::Create`], [`Errno::NODATA`] with [`SetXattr::Replace`], [`Errno::PERM`] for one that is the
    /// tree's own, [`Errno::OPNOTSUPP`] where there can be none, and those of every method ([`PosixTree`]).
    fn set_xattr(&self, node: Node, name: &[u8], value: &[u8], how: SetXattr) -> Outcome<()>;

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// [`Errno::NODATA`] if there is none of this name, and those of every method ([`PosixTree`]).
    fn remove_xattr(&self, node: Node, name: &[u8]) -> Outcome<()>;

    /// Makes everything durable.
    ///
    /// # Errors
    /// The system's number if what the tree lies on can't be made durable: what was written may be lost.
    fn flush(&self) -> Outcome<()>;
}

/// An open file; it lives on without a name.
pub trait PosixFile: Send + Sync {
    /// Reads until `buf` is full or the file ends, and returns how much there was.
    ///
    /// # Errors
    /// [`Errno::BADF`] if the file was not opened to be read, [`Errno::IO`] if its contents are damaged, and the system's numbers.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Outcome<usize>;

    /// Writes all of `data`; what is between the file's end and `offset` reads as zeros then.
    ///
    /// # Errors
    /// [`Errno::BADF`] or [`Errno::ROFS`] if the file was not opened to be written, [`Errno::FBIG`] beyond the largest size, and the
    /// system's numbers, as [`Errno::NOSPC`]. A part of `data` may have been written then.
    fn write_at(&self, offset: u64, data: &[u8]) -> Outcome<()>;

    /// Makes the contents durable, and unless `data_only` is set, all attributes.
    ///
    /// # Errors
    /// The system's number: what was written may be lost.
    fn sync(&self, data_only: bool) -> Outcome<()>;

    /// `fallocate(2)` with its mode bits.
    ///
    /// # Errors
    /// [`Errno::OPNOTSUPP`] for modes that there are not here, [`Errno::FBIG`] beyond the largest size, and the system's numbers.
    fn allocate(&self, mode: u32, offset: u64, len: u64) -> Outcome<()>;
}

/// An open directory.
pub trait PosixDirectory: Send + Sync {
    /// Hands over the entries from a place on, `.` and `..` among them, until there are no more or `sink` has no room. `sink` must
    /// not ask the directory for anything.
    ///
    /// [`Cursor::START`] reads what is there now. Behind every entry is a place from which a later call goes on, as long as the
    /// directory is open. What is in it all the time comes exactly once on the way from the start to the end, whatever is
    /// added and removed meanwhile. No more than a few entries are in memory.
    ///
    /// # Errors
    /// The system's number if the directory can't be read. Once an entry was taken, the next call fails instead.
    fn read(&self, from: Cursor, look: Look, sink: &mut dyn EntrySink) -> Outcome<()>;

    /// The names in it, without `.` and `..`, all at once: where it is known that they are not many.
    ///
    /// # Errors
    /// The system's number if the directory can't be read.
    fn entries(&self) -> Outcome<Vec<PosixEntry>> {
        let (mut entries, mut from) = (Vec::new(), Cursor::START);
        loop {
            let before = from;
            self.read(from, Look::Names, &mut |entry: &PosixEntry| {
                from = entry.next;
                if !matches!(&entry.name[..], b"." | b"..") {
                    entries.push(entry.clone());
                }
                ControlFlow::Continue(())
            })?;
            if from == before {
                return Ok(entries);
            }
        }
    }

    /// Makes its names durable.
    ///
    /// # Errors
    /// The system's number: names may be lost.
    fn sync(&self) -> Outcome<()>;
}

/// Takes the entries of a directory.
pub trait EntrySink {
    /// Whether there is room for an entry of this name. Where there is not, nobody looks for what it stands for.
    fn has_room(&self, _name: &[u8]) -> bool {
        true
    }

    /// Takes an entry. If it breaks off instead, the entry is not taken and is no reference.
    fn take(&mut self, entry: &PosixEntry) -> ControlFlow<()>;
}

impl<F: FnMut(&PosixEntry) -> ControlFlow<()>> EntrySink for F {
    fn take(&mut self, entry: &PosixEntry) -> ControlFlow<()> {
        self(entry)
    }
}

/// What is wanted of the entries of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Their names.
    Names,
    /// Their attributes as well, as [`PosixTree::lookup`] gives them: each entry that is taken with attributes is a reference.
    Attributes,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PosixEntry {
    /// The name.
    pub name: Vec<u8>,
    /// What it names, where the directory says so.
    pub kind: Option<Kind>,
    /// Its node's number.
    pub node: Node,
    /// What it looks like, if that was asked for and can be told. It never is of `.` and `..`.
    pub attributes: Option<Attributes>,
    /// The place behind it.
    pub next: Cursor,
}

/// What `stat` shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The node's number.
    pub node: Node,
    /// Kind, size, owner, permissions and times.
    pub metadata: Metadata,
    /// Which device a device node stands for, as `st_rdev` has it.
    pub device: u64,
}

/// What is made without being opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum New<'a> {
    /// A directory with these permissions.
    Directory {
        /// Permission bits.
        mode: u32,
    },
    /// A file, pipe, socket or device node.
    Node {
        /// Type and permission bits, as `mknod(2)` takes them.
        mode: u32,
        /// Which device.
        device: u32,
    },
    /// A symbolic link.
    Link {
        /// What it points to.
        target: &'a [u8],
    },
}

/// Who makes something. Followed where the process may give files away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group; a directory with the set-group-ID bit hands on its own instead.
    pub gid: u32,
}

/// Attributes to be set; others stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Permission bits.
    pub mode: Option<u32>,
    /// User.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes of contents.
    pub size: Option<u64>,
    /// Last access.
    pub accessed: Option<NewTime>,
    /// Last change of the contents.
    pub modified: Option<NewTime>,
}

/// A time to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewTime {
    /// The time at which it is set.
    Now,
    /// This one.
    At(Timestamp),
}

/// What a rename does with a name that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rename {
    /// Replaces it.
    Replace,
    /// Fails ([`Errno::EXIST`]).
    NoReplace,
    /// Both change places.
    Exchange,
}

/// Whether an extended attribute may be there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetXattr {
    /// It may or may not.
    Any,
    /// It must not.
    Create,
    /// It must.
    Replace,
}

/// A file that was opened.
pub struct Opened {
    /// To read and write it.
    pub file: Box<dyn PosixFile>,
    /// Nobody else has changed the contents since it was open last: what is cached of them is right.
    pub unchanged: bool,
}

/// How full a filesystem is, and how long its names may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PosixSpace {
    /// Bytes in a block.
    pub block_size: u32,
    /// Blocks in all.
    pub blocks: u64,
    /// Blocks that are free.
    pub free: u64,
    /// Blocks that are free for everybody.
    pub available: u64,
    /// Nodes that there can be.
    pub nodes: u64,
    /// Nodes that can still be made.
    pub free_nodes: u64,
    /// Bytes in the longest name.
    pub name_len: u32,
}
