//! Forward error correction: a Reed-Solomon code over GF(2^8) across the data, the tree and what follows the tree.
//!
//! A codeword has 255 bytes, of which the last 2 to 24 are parity. Its other bytes lie far from each other: byte `i` of the codeword
//! for byte `b` of the blocks of round `n` is byte `b` of block `n + i * rounds`. Blocks behind the last one count as zeros.

use core::fmt;

/// Bytes in a codeword.
pub const RS_LEN: usize = 255;
/// Fewest bytes of parity in a codeword.
pub const MIN_ROOTS: u32 = 2;
/// Most bytes of parity in a codeword.
pub const MAX_ROOTS: u32 = 24;

/// Which blocks are covered, and where the parity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fec {
    roots: u32,
    block: u32,
    data_blocks: u64,
    blocks: u64,
    rounds: u64,
    offset: u64,
}

/// Why there is no such code.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FecError {
    /// The bytes of parity are not 2 to 24.
    Roots {
        /// How many are asked for.
        roots: u32,
    },
    /// Blocks of the data and of the tree have different sizes.
    BlockSizes,
    /// The parity does not begin at a whole number of sectors of 512 bytes.
    Offset {
        /// Where it begins, in bytes.
        offset: u64,
    },
    /// What is to be covered, or its parity, ends beyond 2^63 bytes.
    TooLarge,
}

impl Fec {
    /// A code of `roots` bytes of parity over `data_blocks` of data and `hash_blocks` of the tree and behind it, each of `block` bytes.
    /// The parity begins at byte `offset` of its device.
    ///
    /// # Errors
    /// [`FecError`] if one of the numbers is not acceptable.
    pub fn new(
        roots: u32,
        (data_block, hash_block): (u32, u32),
        (data_blocks, hash_blocks): (u64, u64),
        offset: u64,
    ) -> Result<Self, FecError> {
        if !(MIN_ROOTS..=MAX_ROOTS).contains(&roots) {
            return Err(FecError::Roots { roots });
        }
        if data_block != hash_block {
            return Err(FecError::BlockSizes);
        }
        if !offset.is_multiple_of(512) {
            return Err(FecError::Offset { offset });
        }
        let block = data_block;
        let blocks = data_blocks.checked_add(hash_blocks).ok_or(FecError::TooLarge)?;
        // cannot underflow: `roots` are at most 24.
        let data_len = (RS_LEN as u64).wrapping_sub(roots.into());
        let rounds = blocks.div_ceil(data_len);
        // Also the blocks of zeros behind the last one have a place.
        let covered = rounds.checked_mul(data_len).and_then(|blocks| blocks.checked_mul(block.into()));
        let parity = rounds.checked_mul(u64::from(roots)).and_then(|blocks| blocks.checked_mul(block.into()));
        let end = parity.and_then(|len| offset.checked_add(len));
        match (covered, end) {
            (Some(covered), Some(end)) if covered.max(end) <= i64::MAX as u64 => {}
            _ => return Err(FecError::TooLarge),
        }
        Ok(Self { roots, block, data_blocks, blocks, rounds, offset })
    }

    /// Bytes of parity in a codeword.
    pub fn roots(&self) -> usize {
        self.roots as usize
    }

    /// Bytes in a codeword that are not parity.
    pub fn data_len(&self) -> usize {
        // cannot underflow: `new` has looked.
        RS_LEN.wrapping_sub(self.roots as usize)
    }

    /// Bytes in a block.
    pub fn block(&self) -> u32 {
        self.block
    }

    /// Blocks of data among those that are covered. They come first.
    pub fn data_blocks(&self) -> u64 {
        self.data_blocks
    }

    /// Blocks that are covered.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Rounds: in each, one block of each of the [`data_len`](Self::data_len) parts of what is covered.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Blocks that the parity takes.
    pub fn parity_blocks(&self) -> u64 {
        // cannot overflow: `new` has looked.
        self.rounds.wrapping_mul(self.roots.into())
    }

    /// Where the parity begins, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Where the parity ends, in bytes.
    pub fn end(&self) -> u64 {
        // cannot overflow: `new` has looked.
        self.offset.wrapping_add(self.parity_blocks().wrapping_mul(self.block.into()))
    }

    /// The block whose bytes are byte `index` of the codewords of a round, or `None` if it counts as zeros.
    pub fn covered(&self, round: u64, index: usize) -> Option<u64> {
        let block = self.rounds.checked_mul(index as u64).and_then(|part| part.checked_add(round));
        block.filter(|block| *block < self.blocks)
    }

    /// The round and the byte of its codewords that a covered block is.
    pub fn codeword(&self, block: u64) -> Option<(u64, usize)> {
        if block >= self.blocks {
            return None;
        }
        let round = block.checked_rem(self.rounds)?;
        let index = block.checked_div(self.rounds)?;
        Some((round, usize::try_from(index).ok()?))
    }

    /// Where the parity of the codeword for byte `byte` of a round's blocks begins.
    pub fn parity_at(&self, round: u64, byte: u32) -> u64 {
        // cannot overflow: inside the parity, for which `new` has looked.
        let codeword = round.wrapping_mul(self.block.into()).wrapping_add(byte.into());
        self.offset.wrapping_add(codeword.wrapping_mul(self.roots.into()))
    }
}

impl fmt::Display for FecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Roots { roots } => write!(f, "{roots} bytes of parity are impossible: 2 to 24 are not"),
            Self::BlockSizes => {
                f.write_str("error correction needs blocks of one size for the data and the tree")
            }
            Self::Offset { offset } => {
                write!(f, "parity can't begin at byte {offset}, which is no multiple of 512")
            }
            Self::TooLarge => {
                f.write_str("what error correction covers, or its parity, would end beyond 2^63 bytes")
            }
        }
    }
}

impl core::error::Error for FecError {}
