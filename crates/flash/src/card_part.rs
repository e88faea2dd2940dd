//! A part of a card, as a card of its own: a partition, or what lies behind a header.

use core::fmt;

use embedded_sdmmc::{Block, BlockCount, BlockDevice, BlockIdx};

use crate::place::CardError;

/// Neighbouring blocks of a card. Their numbers count from the first of them; those in errors do too.
pub struct CardPart<B> {
    card: B,
    first: u32,
    count: u32,
}

impl<B: BlockDevice> CardPart<B> {
    /// `count` blocks from `first` on, all of them on the card.
    ///
    /// # Errors
    /// [`CardError::OutOfBounds`] with the size of the card if the part does not lie on it,
    /// [`CardError::Card`] if the card does not tell its size.
    pub fn new(card: B, first: u32, count: u32) -> Result<Self, CardError<B::Error>> {
        let has = card.num_blocks().map_err(CardError::Card)?.0;
        if first.checked_add(count).is_none_or(|end| end > has) {
            return Err(CardError::OutOfBounds { block: u64::from(has) });
        }
        Ok(Self::checked(card, first, count))
    }

    /// `count` blocks from `first` on, which the caller knows to be on the card.
    pub(crate) fn checked(card: B, first: u32, count: u32) -> Self {
        Self { card, first, count }
    }

    /// The whole card back.
    pub fn into_card(self) -> B {
        self.card
    }

    /// Where a run of the part's blocks lies on the card.
    fn place(&self, start: BlockIdx, len: usize) -> Result<BlockIdx, CardError<B::Error>> {
        // cannot overflow: a slice is shorter than 2^63 bytes.
        let end = u64::from(start.0).saturating_add(len as u64);
        let outside = CardError::OutOfBounds { block: u64::from(start.0.max(self.count)) };
        match self.first.checked_add(start.0) {
            Some(index) if end <= u64::from(self.count) => Ok(BlockIdx(index)),
            _ => Err(outside),
        }
    }
}

impl<B: BlockDevice> BlockDevice for CardPart<B> {
    type Error = CardError<B::Error>;

    fn read(&self, blocks: &mut [Block], start_block_idx: BlockIdx) -> Result<(), Self::Error> {
        let index = self.place(start_block_idx, blocks.len())?;
        self.card.read(blocks, index).map_err(CardError::Card)
    }

    fn write(&self, blocks: &[Block], start_block_idx: BlockIdx) -> Result<(), Self::Error> {
        let index = self.place(start_block_idx, blocks.len())?;
        self.card.write(blocks, index).map_err(CardError::Card)
    }

    fn num_blocks(&self) -> Result<BlockCount, Self::Error> {
        Ok(BlockCount(self.count))
    }
}

impl<B> fmt::Debug for CardPart<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CardPart")
            .field("first", &self.first)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}
