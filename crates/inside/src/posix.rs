//! The trait behind which trees with POSIX behaviour stand: nodes that keep their identity, and open files.
//!
//! A [`FileTree`](crate::FileTree) is asked by paths. Here a node stays what it is while it is renamed, and while it is open also
//! after its last name is gone, as programs expect of a mounted filesystem. Errors are the system's numbers: they go to programs.

use crate::{Kind, Metadata, Timestamp};

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
pub trait PosixTree: Send + Sync {
    /// Whether anything can be changed.
    fn is_writable(&self) -> bool;

    /// What a name in a directory stands for.
    fn lookup(&self, parent: Node, name: &[u8]) -> Outcome<Attributes>;

    /// Gives back so many references.
    fn forget(&self, node: Node, times: u64);

    /// What is known about a node.
    fn attributes(&self, node: Node) -> Outcome<Attributes>;

    /// Changes attributes, the size among them, and returns what they are then.
    fn set_attributes(&self, node: Node, change: &Change) -> Outcome<Attributes>;

    /// Takes the set-user-ID and set-group-ID bits off a file, as before a change of its contents by somebody who may not let
    /// them stand.
    fn drop_set_ids(&self, node: Node) -> Outcome<()>;

    /// The target of a symbolic link.
    fn read_link(&self, node: Node) -> Outcome<Vec<u8>>;

    /// Makes what is not opened at once.
    fn make(&self, parent: Node, name: &[u8], new: New<'_>, owner: Owner) -> Outcome<Attributes>;

    /// Makes a file of these permissions and opens it for reading and writing; [`Errno::EXIST`] if the name is taken.
    fn create(&self, parent: Node, name: &[u8], mode: u32, owner: Owner) -> Outcome<(Attributes, Opened)>;

    /// Gives a node another name.
    fn link(&self, node: Node, parent: Node, name: &[u8]) -> Outcome<Attributes>;

    /// Removes a name: of an empty directory, or of something else.
    fn remove(&self, parent: Node, name: &[u8], directory: bool) -> Outcome<()>;

    /// Moves a name.
    fn rename(&self, from: (Node, &[u8]), to: (Node, &[u8]), how: Rename) -> Outcome<()>;

    /// Opens a file for reading, or for reading and writing.
    fn open(&self, node: Node, write: bool) -> Outcome<Opened>;

    /// Opens a directory.
    fn open_directory(&self, node: Node) -> Outcome<Box<dyn PosixDirectory>>;

    /// How full the filesystem is.
    fn space(&self) -> Outcome<PosixSpace>;

    /// The value of an extended attribute.
    fn xattr(&self, node: Node, name: &[u8]) -> Outcome<Vec<u8>>;

    /// Names of extended attributes, each followed by a zero.
    fn xattrs(&self, node: Node) -> Outcome<Vec<u8>>;

    /// Sets an extended attribute.
    fn set_xattr(&self, node: Node, name: &[u8], value: &[u8], how: SetXattr) -> Outcome<()>;

    /// Removes an extended attribute.
    fn remove_xattr(&self, node: Node, name: &[u8]) -> Outcome<()>;

    /// Makes everything durable.
    fn flush(&self) -> Outcome<()>;
}

/// An open file; it lives on without a name.
pub trait PosixFile: Send + Sync {
    /// Reads until `buf` is full or the file ends, and returns how much there was.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Outcome<usize>;

    /// Writes all of `data`; what is between the file's end and `offset` reads as zeros then.
    fn write_at(&self, offset: u64, data: &[u8]) -> Outcome<()>;

    /// Makes the contents durable, and unless `data_only` is set, all attributes.
    fn sync(&self, data_only: bool) -> Outcome<()>;

    /// `fallocate(2)` with its mode bits.
    fn allocate(&self, mode: u32, offset: u64, len: u64) -> Outcome<()>;
}

/// An open directory.
pub trait PosixDirectory: Send + Sync {
    /// What is in it now, without `.` and `..`.
    fn entries(&self) -> Outcome<Vec<PosixEntry>>;

    /// Makes its names durable.
    fn sync(&self) -> Outcome<()>;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
