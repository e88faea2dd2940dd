//! What can go wrong in a tree, with the numbers a person needs.

use core::fmt;

use atrest_device::{DeviceError, FlashError};

use crate::encryption::{EncryptionFault, KeyName};
use crate::fault::Fault;
use crate::path::PathError;

/// A tree could not be opened, or an operation on it failed.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeError {
    /// The media failed.
    Device(DeviceError),
    /// The flash medium failed.
    Flash(FlashError),
    /// No filesystem that we know starts here.
    UnknownFilesystem,
    /// A filesystem (or something else) that we recognise but cannot read, or that uses a feature that we do not implement.
    UnsupportedFormat(Fault),
    /// The filesystem can't be used on this medium, or refuses for a reason that filesystems of its kind alone have.
    Filesystem(Fault),
    /// The filesystem says that it is larger than the media it lies on.
    LargerThanDevice {
        /// Bytes that the filesystem claims.
        needs: u64,
        /// Bytes that there are.
        has: u64,
    },
    /// The filesystem is damaged.
    Corrupt(Fault),
    /// The filesystem is damaged: a directory is found in more than one place.
    SharedDirectory {
        /// The inode.
        inode: u64,
    },
    /// A file is encrypted by the filesystem (fscrypt), and the tree was opened without a way to keys.
    Encrypted {
        /// The inode.
        inode: u64,
    },
    /// A file of an encrypted directory can't be read.
    Lower(LowerError),
    /// A file is encrypted by the filesystem (fscrypt), and its key is not here.
    Locked {
        /// The inode.
        inode: u64,
        /// What its policy calls the key.
        key: KeyName,
    },
    /// The encryption of an inode is not what it should be.
    Encryption {
        /// The inode.
        inode: u64,
        /// What is wrong.
        fault: EncryptionFault,
    },
    /// There is no such entry.
    NotFound,
    /// A part of the path that should be a directory is something else.
    NotADirectory,
    /// The operation wants a file, but the path names a directory.
    IsADirectory,
    /// The operation wants a regular file, but the path names a pipe, a socket, a device or a link.
    NotAFile,
    /// The path does not name a symbolic link.
    NotALink,
    /// More links had to be followed than a path may have.
    TooManyLinks {
        /// The limit.
        limit: u32,
    },
    /// The entry exists already.
    Exists,
    /// A directory was to be moved into itself.
    IntoItself,
    /// The directory is not empty.
    NotEmpty,
    /// This tree, or the media under it, is read-only.
    ReadOnly,
    /// Not implemented for this filesystem.
    Unsupported,
    /// The filesystem has no room left.
    NoSpace,
    /// A file can't be that large here.
    TooLarge {
        /// Largest size in bytes.
        limit: u64,
    },
    /// The offset lies behind the end of the file, and this filesystem has no holes.
    BeyondEnd {
        /// Size of the file in bytes.
        size: u64,
    },
    /// The name can't be stored in this filesystem.
    UnsupportedName {
        /// Its length in bytes.
        len: usize,
    },
    /// The file can't grow here: what is there can be overwritten, and no more.
    CannotGrow {
        /// Size of the file in bytes.
        size: u64,
    },
    /// The file is of another size than what should take its place, which can't be changed here.
    OtherSize {
        /// Size of the file in bytes.
        size: u64,
        /// Size that it would need.
        wanted: u64,
    },
    /// A part of the file was never written and has no place on the media, and none can be allocated here.
    NotAllocated {
        /// Where that part begins, in bytes.
        offset: u64,
    },
    /// The file says of itself that it must not be changed (immutable, append-only or verity).
    Protected,
    /// The filesystem must be recovered or checked before anything is written to it.
    NotClean,
    /// The path is malformed.
    Path(PathError),
    /// The source or the sink gave up.
    Stopped {
        /// Bytes transferred before.
        at: u64,
    },
    /// An earlier write failed half-way: nothing more is written, so that the damage does not spread.
    EarlierWriteFailed,
}

/// Why a file, name or link of a directory that is encrypted file by file (eCryptfs) can't be read.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LowerError {
    /// The directory that it lies in failed, with this error number (`errno`).
    Host {
        /// The number.
        errno: i32,
    },
    /// None of the keys at hand has the signature that it asks for.
    NoKey {
        /// The signature.
        signature: [u8; 8],
    },
    /// It is wrapped for a public key, which is not supported.
    PublicKey {
        /// Its signature.
        signature: [u8; 8],
    },
    /// It is not encrypted, or its header is lost.
    NoHeader {
        /// Bytes in the lower file.
        len: u64,
    },
    /// Its header is damaged.
    Header,
    /// Its header is of a kind that is not known here.
    UnknownHeader,
    /// The encrypted name or link target is damaged.
    Name,
    /// The lower file ends before the size that its header claims.
    Truncated {
        /// The first extent that is not there in full.
        extent: u64,
        /// Bytes of contents that the header claims.
        size: u64,
        /// Bytes in the lower file.
        lower: u64,
    },
}

impl fmt::Display for LowerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |f: &mut fmt::Formatter<'_>, signature: &[u8; 8]| {
            signature.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
        };
        match self {
            Self::Host { errno } => std::io::Error::from_raw_os_error(*errno).fmt(f),
            Self::NoKey { signature } => {
                f.write_str("none of the keys given opens it: it wants the one with signature ")?;
                hex(f, signature)
            }
            Self::PublicKey { signature } => {
                f.write_str("it is wrapped for a public key, which is not supported: signature ")?;
                hex(f, signature)
            }
            Self::NoHeader { len } => {
                write!(f, "the lower file of {len} bytes has no header: it is not encrypted, or damaged")
            }
            Self::Header => f.write_str("its header is damaged"),
            Self::UnknownHeader => f.write_str("its header is of a kind that is not known"),
            Self::Name => f.write_str("the encrypted name or link target is damaged"),
            Self::Truncated { extent, size, lower } => write!(
                f,
                "the lower file ends after {lower} bytes, within extent {extent}, but its header claims {size} bytes of contents"
            ),
        }
    }
}

impl core::error::Error for LowerError {}

impl From<LowerError> for TreeError {
    fn from(error: LowerError) -> Self {
        Self::Lower(error)
    }
}

impl TreeError {
    /// Returns what the filesystem itself says, if that is an error of this type.
    pub fn fault<T: core::error::Error + 'static>(&self) -> Option<&T> {
        match self {
            Self::UnsupportedFormat(fault) | Self::Filesystem(fault) | Self::Corrupt(fault) => {
                fault.downcast_ref()
            }
            _ => None,
        }
    }
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => error.fmt(f),
            Self::Flash(error) => error.fmt(f),
            Self::UnknownFilesystem => f.write_str("no known filesystem was found"),
            Self::UnsupportedFormat(fault) | Self::Filesystem(fault) | Self::Corrupt(fault) => fault.fmt(f),
            Self::LargerThanDevice { needs, has } => {
                write!(f, "the filesystem claims {needs} bytes but only {has} are there")
            }
            Self::SharedDirectory { inode } => {
                write!(f, "the filesystem is damaged: directory {inode} is found in more than one place")
            }
            Self::Encrypted { inode } => write!(f, "inode {inode} is encrypted by the filesystem (fscrypt)"),
            Self::Lower(error) => error.fmt(f),
            Self::Locked { inode, key } => {
                write!(
                    f,
                    "inode {inode} is encrypted by the filesystem (fscrypt), and its key {key} is not here"
                )
            }
            Self::Encryption { inode, fault } => write!(f, "inode {inode}: {fault}"),
            Self::NotFound => f.write_str("no such file or directory"),
            Self::NotADirectory => f.write_str("a part of the path is not a directory"),
            Self::IsADirectory => f.write_str("it is a directory"),
            Self::NotAFile => f.write_str("it is not a regular file"),
            Self::NotALink => f.write_str("it is not a symbolic link"),
            Self::TooManyLinks { limit } => write!(f, "more than {limit} symbolic links on the way"),
            Self::Exists => f.write_str("it exists already"),
            Self::IntoItself => f.write_str("a directory cannot be moved into itself"),
            Self::NotEmpty => f.write_str("the directory is not empty"),
            Self::ReadOnly => f.write_str("the file tree is read-only"),
            Self::Unsupported => f.write_str("this cannot be done in such a filesystem here"),
            Self::NoSpace => f.write_str("no space is left in the filesystem"),
            Self::TooLarge { limit } => write!(f, "a file cannot be larger than {limit} bytes here"),
            Self::BeyondEnd { size } => {
                write!(f, "the offset lies behind the end of the file of {size} bytes")
            }
            Self::UnsupportedName { len } => {
                write!(f, "the name of {len} bytes cannot be stored in this filesystem")
            }
            Self::CannotGrow { size } => {
                write!(f, "the file of {size} bytes can be overwritten here, but it can't grow")
            }
            Self::OtherSize { size, wanted } => write!(
                f,
                "the file has {size} bytes, not {wanted}: contents can be overwritten here, but no file can grow or shrink"
            ),
            Self::NotAllocated { offset } => {
                write!(f, "from byte {offset} on the file has a hole, which can't be filled here")
            }
            Self::Protected => {
                f.write_str("the file must not be changed: it is immutable, append-only or has fs-verity")
            }
            Self::NotClean => f.write_str(
                "the filesystem was not unmounted cleanly or has errors, so nothing is written to it",
            ),
            Self::Path(error) => error.fmt(f),
            Self::Stopped { at } => write!(f, "the transfer was stopped after {at} bytes"),
            Self::EarlierWriteFailed => {
                f.write_str("an earlier write failed half-way, so nothing more is written")
            }
        }
    }
}

impl core::error::Error for TreeError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Device(error) => Some(error),
            Self::Flash(error) => Some(error),
            Self::UnsupportedFormat(fault) | Self::Filesystem(fault) | Self::Corrupt(fault) => {
                Some(fault.as_error())
            }
            Self::Path(error) => Some(error),
            Self::Lower(error) => Some(error),
            Self::Encryption { fault, .. } => Some(fault),
            _ => None,
        }
    }
}

impl From<DeviceError> for TreeError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl From<PathError> for TreeError {
    fn from(error: PathError) -> Self {
        Self::Path(error)
    }
}
