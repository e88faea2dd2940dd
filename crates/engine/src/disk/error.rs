//! Why a volume can't be served from a media.

use core::fmt;

use crate::integrity::IntegrityError;

/// The segments of a volume don't fit the media, or one another.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskError {
    /// The media ends before a segment does.
    MediaTooSmall {
        /// Bytes that the media must have.
        needs: u64,
        /// Bytes that it has.
        has: u64,
    },
    /// A segment does not begin where the one before it ends.
    Gap {
        /// Where it should begin, in bytes of plaintext.
        expected: u64,
        /// Where it begins.
        found: u64,
    },
    /// A segment is not a whole number of data units.
    PartialDataUnit {
        /// Bytes in the segment.
        len: u64,
        /// Bytes in a data unit.
        data_unit: usize,
    },
    /// A data unit is longer than can be served.
    DataUnitTooLong {
        /// Bytes in a data unit.
        data_unit: usize,
        /// The longest possible.
        limit: usize,
    },
    /// It has several segments, or tags: its size is what it is.
    Fixed,
    /// The data units have tags, and what keeps them can't be opened.
    Integrity(IntegrityError),
    /// A segment's position on the media or in the plaintext does not fit in 64 bits.
    Overflow {
        /// Where the segment begins on the media.
        media_offset: u64,
        /// Bytes in the segment.
        len: u64,
    },
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MediaTooSmall { needs, has } => {
                write!(f, "the media is too small for the volume: it needs {needs} bytes and has {has}")
            }
            Self::Gap { expected, found } => {
                write!(f, "a segment begins at byte {found} of the plaintext instead of {expected}")
            }
            Self::PartialDataUnit { len, data_unit } => {
                write!(f, "a segment of {len} bytes is not a whole number of data units of {data_unit} bytes")
            }
            Self::DataUnitTooLong { data_unit, limit } => {
                write!(
                    f,
                    "data units of {data_unit} bytes are longer than the {limit} bytes that can be served"
                )
            }
            Self::Fixed => f.write_str("it has several segments or integrity tags, and keeps its size"),
            Self::Integrity(error) => error.fmt(f),
            Self::Overflow { media_offset, len } => {
                write!(f, "a segment of {len} bytes at byte {media_offset} of the media ends beyond 64 bits")
            }
        }
    }
}

impl core::error::Error for DiskError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Integrity(error) => Some(error),
            _ => None,
        }
    }
}

impl From<IntegrityError> for DiskError {
    fn from(error: IntegrityError) -> Self {
        Self::Integrity(error)
    }
}
