//! The trait behind which every kind of file tree stands: filesystems in a volume, and encrypted directories.

use core::fmt;

use rustix::fs::FileType;

use crate::error::TreeError;
use crate::listing::{ByHash, Cursor, Listed, Wanted};
use crate::path::TreePath;
use crate::walk::WalkError;

/// A tree of directories, files and links.
///
/// Paths are resolved without following links: a link on the way is [`TreeError::NotADirectory`] (use
/// [`resolve`](crate::resolve) for paths that people write). Reading methods work on every tree; the writing ones fail with
/// [`TreeError::ReadOnly`] or [`TreeError::Unsupported`] unless the tree implements them. Writes are durable after [`flush`](Self::flush).
///
/// # Errors
/// Each method names the errors of its own. These are common to all:
///
/// * [`TreeError::Device`], [`TreeError::Flash`] or [`TreeError::Lower`]: what the tree lies on fails.
/// * [`TreeError::Corrupt`] or [`TreeError::SharedDirectory`]: what is read of the filesystem can't be right.
/// * [`TreeError::Encrypted`], [`TreeError::Locked`] or [`TreeError::Encryption`]: the filesystem encrypts what is asked for, and
///   the key is not here or the encryption is damaged.
/// * [`TreeError::NotFound`] or [`TreeError::NotADirectory`]: the path leads nowhere.
/// * [`TreeError::Filesystem`]: the filesystem refuses for a reason of its own.
///
/// Methods that change something also fail with [`TreeError::NoSpace`], [`TreeError::NotClean`] or [`TreeError::Protected`], and
/// after a change that failed half-way with [`TreeError::EarlierWriteFailed`].
pub trait FileTree: Send + Sync {
    /// What kind of tree it is.
    fn about(&self) -> About;

    /// How full it is. May look at every file.
    ///
    /// # Errors
    /// Those of every method ([`FileTree`]).
    fn space(&self) -> Result<Space, TreeError>;

    /// What is known about the entry at `path`; links are not followed.
    ///
    /// # Errors
    /// Those of every method ([`FileTree`]).
    fn metadata(&self, path: &TreePath) -> Result<Metadata, TreeError>;

    /// The entries of a directory without `.` and `..`, in the order in which they are stored.
    ///
    /// # Errors
    /// [`TreeError::NotADirectory`] for anything else, and those of every method ([`FileTree`]).
    fn list(&self, path: &TreePath) -> Result<Vec<Entry>, TreeError>;

    /// Entries of a directory from a place on, without `.` and `..`: none only at its end. [`Cursor::START`] is the first place,
    /// and behind each entry is another. What is in the directory all the time comes exactly once on the way from the start to
    /// the end, whatever is added and removed meanwhile.
    ///
    /// Metadata are those of [`metadata`](Self::metadata), whose failure at one entry is that entry's alone. By default the whole
    /// directory is listed each time.
    ///
    /// # Errors
    /// Those of [`list`](Self::list).
    fn list_from(&self, path: &TreePath, from: Cursor, wanted: Wanted) -> Result<Vec<Listed>, TreeError> {
        let mut portion = ByHash::new(from, wanted.entries);
        self.list(path)?.into_iter().for_each(|entry| portion.add(entry, ()));
        let listed = portion.finish().into_iter().map(|(next, entry, ())| {
            let look = || self.metadata(&path.join(&entry.name)?);
            let metadata = wanted.metadata.then(look);
            Listed { entry, metadata, next }
        });
        Ok(listed.collect())
    }

    /// Reads a file from byte `offset` into `buf` and returns how many bytes there were; 0 at the end of the file.
    ///
    /// # Errors
    /// [`TreeError::IsADirectory`] or [`TreeError::NotAFile`] for anything else, and those of every method ([`FileTree`]).
    fn read_at(&self, path: &TreePath, offset: u64, buf: &mut [u8]) -> Result<usize, TreeError>;

    /// Hands the whole file to `sink`, piece by piece, and returns its size. Large pieces, in order.
    ///
    /// # Errors
    /// [`TreeError::Stopped`] if `sink` gives up, and those of [`read_at`](Self::read_at). The pieces before it were handed over.
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

    /// Checks that names and link targets at `path` are the true ones. Where the filesystem encrypts them and the key is not here,
    /// they can be shown, too, but as something else.
    ///
    /// # Errors
    /// [`TreeError::Locked`] or [`TreeError::Encrypted`] if the key is not here, and those of every method ([`FileTree`]).
    fn check_readable(&self, _path: &TreePath) -> Result<(), TreeError> {
        Ok(())
    }

    /// The target of a symbolic link, any bytes.
    ///
    /// # Errors
    /// [`TreeError::NotALink`] for anything else, and those of every method ([`FileTree`]).
    fn read_link(&self, _path: &TreePath) -> Result<Vec<u8>, TreeError> {
        Err(TreeError::NotALink)
    }

    /// Creates the file at `path`, or empties it if it exists, and fills it with what `source` yields until that is
    /// 0 bytes. Returns the size.
    ///
    /// # Errors
    /// [`TreeError::Stopped`] if `source` gives up, [`TreeError::IsADirectory`] and [`TreeError::NotAFile`] if something else has
    /// the name, [`TreeError::UnsupportedName`], [`TreeError::TooLarge`], and those of every change ([`FileTree`]). A new file
    /// that could not be filled is removed.
    fn write_from(
        &self,
        _path: &TreePath,
        _source: &mut dyn FnMut(&mut [u8]) -> Result<usize, Stop>,
    ) -> Result<u64, TreeError> {
        Err(TreeError::ReadOnly)
    }

    /// Overwrites a part of an existing file, which grows if need be. `offset` lies inside the file or at its end.
    ///
    /// # Errors
    /// [`TreeError::BeyondEnd`] if it does not, [`TreeError::CannotGrow`] or [`TreeError::NotAllocated`] where only what is stored
    /// can be overwritten, [`TreeError::IsADirectory`], [`TreeError::NotAFile`], [`TreeError::TooLarge`], and those of every change
    /// ([`FileTree`]).
    fn write_at(&self, _path: &TreePath, _offset: u64, _data: &[u8]) -> Result<(), TreeError> {
        Err(TreeError::ReadOnly)
    }

    /// Whether [`write_at`](Self::write_at), [`set_modified`](Self::set_modified) and [`flush`](Self::flush) work on files that
    /// exist, and within their sizes.
    fn overwrites(&self) -> bool {
        self.about().writable
    }

    /// Cuts a file to `size` bytes. Growing is an error where the filesystem has no holes.
    ///
    /// # Errors
    /// [`TreeError::BeyondEnd`] if the file is shorter and can't have a hole, [`TreeError::IsADirectory`], [`TreeError::NotAFile`],
    /// [`TreeError::TooLarge`], and those of every change ([`FileTree`]).
    fn truncate(&self, _path: &TreePath, _size: u64) -> Result<(), TreeError> {
        Err(TreeError::ReadOnly)
    }

    /// Makes an empty directory.
    ///
    /// # Errors
    /// [`TreeError::Exists`] if the name is taken, [`TreeError::UnsupportedName`], and those of every change ([`FileTree`]).
    fn make_dir(&self, _path: &TreePath) -> Result<(), TreeError> {
        Err(TreeError::ReadOnly)
    }

    /// Removes a file, a link or an empty directory.
    ///
    /// # Errors
    /// [`TreeError::NotEmpty`] for a directory that holds something and for the root, and those of every change ([`FileTree`]).
    fn remove(&self, _path: &TreePath) -> Result<(), TreeError> {
        Err(TreeError::ReadOnly)
    }

    /// Moves an entry. With [`IfExists::Replace`] a file may take the place of a file, and a directory that of an empty one.
    ///
    /// # Errors
    /// [`TreeError::Exists`] with [`IfExists::Fail`] if the new name is taken, [`TreeError::NotEmpty`], [`TreeError::IsADirectory`] or
    /// [`TreeError::NotADirectory`] if what has it can't be replaced, [`TreeError::IntoItself`] for a directory that would be below
    /// itself, [`TreeError::UnsupportedName`], and those of every change ([`FileTree`]).
    fn rename(&self, _from: &TreePath, _to: &TreePath, _if_exists: IfExists) -> Result<(), TreeError> {
        Err(TreeError::Unsupported)
    }

    /// Checks that no two entries below `path` claim the same part of the medium. A copy would multiply it, and removing one
    /// entry would free what belongs to the other. May follow every file. Trees whose format leaves no room for this, or that
    /// can't be changed, find nothing.
    ///
    /// # Errors
    /// [`WalkError::SharedCluster`] if two entries do. The others of [`Walk`](crate::Walk) if what is there is too damaged to tell.
    fn check_unshared(&self, _path: &TreePath) -> Result<(), WalkError> {
        Ok(())
    }

    /// Sets the time of a file's last change, as exactly as the filesystem can store it.
    ///
    /// # Errors
    /// Those of every change ([`FileTree`]).
    fn set_modified(&self, _path: &TreePath, _time: Timestamp) -> Result<(), TreeError> {
        Err(TreeError::ReadOnly)
    }

    /// Makes all writes durable and leaves a filesystem that checks clean.
    ///
    /// # Errors
    /// What was written may be lost if the medium fails. After a change that failed half-way: [`TreeError::EarlierWriteFailed`].
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
    /// The filesystem's name, as people and `mount` use it.
    pub name: &'static str,
    /// Its label, as stored, without padding.
    pub label: Vec<u8>,
    /// Its UUID or serial number in the usual notation; empty if it has none.
    pub id: String,
    /// Size of the filesystem in bytes.
    pub size: u64,
    /// What that size says of what can be in it.
    pub capacity: Capacity,
    /// Allocation unit in bytes.
    pub block_size: u32,
    /// Whether the writing methods work.
    pub writable: bool,
    /// What a person should know before relying on what is read.
    pub notes: Vec<Note>,
}

/// What the size of a filesystem says of what can be in it. Walks and copies take what shows more for damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// Nothing: what is in it lies elsewhere.
    Unbounded,
    /// Its entries and all data but holes have room in it.
    Sparse,
    /// Its entries and its files at their full sizes have room in it: none has holes.
    Dense,
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

impl Kind {
    /// Returns what a file of the host is, by its `st_mode`. What has no name here counts as a character device.
    pub fn of_mode(mode: u32) -> Self {
        match FileType::from_raw_mode(mode) {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            FileType::Fifo => Self::Pipe,
            FileType::Socket => Self::Socket,
            FileType::BlockDevice => Self::BlockDevice,
            _ => Self::CharDevice,
        }
    }
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
