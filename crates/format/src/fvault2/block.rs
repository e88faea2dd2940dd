//! Metadata blocks: 8192 bytes each, with a header of 64. The disk label is in clear, the others are encrypted.

use alloc::vec::Vec;
use core::fmt;

use atrest_codec::{Reader, Record};

use super::header::is_sound;
use super::keys::{Context, LogicalVolume};
use super::plist::ContextError;

/// Bytes of a block.
pub const BLOCK_LEN: usize = 8192;
/// Extents in a block, whose header they follow.
const FIRST_EXTENT: usize = 72;
/// Bytes of an extent.
const EXTENT: usize = 40;

/// Where the encrypted metadata is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Bytes from the label's beginning to the descriptor of the volume group.
    pub descriptor: u32,
}

/// A decrypted block.
#[derive(Debug)]
pub struct Block {
    /// Which write it was of: the newest one of an object counts.
    pub transaction: u64,
    /// Which object it is of: a group may have several of a kind.
    pub object: u64,
    /// What it has.
    pub content: Content,
}

/// What a block has, of the kinds that are needed.
#[derive(Debug)]
pub enum Content {
    /// The keys.
    Context(Context),
    /// The logical volume.
    Volume(LogicalVolume),
    /// Where its data is.
    Extents(Vec<Extent>),
    /// Something else.
    Other,
}

/// A run of data. Blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins in the logical volume.
    pub logical: u64,
    /// How long it is.
    pub blocks: u64,
    /// Where it begins in the physical volume.
    pub physical: u64,
    /// Which physical volume.
    pub volume: u16,
}

/// Why a block can't be used.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockError {
    /// Its checksum is wrong.
    Checksum,
    /// It is of another type than it should be.
    Type(u16),
    /// More extents than a block has.
    Extents(u32),
    /// Its property list can't be used.
    Context(ContextError),
}

impl Label {
    /// Reads the disk label.
    ///
    /// # Errors
    /// [`BlockError::Checksum`], [`BlockError::Type`].
    pub fn read(block: &[u8; BLOCK_LEN]) -> Result<Self, BlockError> {
        let record = Record::new(block);
        match (is_sound(block), record.le16::<10>()) {
            (false, _) => Err(BlockError::Checksum),
            (true, 0x0011) => Ok(Self { descriptor: record.le32::<220>() }),
            (true, other) => Err(BlockError::Type(other)),
        }
    }

    /// The first block of the encrypted metadata, and how many blocks of 8192 bytes it has, out of the descriptor's first 40 bytes.
    pub fn metadata(descriptor: &[u8; 40]) -> (u64, u64) {
        let record = Record::new(descriptor);
        // 48 bits; behind them is the number of the physical volume.
        (record.le64::<32>() & 0xffff_ffff_ffff, record.le64::<8>())
    }
}

impl Block {
    /// Reads a block that was decrypted.
    ///
    /// # Errors
    /// [`BlockError`] for the first thing that is wrong.
    pub fn read(block: &[u8; BLOCK_LEN]) -> Result<Self, BlockError> {
        if !is_sound(block) {
            return Err(BlockError::Checksum);
        }
        let record = Record::new(block);
        let content = match record.le16::<10>() {
            0x0019 => {
                let (packed, plain) = (record.le32::<104>(), record.le32::<108>());
                let list = text(block, record.le32::<112>(), record.le32::<116>())?;
                match packed == plain {
                    true => Content::Context(Context::read(list)?),
                    false => return Err(ContextError::Compressed.into()),
                }
            }
            0x001a => Content::Volume(LogicalVolume::read(text(
                block,
                record.le32::<128>(),
                record.le32::<132>(),
            )?)?),
            0x0305 => Content::Extents(extents(block, record.le32::<64>())?),
            _ => Content::Other,
        };
        Ok(Self { transaction: record.le64::<16>(), object: record.le64::<24>(), content })
    }
}

/// The bytes of a property list in a block.
fn text(block: &[u8], offset: u32, len: u32) -> Result<&[u8], ContextError> {
    let mut reader = usize::try_from(offset).ok().and_then(|offset| Reader::at(block, offset).ok());
    let text = usize::try_from(len).ok().and_then(|len| reader.as_mut()?.bytes(len).ok());
    text.ok_or(ContextError::Place { offset, len })
}

fn extents(block: &[u8], count: u32) -> Result<Vec<Extent>, BlockError> {
    let count_len = usize::try_from(count).ok().and_then(|count| count.checked_mul(EXTENT));
    let bytes = block.get(FIRST_EXTENT..).zip(count_len).and_then(|(rest, len)| rest.get(..len));
    let entries = bytes.ok_or(BlockError::Extents(count))?.as_chunks::<EXTENT>().0;
    let extent = |entry: &[u8; EXTENT]| {
        let record = Record::new(entry);
        Extent {
            logical: record.le64::<8>(),
            blocks: record.le32::<16>().into(),
            physical: record.le64::<32>() & 0xffff_ffff_ffff,
            volume: record.le16::<38>(),
        }
    };
    Ok(entries.iter().map(extent).collect())
}

impl From<ContextError> for BlockError {
    fn from(error: ContextError) -> Self {
        Self::Context(error)
    }
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checksum => f.write_str("the checksum of a metadata block is wrong"),
            Self::Type(number) => write!(f, "a metadata block has the type {number:#06x}"),
            Self::Extents(count) => {
                write!(f, "a metadata block has {count} extents, for which it has no room")
            }
            Self::Context(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for BlockError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Context(error) => Some(error),
            _ => None,
        }
    }
}
