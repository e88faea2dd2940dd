//! What can be wrong with an archive.

use std::fmt;

use crate::compress::CompressError;

/// An archive that can't be read. Offsets count from the start of the file; inside a compressed segment from the start
/// of what it unpacks to.
#[derive(Debug)]
#[non_exhaustive]
pub enum CpioError {
    /// Neither an archive nor a known compression begins here.
    Unknown {
        /// Where.
        offset: usize,
    },
    /// One of the older cpio formats, which the kernel does not take.
    OldFormat {
        /// Where the header is.
        offset: usize,
    },
    /// A header field that is not eight hexadecimal digits.
    Field {
        /// Where the header is.
        offset: usize,
        /// Which field.
        field: &'static str,
    },
    /// A name that is empty, longer than 4,095 bytes, or not ended by a zero.
    Name {
        /// Where the header is.
        offset: usize,
        /// The length that the header gives, with its zero.
        len: usize,
    },
    /// A name that leads out of the archive by `..`.
    Escapes {
        /// Where the header is.
        offset: usize,
        /// The name.
        name: String,
    },
    /// The archive ends inside this entry.
    Truncated {
        /// Where the entry's header is.
        offset: usize,
        /// Its name, where that is still there.
        name: Option<String>,
        /// Where the entry would end.
        end: u64,
    },
    /// The archive ends without its trailer.
    NoTrailer {
        /// Where it ends.
        offset: usize,
    },
    /// A segment could not be unpacked.
    Compressed {
        /// Where the segment begins.
        offset: usize,
        /// Why.
        cause: CompressError,
    },
    /// Something is wrong inside a compressed segment.
    Inside {
        /// Where the segment begins.
        segment: usize,
        /// What.
        cause: Box<CpioError>,
    },
}

impl fmt::Display for CpioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { offset } => {
                write!(f, "at byte {offset}: neither a cpio archive nor a compressed one")
            }
            Self::OldFormat { offset } => {
                write!(f, "at byte {offset}: an old cpio format; the kernel takes newc")
            }
            Self::Field { offset, field } => write!(f, "at byte {offset}: the field {field} is not a number"),
            Self::Name { offset, len } => {
                write!(f, "at byte {offset}: a name of {len} bytes that can't be one")
            }
            Self::Escapes { offset, name } => {
                write!(f, "at byte {offset}: the name {name:?} leads out of the archive")
            }
            Self::Truncated { offset, name: Some(name), end } => {
                write!(f, "the archive is cut off: {name:?} at byte {offset} would end at byte {end}")
            }
            Self::Truncated { offset, name: None, end } => {
                write!(f, "the archive is cut off: the entry at byte {offset} would end at byte {end}")
            }
            Self::NoTrailer { offset } => write!(f, "the archive ends at byte {offset} without its trailer"),
            Self::Compressed { offset, cause } => write!(f, "segment at byte {offset}: {cause}"),
            Self::Inside { segment, cause } => write!(f, "segment at byte {segment}, unpacked: {cause}"),
        }
    }
}

impl std::error::Error for CpioError {}
