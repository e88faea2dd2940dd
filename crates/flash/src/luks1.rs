//! An SD card that carries LUKS1, opened without a heap: what cryptsetup has made, and opens too.

use core::fmt;
use core::marker::PhantomData;

use atrest_kdf::fixed::FixedHash;
use atrest_keyslot::luks1::{
    ChipKey, ChipUnlock, HEADER_LEN, Header, HeaderError, SLOTS, SlotError, StreamError, check_for_chip,
};
use embedded_sdmmc::{Block, BlockDevice, BlockIdx};

use crate::card_part::CardPart;

/// The header of a card with LUKS1, read and checked. Nothing here writes.
///
/// `H` is the hash that the program has on board, the cipher is `aes-xts-plain64`. For a volume in a partition, `B` is a
/// [`CardPart`].
///
/// ```
/// use atrest_cipher::{AesXts, KeyPlace, MapperOptions};
/// use atrest_flash::{CryptCard, Luks1Card};
/// use atrest_kdf::fixed::Sha256;
/// use atrest_keyslot::luks1::{ChipKey, ChipUnlock};
/// use embedded_sdmmc::BlockDevice;
///
/// # fn example(card: impl BlockDevice, place: &mut KeyPlace<AesXts>) -> Result<(), Box<dyn std::error::Error>> {
/// let card = Luks1Card::<_, Sha256>::open(card)?;
/// let mut key = ChipKey::empty();
/// let between = |_left| { /* feed the watchdog */ };
/// let mut means = ChipUnlock { cipher: &mut *place, most_iterations: 20_000, between };
/// card.unlock(None, b"passphrase", &mut means, &mut key)?;
/// let cipher = place.expand(key.expose(), &MapperOptions::default())?;
/// key.clear();
/// // Below FAT; below littlefs it is `CryptFlash` on `CardFlash` on the same payload.
/// let card = CryptCard::<_, _, 4>::new(card.into_payload(), &*cipher)?;
/// # Ok(())
/// # }
/// ```
pub struct Luks1Card<B, H> {
    card: B,
    header: Header,
    /// Blocks of the card.
    blocks: u32,
    hash: PhantomData<H>,
}

/// Why a card with LUKS1 could not be opened or unlocked.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Luks1CardError<E> {
    /// The card's own error.
    Card(E),
    /// There is no LUKS1 header, or none that is acceptable.
    Header(HeaderError),
    /// The header is good, but not for this program: another cipher, another hash.
    NotForChip(SlotError),
    /// The data is on another device.
    DataElsewhere,
    /// The card ends before the data begins: part of an image is missing, or the card lies about its size.
    CutInSize {
        /// Blocks of 512 bytes that are needed at least.
        needs: u64,
        /// Blocks that there are.
        has: u32,
    },
    /// No keyslot holds a key.
    NoKeyslots,
    /// There is no keyslot of that number, or it holds no key.
    SlotNotInUse {
        /// The number.
        slot: usize,
    },
    /// A keyslot was not opened.
    Slot {
        /// Which one: the first that could not be tried, or else the first that refused the passphrase.
        slot: usize,
        /// Why.
        error: SlotError,
    },
    /// The area of a keyslot can't be read, and no other keyslot opens.
    Area {
        /// Which keyslot.
        slot: usize,
        /// The card's own error.
        error: E,
    },
}

impl<B: BlockDevice, H: FixedHash> Luks1Card<B, H> {
    /// Reads the header, and checks that this program can use what it describes.
    ///
    /// # Errors
    /// [`Luks1CardError::Header`] if there is no acceptable LUKS1 header, [`Luks1CardError::NotForChip`] if
    /// this program does not contain its cipher or hash. [`Luks1CardError::DataElsewhere`] or
    /// [`Luks1CardError::CutInSize`] if the data does not begin on this card, and [`Luks1CardError::Card`]
    /// with the card's own error.
    pub fn open(card: B) -> Result<Self, Luks1CardError<B::Error>> {
        let blocks = card.num_blocks().map_err(Luks1CardError::Card)?.0;
        let header = read_header(&card, blocks)?;
        check_for_chip::<H>(&header).map_err(Luks1CardError::NotForChip)?;
        let first = header.data_sector();
        if first == 0 {
            return Err(Luks1CardError::DataElsewhere);
        }
        // Keyslot areas end before the data begins, so they are on the card if the data is.
        if first >= blocks {
            // cannot overflow: 32 bits and one.
            return Err(Luks1CardError::CutInSize { needs: u64::from(first).saturating_add(1), has: blocks });
        }
        Ok(Self { card, header, blocks, hash: PhantomData })
    }

    /// What the header says.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Unlocks with a passphrase: tries the keyslots one after the other, or `slot` alone. Says which one opened.
    ///
    /// When none opens, one that could not be tried is what is reported: its area can't be read, or it asks for more
    /// iterations than are taken. Whoever made the header may have made all eight cost the most, and their digest as much: where
    /// the card can be anybody's, `most_iterations` is a sixteenth of what there is time for, or half if `slot` is named.
    ///
    /// # Errors
    /// [`Luks1CardError::Slot`] with [`SlotError::WrongKey`] if no keyslot opens with this passphrase and all
    /// of them could be tried. Otherwise [`Luks1CardError::Slot`] or [`Luks1CardError::Area`] with the first
    /// that could not. [`Luks1CardError::SlotNotInUse`] or [`Luks1CardError::NoKeyslots`] if there was none
    /// to try.
    pub fn unlock<F: FnMut(u64)>(
        &self,
        slot: Option<usize>,
        passphrase: &[u8],
        means: &mut ChipUnlock<'_, F>,
        key: &mut ChipKey,
    ) -> Result<usize, Luks1CardError<B::Error>> {
        key.clear();
        let mut block = Block::new();
        let (mut refused, mut not_tried) = (None, None);
        let wanted =
            |number: &usize| slot.is_none_or(|slot| slot == *number) && self.header.is_in_use(*number);
        for slot in (0..SLOTS).filter(wanted) {
            let read = |sector, block: &mut Block| self.read(sector, block);
            let opened = means.open::<H, _, _>(&self.header, slot, passphrase, &mut block, read, key);
            match opened {
                Ok(()) => return Ok(slot),
                Err(StreamError::Slot(error @ SlotError::WrongKey)) => {
                    refused.get_or_insert(Luks1CardError::Slot { slot, error });
                }
                Err(StreamError::Slot(error)) => {
                    not_tried.get_or_insert(Luks1CardError::Slot { slot, error });
                }
                Err(StreamError::Read(error)) => {
                    not_tried.get_or_insert(Luks1CardError::Area { slot, error });
                }
            }
        }
        Err(not_tried.or(refused).unwrap_or(match slot {
            Some(slot) => Luks1CardError::SlotNotInUse { slot },
            None => Luks1CardError::NoKeyslots,
        }))
    }

    /// The data, still encrypted: block 0 is the one whose IV is 0.
    pub fn into_payload(self) -> CardPart<B> {
        let first = self.header.data_sector();
        // cannot underflow: `open` has found that the data begins on the card.
        CardPart::checked(self.card, first, self.blocks.saturating_sub(first))
    }

    /// The whole card back.
    pub fn into_card(self) -> B {
        self.card
    }

    /// Reads a sector of a keyslot's area.
    fn read(&self, sector: u64, block: &mut Block) -> Result<(), B::Error> {
        // cannot fail: areas lie before the data, whose first sector has 32 bits. Another one would be on no card.
        let index = BlockIdx(u32::try_from(sector).unwrap_or(u32::MAX));
        self.card.read(core::slice::from_mut(block), index)
    }
}

fn read_header<B: BlockDevice>(card: &B, blocks: u32) -> Result<Header, Luks1CardError<B::Error>> {
    let mut bytes = [0; HEADER_LEN];
    let parts = bytes.chunks_mut(Block::LEN);
    if u64::from(blocks) < parts.len() as u64 {
        // cannot overflow: fewer than two blocks.
        let has = (blocks as usize).saturating_mul(Block::LEN);
        return Err(Luks1CardError::Header(HeaderError::Truncated { has }));
    }
    let mut block = Block::new();
    for (part, index) in parts.zip(0..) {
        card.read(core::slice::from_mut(&mut block), BlockIdx(index)).map_err(Luks1CardError::Card)?;
        for (to, from) in part.iter_mut().zip(&*block) {
            *to = *from;
        }
    }
    Header::parse(&bytes).map_err(Luks1CardError::Header)
}

impl<B, H> fmt::Debug for Luks1Card<B, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Luks1Card").field("header", &self.header).finish_non_exhaustive()
    }
}

impl<E: fmt::Display> fmt::Display for Luks1CardError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Card(error) => write!(f, "the card failed: {error}"),
            Self::Header(error) => write!(f, "not a LUKS1 header: {error}"),
            Self::NotForChip(error) => error.fmt(f),
            Self::DataElsewhere => f.write_str("the header's data is on another device"),
            Self::CutInSize { needs, has } => {
                write!(f, "the volume has {needs} blocks at least, the card only {has}")
            }
            Self::NoKeyslots => f.write_str("no keyslot holds a key"),
            Self::SlotNotInUse { slot } => write!(f, "keyslot {slot} holds no key"),
            Self::Slot { slot, error } => write!(f, "keyslot {slot}: {error}"),
            Self::Area { slot, error } => write!(f, "the area of keyslot {slot} can't be read: {error}"),
        }
    }
}

impl<E: core::error::Error> core::error::Error for Luks1CardError<E> {}

#[cfg(test)]
mod tests {
    use embedded_sdmmc::BlockCount;

    use super::*;
    use crate::stub::Failed;

    /// So many blocks of zeros.
    struct Zeros(u32);

    impl BlockDevice for Zeros {
        type Error = Failed;

        fn read(&self, blocks: &mut [Block], start: BlockIdx) -> Result<(), Failed> {
            blocks.iter_mut().for_each(|block| block.contents = [0; Block::LEN]);
            if start.0 < self.0 { Ok(()) } else { Err(Failed(7)) }
        }

        fn write(&self, _: &[Block], _: BlockIdx) -> Result<(), Failed> {
            Err(Failed(8))
        }

        fn num_blocks(&self) -> Result<BlockCount, Failed> {
            Ok(BlockCount(self.0))
        }
    }

    #[test]
    fn a_header_takes_two_blocks_and_no_third_is_asked_for() {
        let open = |blocks| Luks1Card::<_, atrest_kdf::fixed::Sha256>::open(Zeros(blocks)).map(drop);
        for (blocks, error) in [
            (0, HeaderError::Truncated { has: 0 }),
            (1, HeaderError::Truncated { has: 512 }),
            (2, HeaderError::Magic),
            (3, HeaderError::Magic),
        ] {
            assert_eq!(open(blocks), Err(Luks1CardError::Header(error)), "{blocks} blocks");
        }
    }
}
