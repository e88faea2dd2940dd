//! Why a map was not opened, read or changed.

use core::fmt;

use atrest_device::FlashError;

/// Why an operation on a map failed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// The medium can't hold a map: it has fewer than 2 erase blocks or more than 64, or too little room in each.
    Geometry,
    /// The longest value does not fit into an erase block, or not one block would be kept free, or all.
    Options,
    /// The volume key is empty or all zeros, or the identifier is nil.
    NoKey,
    /// A buffer is too small.
    BufferTooSmall {
        /// Bytes that are needed.
        needs: usize,
        /// Bytes that there are.
        has: usize,
    },
    /// The table has no room for another name.
    IndexTooSmall {
        /// Names that it has room for.
        has: usize,
    },
    /// There is no map on the medium, or it is one of another key or of other sizes.
    NotFormatted,
    /// An entry is not what was stored there, and the map would show an older state or none without it.
    Damaged {
        /// Index of the erase block.
        block: u8,
        /// Index of the unit in it.
        unit: u16,
    },
    /// The value is longer than the options say.
    ValueTooLong {
        /// Its bytes.
        len: usize,
        /// Bytes in the longest.
        most: u16,
    },
    /// There is no room for the value.
    Full {
        /// Bytes that it takes.
        needs: usize,
        /// Bytes that are free.
        free: usize,
    },
    /// Too many erase blocks have gone bad: what is stored can be read, and nothing changed.
    NoSpare,
    /// The numbers of blocks are used up, after 2^32 erases.
    WornOut,
    /// The medium failed. The last change may have been made or not.
    Flash(FlashError),
}

impl From<FlashError> for MapError {
    fn from(error: FlashError) -> Self {
        Self::Flash(error)
    }
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Geometry => f.write_str("a map takes 2 to 64 erase blocks, with room for a few units in each"),
            Self::Options => f.write_str(
                "the longest value has to fit into an erase block, and some of the blocks, not all, have to be kept free",
            ),
            Self::NoKey => f.write_str("there is no key: the volume key is empty or all zeros, or the identifier is nil"),
            Self::BufferTooSmall { needs, has } => write!(f, "the buffer has {has} bytes, {needs} are needed"),
            Self::IndexTooSmall { has } => write!(f, "the table has room for {has} names"),
            Self::NotFormatted => f.write_str("there is no map here, or it is one of another key or of other sizes"),
            Self::Damaged { block, unit } => {
                write!(f, "unit {unit} of erase block {block} is not what was stored there")
            }
            Self::ValueTooLong { len, most } => write!(f, "the value has {len} bytes, the longest has {most}"),
            Self::Full { needs, free } => write!(f, "the value takes {needs} bytes, {free} are free"),
            Self::NoSpare => f.write_str("too many erase blocks have gone bad: copy the map to another medium"),
            Self::WornOut => f.write_str("the numbers of blocks are used up: copy the map to another medium"),
            Self::Flash(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for MapError {}
