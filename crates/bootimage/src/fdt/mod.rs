//! Flattened device trees: the form of U-Boot's images and of the descriptions of boards.
//!
//! The reader is ours: signatures are over byte ranges of the blob, of which libraries tell nothing, and it takes no tree
//! that can be read in two ways. The writer is a library's.

mod read;
mod regions;
mod tokens;
mod write;

pub use read::{Node, Tree, read};
pub use regions::regions;
pub(crate) use regions::{strings, value_of};
pub use write::WriteError;

use std::fmt;

/// Nodes in nodes, as deep as U-Boot goes.
pub const MAX_DEPTH: usize = 32;

/// A blob that is no device tree, or one that could be read in two ways. Offsets count from the start of the blob.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FdtError {
    /// It does not begin with the magic number.
    Magic,
    /// A version that is neither 16 nor 17.
    Version {
        /// The version.
        version: u32,
    },
    /// It is shorter than its header says.
    Truncated {
        /// Bytes that the header asks for.
        expected: u64,
        /// Bytes that are there.
        actual: u64,
    },
    /// A block of it lies outside, overlaps another, or is not aligned.
    Layout {
        /// Which.
        block: &'static str,
    },
    /// Something that does not belong at this place.
    Structure {
        /// Where.
        offset: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// Two nodes or two properties of one name.
    Twice {
        /// Where the second is.
        offset: usize,
        /// The name.
        name: String,
    },
}

impl fmt::Display for FdtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => f.write_str("it is not a flattened device tree"),
            Self::Version { version } => write!(f, "a device tree of version {version}; 16 and 17 are known"),
            Self::Truncated { expected, actual } => {
                write!(f, "it is cut off: {actual} bytes of {expected} are there")
            }
            Self::Layout { block } => write!(f, "the device tree's {block} does not lie where it may"),
            Self::Structure { offset, what } => write!(f, "at byte {offset} of the device tree: {what}"),
            Self::Twice { offset, name } => {
                write!(f, "at byte {offset} of the device tree: a second {name:?} beside the first")
            }
        }
    }
}

impl std::error::Error for FdtError {}
