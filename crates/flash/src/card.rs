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
    ///
    /// # Errors
    /// [`CardSetupError::BounceTooSmall`] if `N` is 0, [`CardSetupError::Granularity`] if 512 bytes are no
    /// multiple of what the cipher takes at least.
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

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;
    use crate::stub::{Failed, Stub};

    /// Notes what is written, and fails if it is told to.
    #[derive(Default)]
    struct Notes {
        written: RefCell<Vec<(u64, u8)>>,
        fails: bool,
    }

    impl BlockDevice for Notes {
        type Error = Failed;

        fn read(&self, blocks: &mut [Block], _: BlockIdx) -> Result<(), Failed> {
            blocks.iter_mut().for_each(|block| block.contents = [0x55; Block::LEN]);
            if self.fails { Err(Failed(3)) } else { Ok(()) }
        }

        fn write(&self, blocks: &[Block], start: BlockIdx) -> Result<(), Failed> {
            self.written
                .borrow_mut()
                .extend(blocks.iter().zip(u64::from(start.0)..).map(|(block, at)| (at, block[0])));
            if self.fails { Err(Failed(4)) } else { Ok(()) }
        }

        fn num_blocks(&self) -> Result<BlockCount, Failed> {
            if self.fails { Err(Failed(5)) } else { Ok(BlockCount(9)) }
        }
    }

    const PLAIN: Block = Block { contents: [0xaa; Block::LEN] };

    #[test]
    fn a_block_that_the_cipher_refuses_is_not_written_and_its_plaintext_not_kept() {
        let cipher = Stub { refuses: Some(6), ..Stub::of(512, 512) };
        let card = CryptCard::<_, _, 4>::new(Notes::default(), cipher).expect("a card");
        let blocks: Vec<Block> = (0..8).map(|_| PLAIN.clone()).collect();
        assert_eq!(card.write(&blocks, BlockIdx(5)), Err(CardError::Cipher(Stub::REFUSAL)));
        assert!(
            card.bounce.borrow().iter().all(|block| !block.contents.contains(&0xaa)),
            "plaintext is kept"
        );
        assert_eq!(*card.card().written.borrow(), []);
        // A run before it has been written, under the cipher.
        let cipher = Stub { refuses: Some(9), ..Stub::of(512, 512) };
        let card = CryptCard::<_, _, 4>::new(Notes::default(), cipher).expect("a card");
        assert!(card.write(&blocks, BlockIdx(5)).is_err());
        assert_eq!(*card.card().written.borrow(), [(5, 0xff), (6, 0xff), (7, 0xff), (8, 0xff)]);
        let mut read = [Block::new(), Block::new()];
        assert_eq!(card.read(&mut read, BlockIdx(8)), Err(CardError::Cipher(Stub::REFUSAL)));
    }

    #[test]
    fn what_a_card_says_is_passed_on_and_blocks_are_numbered_up_to_the_last() {
        let card = |fails| {
            let notes = Notes { fails, ..Notes::default() };
            CryptCard::<_, _, 1>::new(notes, Stub::of(512, 512)).expect("a card")
        };
        assert_eq!(card(true).read(&mut [Block::new()], BlockIdx(0)), Err(CardError::Card(Failed(3))));
        assert_eq!(card(true).write(&[PLAIN], BlockIdx(0)), Err(CardError::Card(Failed(4))));
        assert_eq!(card(true).num_blocks(), Err(CardError::Card(Failed(5))));
        assert_eq!(card(false).num_blocks(), Ok(BlockCount(9)));
        let outside = Err(CardError::OutOfBounds { block: 1 << 32 });
        let last = card(false);
        assert_eq!(last.write(&[PLAIN, PLAIN], BlockIdx(u32::MAX)), outside);
        assert_eq!(*last.card().written.borrow(), [(u64::from(u32::MAX), 0xff)]);
        assert_eq!([address(0), address(7), address(1 << 32)], [0, 3584, 1 << 41]);
    }

    #[test]
    fn a_cipher_that_does_not_go_with_blocks_of_512_bytes_is_refused() {
        for (data_unit, granularity, taken) in [
            (512, 512, true),
            (4096, 16, true),
            (512, 1, true),
            (512, 0, false),
            (1024, 1024, false),
            (512, 384, false),
            (0, 16, false),
        ] {
            let made =
                CryptCard::<_, _, 1>::new(Notes::default(), Stub::of(data_unit, granularity)).map(drop);
            let refused = Err(CardSetupError::Granularity { granularity, block: 512 });
            assert_eq!(made, if taken { Ok(()) } else { refused }, "{data_unit}, {granularity}");
        }
    }
}
