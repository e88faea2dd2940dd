//! The trait behind which every kind of file tree stands: filesystems in a volume now, encrypted trees later.

use atrest_device::DeviceError;
use core::fmt;

use crate::error::TreeError;
use crate::path::TreePath;
use crate::walk::WalkError;

/// A tree of directories, files and links.
///
/// Paths are resolved without following links: a link on the way is [`TreeError::NotADirectory`] (use
/// [`resolve`](crate::resolve) for paths that people write). Reading methods work on every tree; the writing ones fail with
/// [`TreeError::ReadOnly`] or [`TreeError::Unsupported`] unless the tree implements them. Writes are durable after [`flush`](Self::flush).
pub trait FileTree: Send + Sync {
    /// What kind of tree it is.
    fn about(&self) -> About;

    /// How full it is. May look at every file.
    fn space(&self) -> Result<Space, TreeError>;

    /// What is known about the entry at `path`; links are not followed.
    fn metadata(&self, path: &TreePath) -> Result<Metadata, TreeError>;

    /// The entries of a directory without `.` and `..`, in the order in which they are stored.
    fn list(&self, path: &TreePath) -> Result<Vec<Entry>, TreeError>;

    /// Reads a file from byte `offset` into `buf` and returns how many bytes there were; 0 at the end of the file.
    fn read_at(&self, path: &TreePath, offset: u64, buf: &mut [u8]) -> Result<usize, TreeError>;

    /// Hands the whole file to `sink`, piece by piece, and returns its size. Large pieces, in order.
    fn read_to(
        &self,
        path: &TreePath,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), Stop>,
    ) -> Result<u64, TreeError> {
        let mut piece = vec![0; 1 << 20];
        let mut offset: u64 = 0;
        loop {
            let len = self.read_at(path, offset, &mut piece)?;
            if len == 0 {
                return Ok(offset);
            }
            // cannot miss: a tree reads no more than there is room for.
            sink(piece.get(..len).unwrap_or(&[])).map_err(|Stop| TreeError::Stopped { at: offset })?;
            offset = offset.saturating_add(len as u64);
        }
    }

    /// Fails with [`TreeError::Locked`] or [`TreeError::Encrypted`] where the filesystem encrypts what is at `path` and the key is
    /// not here: names and link targets can be shown then, but they are not the true ones.
    fn check_readable(&self, _path: &TreePath) -> Result<(), TreeError> {
        Ok(())
    }

    /// The target of a symbolic link, any bytes.
    fn read_link(&self, _path: &TreePath) -> Result<Vec<u8>, TreeError> {
        Err(TreeError::NotALink)
    }

    /// Creates the file at `path`, or empties it if it exists, and fills it with what `source` yields until that is
    /// 0 bytes. Returns the size.
    fn write_from(
        &self,
        _path: &TreePath,
        _source: &mut dyn FnMut(&mut [u8]) -> Result<usize, Stop>,
    ) -> Result<u64, TreeError> {
        Err(TreeError::ReadOnly)
    }

    /// Overwrites a part of an existing file, which grows if need be. `offset` lies inside the file or at its end.
    fn write_at(&self, _path: &TreePath, _offset: u64, _data: &[u8]) -> Result<(), TreeError> {
        Err(TreeError::ReadOnly)
    }

    /// Whether [`write_at`](Self::write_at), [`set_modified`](Self::set_modified) and [`flush`](Self::flush) work on files that
    /// exist, and within their sizes.
    fn overwrites(&self) -> bool {
        self.about().writable
    }

    /// Cuts a file to `size` bytes. Growing is an error where the filesystem has no holes.
    fn truncate(&self, _path: &TreePath, _size: u64) -> Result<(), TreeError> {
        Err(TreeError::ReadOnly)
    }

    /// Makes an empty directory.
    fn make_dir(&self, _path: &TreePath) -> Result<(), TreeError> {
        Err(TreeError::ReadOnly)
    }

    /// Removes a file, a link or an empty directory.
    fn remove(&self, _path: &TreePath) -> Result<(), TreeError> {
        Err(TreeError::ReadOnly)
    }

    /// Moves an entry. With [`IfExists::Replace`] a file may take the place of a file, and a directory that of an empty one.
    /// A directory can't be moved into itself ([`TreeError::IntoItself`]).
    fn rename(&self, _from: &TreePath, _to: &TreePath, _if_exists: IfExists) -> Result<(), TreeError> {
        Err(TreeError::Unsupported)
    }

    /// Fails if two entries below `path` claim the same part of the medium, or if what is there is too damaged to tell.
    /// A copy would multiply it, and removing one entry would free what belongs to the other. May follow every file.
    /// Trees whose format leaves no room for this, or that can't be changed, find nothing.
    fn check_unshared(&self, _path: &TreePath) -> Result<(), WalkError> {
        Ok(())
    }

    /// Sets the time of a file's last change, as exactly as the filesystem can store it.
    fn set_modified(&self, _path: &TreePath, _time: Timestamp) -> Result<(), TreeError> {
        Err(TreeError::ReadOnly)
    }

    /// Makes all writes durable and leaves a filesystem that checks clean.
    fn flush(&self) -> Result<(), TreeError> {
        Ok(())
    }
}

/// What a rename does where the new name is taken already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfExists {
    /// It replaces what is there.
    Replace,
    /// It fails with [`TreeError::Exists`].
    Fail,
}

/// A source or a sink gave up, for a reason that it keeps itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop;

/// What a tree is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The filesystem.
    pub kind: crate::FilesystemKind,
    /// Its label, as stored, without padding.
    pub label: Vec<u8>,
    /// Its UUID or serial number in the usual notation; empty if it has none.
    pub id: String,
    /// Size of the filesystem in bytes.
    pub size: u64,
    /// Allocation unit in bytes.
    pub block_size: u32,
    /// Whether the writing methods work.
    pub writable: bool,
    /// What a person should know before relying on what is read.
    pub notes: Vec<Note>,
}

/// How full a filesystem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes in a block.
    pub block_size: u32,
    /// Blocks in all.
    pub blocks: u64,
    /// Blocks that are free.
    pub free: u64,
}

/// A remark on the state in which a filesystem was found.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// It was not unmounted cleanly; its journal is replayed in memory and the media is left as it is.
    JournalReplayed {
        /// Transactions replayed.
        transactions: u32,
        /// Filesystem blocks whose newest contents are in the journal.
        blocks: usize,
    },
    /// It was not unmounted cleanly and has no journal: what is read may be inconsistent.
    NotCleanlyUnmounted,
    /// The filesystem itself recorded errors; it should be checked.
    ErrorsRecorded,
    /// A power loss had interrupted a change, which was completed: in memory where nothing may be written.
    Interrupted,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::JournalReplayed { transactions, blocks } => write!(
                f,
                "the filesystem was not unmounted cleanly; {transactions} journal transactions ({blocks} blocks) are applied in memory only"
            ),
            Self::NotCleanlyUnmounted => f.write_str("the filesystem was not unmounted cleanly"),
            Self::Interrupted => f.write_str("a power loss had interrupted a change, which is completed now"),
            Self::ErrorsRecorded => f.write_str("the filesystem has errors recorded; check it"),
        }
    }
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name, which passes [`is_valid_name`](crate::is_valid_name).
    pub name: Vec<u8>,
    /// What it names.
    pub kind: Kind,
    /// Number of the inode (FAT: first cluster of a directory), or 0 where there is none.
    pub inode: u64,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Link => "symbolic link",
            Self::Pipe => "named pipe",
            Self::Socket => "socket",
            Self::CharDevice => "character device",
            Self::BlockDevice => "block device",
        })
    }
}

/// What is known about an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// What it is.
    pub kind: Kind,
    /// Size in bytes (of a link: of its target).
    pub size: u64,
    /// Permission bits, at most 0o7777.
    pub mode: u16,
    /// Owner; 0 where the filesystem knows none.
    pub uid: u32,
    /// Group; 0 where the filesystem knows none.
    pub gid: u32,
    /// Names that refer to it.
    pub links: u32,
    /// Number of the inode (FAT: first cluster of a directory), or 0 where there is none.
    pub inode: u64,
    /// Bytes allocated, rounded to what the filesystem counts.
    pub allocated: u64,
    /// Last change of the contents.
    pub modified: Timestamp,
    /// Last access.
    pub accessed: Timestamp,
    /// Last change of the metadata (FAT: creation).
    pub changed: Timestamp,
}

/// A time as seconds and nanoseconds since 1970-01-01 00:00 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds, negative before 1970.
    pub seconds: i64,
    /// Nanoseconds, below 1,000,000,000.
    pub nanoseconds: u32,
}

impl From<DeviceError> for TreeError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}
