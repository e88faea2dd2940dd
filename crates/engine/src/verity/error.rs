//! Why a tree can't be made, checked or used.

use core::fmt;

use atrest_device::DeviceError;
use atrest_format::verity::{FecError, ParameterError, SuperblockError, TreeError};
use atrest_kdf::HashError;

/// One of the devices that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What is protected.
    Data,
    /// What holds the tree.
    Tree,
    /// What holds the parity of error correction.
    Parity,
}

/// Why something with dm-verity failed. That a block is not what it was is no error of this kind: a
/// [`Report`](super::Report) or [`Cause::WrongHash`](atrest_device::Cause::WrongHash) tells it.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerityError {
    /// A device failed.
    Device {
        /// Which one.
        part: Part,
        /// How.
        error: DeviceError,
    },
    /// The superblock can't be used.
    Superblock(SuperblockError),
    /// A parameter can't be used.
    Parameter(ParameterError),
    /// The hash is not known here.
    Hash(HashError),
    /// There is no such tree.
    Tree(TreeError),
    /// There is no such code for error correction.
    Fec(FecError),
    /// A device ends before what should be on it.
    TooShort {
        /// Which one.
        part: Part,
        /// Bytes that it has.
        size: u64,
        /// Bytes that it should have.
        needed: u64,
    },
    /// Two parts that lie on one device overlap.
    Overlap {
        /// The one in front.
        first: Part,
        /// The one that begins before its end.
        second: Part,
    },
    /// The root hash is not as long as a hash of the tree.
    RootHashLen {
        /// Bytes that it has.
        bytes: usize,
        /// Bytes that it should have.
        needed: usize,
    },
    /// The caller stopped it.
    Cancelled,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Data => "the data",
            Self::Tree => "the hash tree",
            Self::Parity => "the parity",
        })
    }
}

impl fmt::Display for VerityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device { part, error } => write!(f, "{part}: {error}"),
            Self::Superblock(error) => error.fmt(f),
            Self::Parameter(error) => error.fmt(f),
            Self::Hash(error) => error.fmt(f),
            Self::Tree(error) => error.fmt(f),
            Self::Fec(error) => error.fmt(f),
            Self::TooShort { part, size, needed } => {
                write!(f, "the device of {part} has {size} bytes, and should have {needed}")
            }
            Self::Overlap { first, second } => write!(f, "{second} would begin before the end of {first}"),
            Self::RootHashLen { bytes, needed } => {
                write!(f, "the root hash has {bytes} bytes, but hashes of this tree have {needed}")
            }
            Self::Cancelled => f.write_str("it was stopped"),
        }
    }
}

impl core::error::Error for VerityError {}
