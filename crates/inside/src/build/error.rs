//! Why an image was not built.

use core::fmt;
use std::path::{Path, PathBuf};

use atrest_device::DeviceError;
use atrest_filetree::{EncryptionFault, KeyName, TreeError, TreePath};
use rustix::io::Errno;

/// An image could not be built. None is there, then.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// The image failed.
    Device(DeviceError),
    /// The host's file system failed.
    Host {
        /// At this entry.
        path: PathBuf,
        /// With this error number (`errno`).
        errno: i32,
    },
    /// An entry of the source can't be made in the image.
    Entry {
        /// This one.
        path: PathBuf,
        /// For this reason.
        error: TreeError,
    },
    /// An entry can't be encrypted by the policy that holds for it.
    Encryption {
        /// This one.
        path: PathBuf,
        /// For this reason.
        fault: EncryptionFault,
    },
    /// The key of a policy was not given.
    NoKey {
        /// The first entry that it would encrypt.
        path: PathBuf,
        /// The key.
        key: KeyName,
    },
    /// A file was changed or replaced while it was read.
    SourceChanged {
        /// This one.
        path: PathBuf,
    },
    /// Directories are nested more deeply than we follow.
    TooDeep {
        /// Here.
        path: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// A file has more names than an inode counts.
    TooManyLinks {
        /// One of them.
        path: PathBuf,
        /// The limit.
        limit: u32,
    },
    /// The extended attributes of an entry do not fit into its inode and one block.
    AttributesTooLarge {
        /// This entry.
        path: PathBuf,
    },
    /// The source has a `lost+found` of its own that is not an empty directory.
    LostAndFound {
        /// There.
        path: PathBuf,
    },
    /// Two names of one file lie where different policies hold: no inode can obey both.
    LinkedAcrossPolicies {
        /// The second name.
        path: PathBuf,
    },
    /// A policy would begin inside a directory that has one.
    PolicyInPolicy {
        /// Here.
        path: PathBuf,
    },
    /// What is to be encrypted is not a directory below the root of the image.
    NotADirectoryBelow {
        /// This.
        path: TreePath,
    },
    /// Something directly in the root would stay in the clear, for the root of an ext4 can't be encrypted.
    InTheClear {
        /// This.
        path: PathBuf,
    },
    /// The filesystem that mke2fs made has no room for all of it.
    NoSpace {
        /// Bytes in the filesystem.
        size: u64,
    },
    /// The filesystem that mke2fs made has too few inodes.
    NoInodes {
        /// So many are needed.
        needs: u64,
        /// So many are free.
        has: u64,
    },
    /// The filesystem has a feature that the builder does not write, or lacks one that it needs.
    Feature {
        /// Its name in `mke2fs -O`.
        name: &'static str,
        /// Whether it is there.
        is_there: bool,
    },
    /// The filesystem is not what mke2fs leaves.
    NotFresh(Unexpected),
    /// mke2fs is not installed.
    NoMke2fs,
    /// mke2fs failed.
    Mke2fs {
        /// What it said, in its last line.
        said: String,
    },
}

/// What a new filesystem is not as it should be in.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unexpected {
    /// Its superblock: the magic number, the checksum or sizes.
    Superblock,
    /// A group descriptor.
    Descriptor {
        /// Of this group.
        group: u64,
    },
    /// The bitmap of blocks contradicts its descriptor.
    BlockBitmap {
        /// In this group.
        group: u64,
    },
    /// An inode that should be free is in use, or one that should be there is not.
    Inode(u32),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => error.fmt(f),
            Self::Host { path, errno } => {
                write!(f, "{}: {}", path.display(), std::io::Error::from_raw_os_error(*errno))
            }
            Self::Entry { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Encryption { path, fault } => write!(f, "{}: {fault}", path.display()),
            Self::NoKey { path, key } => {
                write!(f, "{}: the key {key} of its policy is not among those given", path.display())
            }
            Self::SourceChanged { path } => write!(f, "{}: it changed while it was read", path.display()),
            Self::TooDeep { path, limit } => {
                write!(f, "{}: directories are nested more than {limit} deep", path.display())
            }
            Self::TooManyLinks { path, limit } => {
                write!(f, "{}: the file has more than {limit} names", path.display())
            }
            Self::AttributesTooLarge { path } => {
                write!(f, "{}: its extended attributes do not fit into one block", path.display())
            }
            Self::LostAndFound { path } => {
                write!(f, "{}: that name is ext4's own, and this is not an empty directory", path.display())
            }
            Self::LinkedAcrossPolicies { path } => write!(
                f,
                "{}: the file has another name where another policy holds, and one file can't obey both",
                path.display()
            ),
            Self::PolicyInPolicy { path } => {
                write!(
                    f,
                    "{}: it lies in a directory that has a policy, so no other can begin here",
                    path.display()
                )
            }
            Self::NotADirectoryBelow { path } => {
                write!(f, "{path}: what is encrypted must be a directory below the root")
            }
            Self::NoInodes { needs, has } => {
                write!(f, "the tree needs {needs} inodes, and the filesystem has only {has}")
            }
            Self::InTheClear { path } => write!(
                f,
                "{}: it lies in the root, which ext4 can't encrypt, and would stay in the clear",
                path.display()
            ),
            Self::NoSpace { size } => write!(f, "the tree does not fit into a filesystem of {size} bytes"),
            Self::Feature { name, is_there: true } => {
                write!(f, "the new filesystem has the feature {name}, which is not supported here")
            }
            Self::Feature { name, is_there: false } => {
                write!(f, "the new filesystem lacks the feature {name}, which is needed here")
            }
            Self::NotFresh(what) => write!(f, "this is not a filesystem as mke2fs leaves it: {what}"),
            Self::NoMke2fs => f.write_str("mke2fs, which lays the filesystem out, is not installed"),
            Self::Mke2fs { said } => write!(f, "mke2fs failed: {said}"),
        }
    }
}

impl fmt::Display for Unexpected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Superblock => f.write_str("the superblock"),
            Self::Descriptor { group } => write!(f, "the descriptor of block group {group}"),
            Self::BlockBitmap { group } => write!(f, "the block bitmap of group {group}"),
            Self::Inode(number) => write!(f, "inode {number}"),
        }
    }
}

impl core::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Device(error) => Some(error),
            Self::Entry { error, .. } => Some(error),
            Self::Encryption { fault, .. } => Some(fault),
            _ => None,
        }
    }
}

impl From<DeviceError> for BuildError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

pub(super) fn host(path: &Path, errno: Errno) -> BuildError {
    BuildError::Host { path: path.to_owned(), errno: errno.raw_os_error() }
}
