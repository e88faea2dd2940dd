//! Where the hashes lie: levels of blocks, the one block of the top level first. Its hash is the root hash.

use alloc::vec::Vec;
use core::fmt;

use super::parameters::{HashType, Parameters};
use super::superblock::SUPERBLOCK_LEN;

/// More levels than this are refused, as the kernel does.
pub const MAX_LEVELS: usize = 63;

/// Where the tree lies on the hash device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreePlace {
    /// Byte at which the superblock is, or the tree where there is none.
    pub offset: u64,
    /// Whether there is a superblock.
    pub superblock: bool,
}

/// One level of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Its first block, in blocks of the tree from the beginning of the hash device.
    pub first: u64,
    /// How many blocks it has.
    pub blocks: u64,
}

/// The tree over some data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Level 0 has the hashes of the data. Without any level the root hash is that of the only block of data.
    levels: Vec<Level>,
    digest_len: usize,
    stride: usize,
    per_block_log2: u32,
    block: u32,
    first: u64,
    end: u64,
    /// Neither a tree nor a superblock is stored.
    is_nothing: bool,
}

/// Why there is no such tree.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeError {
    /// Two hashes do not fit into a block of the tree.
    Digest {
        /// Bytes in a hash.
        digest: usize,
        /// Bytes in a block.
        block: u32,
    },
    /// The tree's place is no whole number of sectors of 512 bytes, or without a superblock no whole number of the tree's blocks.
    Offset {
        /// The place.
        offset: u64,
        /// What it must be a multiple of, in bytes.
        multiple: u32,
    },
    /// The tree ends beyond 2^63 bytes, or has too many levels.
    TooLarge,
}

impl Tree {
    /// Lays out the tree, with hashes of `digest_len` bytes.
    ///
    /// # Errors
    /// [`TreeError`] if hashes do not fit into blocks, or the tree does not begin or end where it may.
    pub fn new(parameters: &Parameters, digest_len: usize, place: TreePlace) -> Result<Self, TreeError> {
        let block = parameters.hash_block();
        let bad_digest = TreeError::Digest { digest: digest_len, block };
        let per_block = (block as usize).checked_div(digest_len).and_then(usize::checked_ilog2);
        let per_block_log2 = per_block.filter(|log2| *log2 > 0).ok_or(bad_digest)?;
        let stride = match parameters.hash_type() {
            HashType::ChromeOs => digest_len,
            HashType::Normal => digest_len.checked_next_power_of_two().ok_or(bad_digest)?,
        };
        let first = first_block(place, block)?;
        let levels = levels(parameters.data_blocks(), per_block_log2, first)?;
        let end = levels.first().map_or(Some(first), |lowest| lowest.first.checked_add(lowest.blocks));
        let in_bytes = end.and_then(|end| end.checked_mul(block.into()));
        let end = end.filter(|_| in_bytes.is_some_and(|bytes| bytes <= i64::MAX as u64));
        let end = end.ok_or(TreeError::TooLarge)?;
        let is_nothing = levels.is_empty() && !place.superblock;
        Ok(Self { levels, digest_len, stride, per_block_log2, block, first, end, is_nothing })
    }

    /// The levels, that above the data first.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// Bytes in a hash.
    pub fn digest_len(&self) -> usize {
        self.digest_len
    }

    /// Bytes from one hash in a block to the next.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Hashes in a block, a power of two.
    pub fn digests_per_block(&self) -> u64 {
        1 << self.per_block_log2
    }

    /// Which block of the level above has the hash of block `index`, and where in it, in bytes.
    pub fn parent(&self, index: u64) -> (u64, usize) {
        // cannot overflow: less than the bytes of a block.
        let slot = (index & (self.digests_per_block().wrapping_sub(1))) as usize;
        (index >> self.per_block_log2, slot.wrapping_mul(self.stride))
    }

    /// Bytes in a block of the tree.
    pub fn block(&self) -> u32 {
        self.block
    }

    /// First block of the tree, counted from the beginning of the hash device.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Block behind the tree, counted from the beginning of the hash device.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Blocks in the tree.
    pub fn blocks(&self) -> u64 {
        // cannot overflow: the end is not before the beginning.
        self.end.wrapping_sub(self.first)
    }

    /// Bytes that its device must have: none where nothing is stored, because one block of data has no tree and no superblock is wanted.
    pub fn needed_bytes(&self) -> u64 {
        if self.is_nothing { 0 } else { self.end_bytes() }
    }

    /// First byte behind the tree.
    pub fn end_bytes(&self) -> u64 {
        // cannot overflow: `new` has looked.
        self.end.wrapping_mul(self.block.into())
    }
}

fn first_block(place: TreePlace, block: u32) -> Result<u64, TreeError> {
    let multiple = if place.superblock { SUPERBLOCK_LEN as u32 } else { block };
    if !place.offset.is_multiple_of(multiple.into()) {
        return Err(TreeError::Offset { offset: place.offset, multiple });
    }
    let before = if place.superblock { SUPERBLOCK_LEN as u64 } else { 0 };
    let begin = place.offset.checked_add(before).ok_or(TreeError::TooLarge)?;
    Ok(begin.div_ceil(block.into()))
}

/// Levels until one has a single block. The top one lies first.
fn levels(data_blocks: u64, per_block_log2: u32, first: u64) -> Result<Vec<Level>, TreeError> {
    let mut counts = Vec::new();
    let mut below = data_blocks;
    while below > 1 {
        below = below.div_ceil(1 << per_block_log2);
        counts.push(below);
        if counts.len() > MAX_LEVELS {
            return Err(TreeError::TooLarge);
        }
    }
    let mut at = first;
    let mut levels = Vec::new();
    for blocks in counts.into_iter().rev() {
        levels.push(Level { first: at, blocks });
        at = at.checked_add(blocks).ok_or(TreeError::TooLarge)?;
    }
    levels.reverse();
    Ok(levels)
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Digest { digest, block } => {
                write!(f, "two hashes of {digest} bytes do not fit into a block of {block} bytes")
            }
            Self::Offset { offset, multiple } => {
                write!(f, "the tree can't begin at byte {offset}, which is no multiple of {multiple}")
            }
            Self::TooLarge => f.write_str("the tree would end beyond 2^63 bytes"),
        }
    }
}

impl core::error::Error for TreeError {}
