//! An SD card as a flash device, so that littlefs can live on it: embedded-sdmmc's `BlockDevice` below ours.

use core::fmt;

use atrest_device::{FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation, GeometryError};
use embedded_sdmmc::{Block, BlockDevice, BlockIdx};

/// A [`FlashDevice`] whose units are the 512-byte blocks of a card.
///
/// Cards erase by themselves when they are written: [`erase`](FlashDevice::erase) does nothing, units can be programmed again,
/// there is no notion of a blank one, and what was erased still reads as before. `N` blocks are transferred at once.
pub struct CardFlash<B, const N: usize> {
    card: B,
    geometry: FlashGeometry,
    buffer: [Block; N],
}

/// Why a card can't be a flash device.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardFlashError<E> {
    /// The card's own error.
    Card(E),
    /// The erase block is no multiple of 512 bytes, or larger than the card.
    Geometry(GeometryError),
    /// The buffer has no room for a block.
    NoBuffer,
}

impl<B: BlockDevice, const N: usize> CardFlash<B, N> {
    /// Takes as many blocks of `erase_size` bytes as are whole on the card.
    ///
    /// # Errors
    /// [`CardFlashError::NoBuffer`] if `N` is 0, [`CardFlashError::Card`] if the card does not tell its size,
    /// [`CardFlashError::Geometry`] if `erase_size` is no multiple of 512 bytes or larger than the card.
    pub fn new(card: B, erase_size: u32) -> Result<Self, CardFlashError<B::Error>> {
        if N == 0 {
            return Err(CardFlashError::NoBuffer);
        }
        let blocks = card.num_blocks().map_err(CardFlashError::Card)?;
        // cannot overflow: 2^32 blocks of 512 bytes are 2^41.
        let bytes = u64::from(blocks.0).saturating_mul(Block::LEN as u64);
        // intended: the geometry refuses erase blocks of 0 bytes, and a count of 0.
        let count = bytes.checked_div(u64::from(erase_size)).unwrap_or(0);
        let geometry = FlashGeometry::new(Block::LEN_U32, Block::LEN_U32, erase_size, count)
            .map_err(CardFlashError::Geometry)?;
        Ok(Self { card, geometry, buffer: core::array::from_fn(|_| Block::new()) })
    }

    /// Gives the card back.
    pub fn into_card(self) -> B {
        self.card
    }

    /// The block that lies at an address, which was checked.
    fn block(operation: FlashOperation, address: u64, len: usize) -> Result<BlockIdx, FlashError> {
        // cannot overflow: it is 2^41.
        let outside = FlashCause::OutOfBounds { size: (u64::from(u32::MAX) + 1).saturating_mul(512) };
        let number = u32::try_from(address / 512);
        number.map(BlockIdx).map_err(|_| FlashError::new(operation, address, len as u64, outside))
    }
}

impl<B: BlockDevice, const N: usize> FlashDevice for CardFlash<B, N> {
    fn geometry(&self) -> FlashGeometry {
        self.geometry
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.geometry.check(FlashOperation::Read, address, buf.len() as u64)?;
        let mut at = address;
        // cannot overflow: the buffer has as many bytes.
        for part in buf.chunks_mut(Block::LEN.saturating_mul(N)) {
            let len = part.len();
            let (blocks, _) = part.as_chunks_mut::<{ Block::LEN }>();
            let run = room(&mut self.buffer, blocks.len(), FlashOperation::Read, at)?;
            self.card
                .read(run, Self::block(FlashOperation::Read, at, len)?)
                .map_err(|_| FlashError::new(FlashOperation::Read, at, len as u64, FAILED))?;
            for (to, from) in blocks.iter_mut().zip(run) {
                *to = from.contents;
            }
            // cannot overflow: within the geometry, which was checked.
            at = at.saturating_add(len as u64);
        }
        Ok(())
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.geometry.check(FlashOperation::Prog, address, data.len() as u64)?;
        let mut at = address;
        // cannot overflow: the buffer has as many bytes.
        for part in data.chunks(Block::LEN.saturating_mul(N)) {
            let len = part.len();
            let (blocks, _) = part.as_chunks::<{ Block::LEN }>();
            let run = room(&mut self.buffer, blocks.len(), FlashOperation::Prog, at)?;
            for (to, from) in run.iter_mut().zip(blocks) {
                to.contents = *from;
            }
            self.card
                .write(run, Self::block(FlashOperation::Prog, at, len)?)
                .map_err(|_| FlashError::new(FlashOperation::Prog, at, len as u64, FAILED))?;
            // cannot overflow: within the geometry, which was checked.
            at = at.saturating_add(len as u64);
        }
        Ok(())
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.geometry.check(FlashOperation::Erase, address, len)
    }

    /// embedded-sdmmc's writes have been stored when they return.
    fn sync(&mut self) -> Result<(), FlashError> {
        Ok(())
    }

    fn erased_byte(&self) -> Option<u8> {
        None
    }
}

/// Room for so many blocks. A part of a transfer has no more than there are.
fn room(
    buffer: &mut [Block],
    blocks: usize,
    operation: FlashOperation,
    at: u64,
) -> Result<&mut [Block], FlashError> {
    let cause = FlashCause::BufferTooSmall { needs: Block::LEN_U32, has: 0 };
    buffer.get_mut(..blocks).ok_or(FlashError::new(operation, at, 0, cause))
}

/// Errors of cards have no numbers.
const FAILED: FlashCause = FlashCause::Driver(0);

impl<B, const N: usize> fmt::Debug for CardFlash<B, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CardFlash").field("geometry", &self.geometry).finish_non_exhaustive()
    }
}

impl<E: fmt::Display> fmt::Display for CardFlashError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Card(error) => write!(f, "the card failed: {error}"),
            Self::Geometry(error) => write!(f, "the erase block does not fit the card: {error}"),
            Self::NoBuffer => f.write_str("a card needs a buffer of one block at least"),
        }
    }
}

impl<E: core::error::Error> core::error::Error for CardFlashError<E> {}

#[cfg(test)]
mod tests {
    use atrest_device::FlashOperation::{Erase, Prog, Read};
    use embedded_sdmmc::BlockCount;

    use super::*;
    use crate::stub::Failed;

    /// A card of so many blocks that answers nothing.
    struct Dead(u32);

    impl BlockDevice for Dead {
        type Error = Failed;

        fn read(&self, _: &mut [Block], _: BlockIdx) -> Result<(), Failed> {
            Err(Failed(1))
        }

        fn write(&self, _: &[Block], _: BlockIdx) -> Result<(), Failed> {
            Err(Failed(2))
        }

        fn num_blocks(&self) -> Result<BlockCount, Failed> {
            if self.0 == 0 { Err(Failed(3)) } else { Ok(BlockCount(self.0)) }
        }
    }

    type Card = CardFlash<Dead, 2>;

    #[test]
    fn a_transfer_is_checked_before_the_card_is_asked_and_its_errors_are_told() {
        let mut card = Card::new(Dead(17), 1024).expect("a card");
        let size = 8 * 1024;
        let outside = FlashCause::OutOfBounds { size };
        let cause = |result: Result<(), FlashError>| result.map_err(|error| (error.operation, error.cause));
        assert_eq!(cause(card.read(size, &mut [0; 512])), Err((Read, outside)));
        assert_eq!(cause(card.prog(size, &[0; 512])), Err((Prog, outside)));
        assert_eq!(cause(card.erase(size, 1024)), Err((Erase, outside)));
        assert_eq!(cause(card.erase(512, 1024)), Err((Erase, FlashCause::Misaligned { multiple: 1024 })));
        assert_eq!(cause(card.read(1, &mut [0; 512])), Err((Read, FlashCause::Misaligned { multiple: 512 })));
        assert_eq!(cause(card.read(0, &mut [0; 512])), Err((Read, FAILED)));
        assert_eq!(cause(card.prog(0, &[0; 512])), Err((Prog, FAILED)));
        assert_eq!((card.erase(0, size), card.sync(), card.erased_byte()), (Ok(()), Ok(()), None));
        assert_eq!(Card::new(Dead(0), 1024).map(drop), Err(CardFlashError::Card(Failed(3))));
        assert_eq!(CardFlash::<_, 0>::new(Dead(17), 1024).map(drop), Err(CardFlashError::NoBuffer));
        assert!(Card::new(Dead(17), 1024 + 256).is_err() && Card::new(Dead(17), 0).is_err());
    }

    #[test]
    fn blocks_are_numbered_with_32_bits_and_no_address_behind_them_reaches_another_one() {
        let block = |address| Card::block(Read, address, 512).map(|block| block.0);
        assert_eq!([block(0), block(512), block((1 << 41) - 512)], [Ok(0), Ok(1), Ok(u32::MAX)]);
        let outside = FlashError::new(Read, 1 << 41, 512, FlashCause::OutOfBounds { size: 1 << 41 });
        assert_eq!(block(1 << 41), Err(outside));
    }
}
