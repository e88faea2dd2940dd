//! An encrypted SD card below FAT: embedded-sdmmc's `BlockDevice` over another one.

use core::cell::RefCell;
use core::fmt;

use atrest_cipher::DataUnitCipher;
use embedded_sdmmc::{Block, BlockCount, BlockDevice, BlockIdx};

use crate::place::{CardError, CardSetupError, Placed};

/// A [`BlockDevice`] that stores ciphertext on another one. Every block is written where the file system writes it, once.
///
/// `N` blocks pass through a buffer of its own on their way to the card: a longer write takes several transfers.
pub struct CryptCard<B, C, const N: usize> {
    card: B,
    cipher: Placed<C>,
    bounce: RefCell<[Block; N]>,
}

impl<B: BlockDevice, C: DataUnitCipher, const N: usize> CryptCard<B, C, N> {
    /// Encrypts what goes to `card`. The cipher takes 512 bytes or less at least.
    pub fn new(card: B, cipher: C) -> Result<Self, CardSetupError> {
        if N == 0 {
            return Err(CardSetupError::BounceTooSmall { needs: Block::LEN, has: 0 });
        }
        let granularity = cipher.granularity();
        let mismatch = CardSetupError::Granularity { granularity, block: Block::LEN };
        if granularity == 0 || !Block::LEN.is_multiple_of(granularity) {
            return Err(mismatch);
        }
        let cipher = Placed::new(cipher).ok_or(mismatch)?;
        Ok(Self { card, cipher, bounce: RefCell::new(core::array::from_fn(|_| Block::new())) })
    }

    /// The card, where the ciphertext is.
    pub fn card(&self) -> &B {
        &self.card
    }

    /// Gives the card back.
    pub fn into_card(self) -> B {
        self.card
    }
}

impl<B: BlockDevice, C: DataUnitCipher, const N: usize> BlockDevice for CryptCard<B, C, N> {
    type Error = CardError<B::Error>;

    fn read(&self, blocks: &mut [Block], start_block_idx: BlockIdx) -> Result<(), Self::Error> {
        self.card.read(blocks, start_block_idx).map_err(CardError::Card)?;
        for (index, block) in (u64::from(start_block_idx.0)..).zip(blocks) {
            self.cipher.decrypt(address(index), &mut block.contents).map_err(CardError::Cipher)?;
        }
        Ok(())
    }

    fn write(&self, blocks: &[Block], start_block_idx: BlockIdx) -> Result<(), Self::Error> {
        let mut bounce = self.bounce.borrow_mut();
        let mut first = u64::from(start_block_idx.0);
        for part in blocks.chunks(N) {
            let at = u32::try_from(first).map_err(|_| CardError::OutOfBounds { block: first })?;
            // A part has no more blocks than there is room for. Otherwise nothing would be written.
            let run = bounce.get_mut(..part.len()).ok_or(CardError::OutOfBounds { block: first })?;
            for ((block, plain), index) in run.iter_mut().zip(part).zip(first..) {
                block.contents = plain.contents;
                if let Err(error) = self.cipher.encrypt(address(index), &mut block.contents) {
                    block.contents = [0; Block::LEN];
                    return Err(CardError::Cipher(error));
                }
            }
            self.card.write(run, BlockIdx(at)).map_err(CardError::Card)?;
            // cannot overflow: a slice is shorter than 2^63 bytes, and the numbers have 32 bits.
            first = first.saturating_add(part.len() as u64);
        }
        Ok(())
    }

    fn num_blocks(&self) -> Result<BlockCount, Self::Error> {
        self.card.num_blocks().map_err(CardError::Card)
    }
}

/// Byte address of a block whose number has at most 33 bits, so that nothing overflows.
fn address(block: u64) -> u64 {
    // cannot overflow: the number has at most 33 bits.
    block.saturating_mul(Block::LEN as u64)
}

impl<B, C, const N: usize> fmt::Debug for CryptCard<B, C, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CryptCard(..)")
    }
}
