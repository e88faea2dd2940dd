//! Copying between a tree and the host's file system.

mod host_names;
mod into;
mod out;
mod room;

use core::fmt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::error::TreeError;
use crate::path::TreePath;
use crate::tree::Kind;
use crate::walk::WalkError;

pub use host_names::host_names;
pub use into::{copy_in, copy_in_stream};
pub use out::copy_out;

/// Bytes moved at once.
const PIECE: usize = 1 << 20;

/// What to copy and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyOptions {
    /// Directories are copied with all that is in them; otherwise they are an error.
    pub recursive: bool,
    /// Existing files are replaced, each once its successor is whole; otherwise they are an error. Directories are merged either way.
    pub overwrite: bool,
    /// Permissions (without set-user-ID, set-group-ID and sticky bits) are kept as far as the process's umask lets, where
    /// the target can store them. Otherwise what is made on the host is its owner's alone. Times of the last change are
    /// always kept, owners never.
    pub preserve_permissions: bool,
    /// What can't be read of a tree is left out and told to [`CopyProgress::failed`], instead of ending the copy.
    pub keep_going: bool,
}

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopySummary {
    /// Regular files.
    pub files: u64,
    /// Directories made or merged.
    pub directories: u64,
    /// Symbolic links.
    pub links: u64,
    /// Bytes of file contents.
    pub bytes: u64,
    /// Entries that the target can't hold, or that no copy should make (devices, pipes, sockets).
    pub skipped: u64,
    /// Entries that could not be read, of a copy that was to keep going. Half a file is not left.
    pub failed: u64,
}

/// Is told what a copy does.
pub trait CopyProgress {
    /// An entry is about to be copied.
    fn started(&mut self, _path: &TreePath, _kind: Kind, _size: u64) {}

    /// More bytes of the current file were copied.
    fn advanced(&mut self, _bytes: u64) {}

    /// An entry was left out: see [`CopySummary::skipped`].
    fn skipped(&mut self, _path: &TreePath, _kind: Kind) {}

    /// An entry was left out, for it could not be read: see [`CopyOptions::keep_going`].
    fn failed(&mut self, _error: &CopyError) {}
}

impl CopyProgress for () {}

/// Why a copy ended early. What was copied before stays; a file copied in part does not.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyError {
    /// The tree failed.
    Tree {
        /// At this entry.
        path: TreePath,
        /// In this way.
        error: TreeError,
    },
    /// The host's file system failed.
    Host {
        /// At this entry.
        path: PathBuf,
        /// With this error number (`errno`).
        errno: i32,
    },
    /// The tree can't be walked through: it is damaged, or nested too deeply.
    Walk(WalkError),
    /// The files that were copied are larger than the filesystem that they lie in: it is damaged.
    LargerThanFilesystem {
        /// Here.
        path: TreePath,
        /// Bytes in the filesystem.
        size: u64,
    },
}

impl From<WalkError> for CopyError {
    fn from(error: WalkError) -> Self {
        match error {
            WalkError::Tree { path, error } => Self::Tree { path, error },
            error => Self::Walk(error),
        }
    }
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree { path, error } => write!(f, "{path}: {error}"),
            Self::Host { path, errno } => {
                write!(f, "{}: {}", path.display(), std::io::Error::from_raw_os_error(*errno))
            }
            Self::Walk(error) => error.fmt(f),
            Self::LargerThanFilesystem { path, size } => {
                write!(f, "{path}: the files are larger than their filesystem of {size} bytes; it is damaged")
            }
        }
    }
}

impl core::error::Error for CopyError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Tree { error, .. } => Some(error),
            Self::Walk(error) => Some(error),
            _ => None,
        }
    }
}

fn host(path: &Path, errno: Errno) -> CopyError {
    CopyError::Host { path: path.to_owned(), errno: errno.raw_os_error() }
}

fn at(path: &TreePath, error: impl Into<TreeError>) -> CopyError {
    CopyError::Tree { path: path.clone(), error: error.into() }
}
