//! Why a file can't be a trusted store.

use core::fmt;
use std::io;

use atrest_device::TRUSTED_RECORD_LEN;
use rustix::io::Errno;

/// Why a file holds no record, or can't be used as a store.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustedFileError {
    /// There is no such file.
    Missing,
    /// The name is a link, and what it leads to is not there.
    LinkToNothing,
    /// It has no bytes: nothing was stored yet, or everything was cut off.
    Empty,
    /// It is not as long as a record.
    Size {
        /// Bytes it has.
        len: u64,
    },
    /// It is a directory, a device, a pipe.
    NotAFile,
    /// Somebody else works with it.
    Busy,
    /// Since it was opened it was removed, or another file has its name.
    Replaced,
    /// It belongs to a user or group to whom its successor can't be given.
    Owner {
        /// The user.
        uid: u32,
        /// The group.
        gid: u32,
    },
    /// The system's error number.
    Os(i32),
}

impl From<io::Error> for TrustedFileError {
    fn from(error: io::Error) -> Self {
        Self::Os(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<Errno> for TrustedFileError {
    fn from(errno: Errno) -> Self {
        Self::Os(errno.raw_os_error())
    }
}

impl fmt::Display for TrustedFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("there is no such trusted store"),
            Self::LinkToNothing => {
                f.write_str("the trusted store is a link, and the file that it leads to is not there")
            }
            Self::Empty => f.write_str("the trusted store is empty"),
            Self::Size { len } => {
                write!(
                    f,
                    "it is no trusted store: it has {len} bytes, and a trusted store has {TRUSTED_RECORD_LEN}"
                )
            }
            Self::NotAFile => f.write_str("it is no trusted store, which is a regular file"),
            Self::Busy => f.write_str("the trusted store is in use"),
            Self::Replaced => f.write_str(
                "the trusted store was removed, or another file took its name, while it was in use",
            ),
            Self::Owner { uid, gid } => write!(
                f,
                "the trusted store belongs to user {uid} and group {gid}, and the file that replaces it can't be given to them"
            ),
            Self::Os(errno) => {
                write!(f, "the trusted store can't be used: {}", io::Error::from_raw_os_error(*errno))
            }
        }
    }
}

impl core::error::Error for TrustedFileError {}
