//! Why bytes are no object of the volume.

use core::fmt;

use atrest_codec::{ReadError, WriteError};

/// Why an object was not read or not made.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// It does not begin as an object of a sealed volume does.
    Foreign,
    /// Another version of the format.
    Version {
        /// The version.
        version: u16,
    },
    /// It belongs to another volume, or to this one before it was formatted again.
    AnotherVolume,
    /// It is another object than the one that was asked for.
    AnotherObject,
    /// It was not made with this key, or what stands before it was changed.
    Key,
    /// A tag does not fit.
    Tag,
    /// Its length is not the one that it states.
    Length,
    /// What was sealed is not laid out as the format says.
    Layout,
    /// A number is larger than the format allows.
    Limit,
}

impl From<ReadError> for FormatError {
    fn from(_: ReadError) -> Self {
        Self::Layout
    }
}

impl From<WriteError> for FormatError {
    fn from(_: WriteError) -> Self {
        Self::Limit
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("it is no object of a sealed volume"),
            Self::Version { version } => {
                write!(f, "it has version {version} of the format, which this program does not know")
            }
            Self::AnotherVolume => {
                f.write_str("it belongs to another volume, or to an earlier format of this one")
            }
            Self::AnotherObject => f.write_str("it is another object than its name says"),
            Self::Key => f.write_str("it was made with another key, or was changed"),
            Self::Tag => f.write_str("it was changed (its tag is wrong)"),
            Self::Length => f.write_str("it was cut off or lengthened"),
            Self::Layout => f.write_str("it is not laid out as the format says"),
            Self::Limit => f.write_str("a number in it is larger than the format allows"),
        }
    }
}

impl core::error::Error for FormatError {}
