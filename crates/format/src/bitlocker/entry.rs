//! What metadata and key files are made of: entries, each with its size, its type and the type of its value, some with others inside.

use core::fmt;

use atrest_codec::Reader;

/// What an entry is for.
pub mod kind {
    pub const PROTECTOR: u16 = 2;
    pub const DATA_KEY: u16 = 3;
    pub const STARTUP_KEY: u16 = 6;
    pub const DESCRIPTION: u16 = 7;
    pub const RELOCATED: u16 = 0x0f;
}

/// What the value of an entry is.
pub mod value {
    pub const KEY: u16 = 1;
    pub const TEXT: u16 = 2;
    pub const STRETCHED: u16 = 3;
    pub const AES_CCM: u16 = 5;
    pub const PROTECTOR: u16 = 8;
    pub const EXTERNAL_KEY: u16 = 9;
    pub const PLACE: u16 = 0x0f;
}

/// Bytes before the value.
const HEADER: u16 = 8;
/// Versions that are known: 3 was seen in Windows 11.
const VERSIONS: core::ops::RangeInclusive<u16> = 1..=3;

/// An entry.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    pub kind: u16,
    pub value: u16,
    /// What is behind its header.
    pub data: &'a [u8],
}

/// Why entries can't be read.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryError {
    /// One has a size that is less than its header, or more than what is left.
    Size {
        /// Bytes that it has by its own account.
        size: u16,
        /// Bytes that are left.
        left: usize,
    },
    /// One has a version that is not known.
    Version(u16),
    /// One is shorter than its value.
    Short {
        /// Its type of value.
        value: u16,
    },
    /// There are two where only one can be.
    Twice {
        /// Their type of value.
        value: u16,
    },
}

/// Entries, one behind the other.
pub struct Entries<'a> {
    rest: Reader<'a>,
}

impl<'a> Entries<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: Reader::new(bytes) }
    }

    fn read(&mut self) -> Result<Option<Entry<'a>>, EntryError> {
        let left = self.rest.remaining();
        if left == 0 {
            return Ok(None);
        }
        let wrong = |size| EntryError::Size { size, left };
        let fields = || {
            let mut reader = self.rest;
            Some((reader.le16().ok()?, reader.le16().ok()?, reader.le16().ok()?, reader.le16().ok()?))
        };
        let Some((size, kind, value, version)) = fields() else {
            // Fewer bytes than a header are padding.
            return self.rest.finish_zeros().map(|()| None).map_err(|_| wrong(0));
        };
        if size == 0 {
            return self.rest.finish_zeros().map(|()| None).map_err(|_| wrong(0));
        }
        if !VERSIONS.contains(&version) {
            return Err(EntryError::Version(version));
        }
        let data = size.checked_sub(HEADER).ok_or(wrong(size))?;
        let mut entry = self.rest.sub(size.into()).map_err(|_| wrong(size))?;
        // cannot fail: the entry has a header and so many bytes.
        let data = entry.bytes(HEADER.into()).and_then(|_| entry.bytes(data.into()));
        Ok(Some(Entry { kind, value, data: data.map_err(|_| wrong(size))? }))
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, EntryError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.read().transpose();
        // Behind an error or the end nothing is read.
        if !matches!(next, Some(Ok(_))) {
            self.rest = Reader::new(&[]);
        }
        next
    }
}

impl<'a> Entry<'a> {
    pub fn short(&self) -> EntryError {
        EntryError::Short { value: self.value }
    }

    /// Puts what is found in its place, which must be free.
    pub fn once<T>(&self, place: &mut Option<T>, found: T) -> Result<(), EntryError> {
        match place.replace(found) {
            None => Ok(()),
            Some(_) => Err(EntryError::Twice { value: self.value }),
        }
    }

    /// The entries that are inside of it, behind so many bytes.
    pub fn inside(&self, skip: usize) -> Result<Entries<'a>, EntryError> {
        Ok(Entries { rest: Reader::at(self.data, skip).map_err(|_| self.short())? })
    }
}

impl fmt::Display for EntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size { size, left } => write!(f, "an entry has {size} bytes, where {left} are left"),
            Self::Version(version) => write!(f, "an entry has the unknown version {version}"),
            Self::Short { value } => write!(f, "an entry with a value of type {value:#x} is too short"),
            Self::Twice { value } => write!(f, "there are two entries with a value of type {value:#x}"),
        }
    }
}

impl core::error::Error for EntryError {}
