//! How a medium is divided: erase blocks, and units in them that entries begin at.

use atrest_device::FlashGeometry;

use crate::MapError;
use crate::head::HEAD_LEN;

/// Erase blocks that a map can have: a word has a bit for each.
pub(crate) const MOST_BLOCKS: u64 = 64;
/// Units that are not for entries: the first of a block and one behind what was moved to it.
const OVERHEAD: u16 = 2;
/// Units in a block at most. Larger blocks get larger units.
const MOST_UNITS: u32 = 1 << 14;

/// What of a user's choice has to do with room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapOptions {
    /// Bytes in the longest value. The larger, the more room is left over at the ends of blocks, which
    /// [`KeyValue::capacity`](crate::KeyValue::capacity) takes into account.
    pub longest: u16,
    /// Erase blocks that are kept free: 1, or more to go on after so many blocks less 1 have gone bad.
    pub spares: u8,
}

impl Default for MapOptions {
    fn default() -> Self {
        Self { longest: 256, spares: 1 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Bytes in a unit.
    pub(crate) unit: u32,
    /// Units in a block.
    pub(crate) units: u16,
    pub(crate) blocks: u8,
    pub(crate) erase_size: u32,
}

impl Shape {
    pub(crate) fn new(medium: FlashGeometry) -> Result<Self, MapError> {
        let (prog, erase) = (medium.prog_size(), medium.erase_size());
        let least = erase.div_ceil(MOST_UNITS).max(HEAD_LEN as u32);
        let unit = least.checked_next_multiple_of(prog).ok_or(MapError::Geometry)?;
        let units = erase.checked_div(unit).and_then(|units| u16::try_from(units).ok());
        let units = units.filter(|units| *units > OVERHEAD).ok_or(MapError::Geometry)?;
        let blocks = Some(medium.block_count()).filter(|blocks| (2..=MOST_BLOCKS).contains(blocks));
        let blocks = blocks.and_then(|blocks| u8::try_from(blocks).ok()).ok_or(MapError::Geometry)?;
        Ok(Self { unit, units, blocks, erase_size: erase })
    }

    /// Units that an entry takes whose value has so many bytes.
    pub(crate) fn units_of(&self, value: usize) -> usize {
        // cannot overflow: a value is in memory beside other things.
        value.saturating_add(HEAD_LEN).div_ceil(self.unit as usize)
    }

    /// Units for entries in a block.
    pub(crate) fn room(&self) -> u16 {
        // cannot underflow: a shape has more units.
        self.units.saturating_sub(OVERHEAD)
    }

    /// Address of a unit.
    pub(crate) fn address(&self, block: u8, unit: u16) -> u64 {
        let block = u64::from(block).saturating_mul(self.erase_size.into());
        // cannot overflow: the medium's size fits.
        block.saturating_add(u64::from(unit).saturating_mul(self.unit.into()))
    }

    /// Units for entries that are there for certain, however they are spread, if the longest takes so many.
    ///
    /// `window` blocks hold entries; one more is always free. Values are moved a block at a time, so there has to be one block with room
    /// for the longest beside its own: if each had less, they would hold more than this.
    pub(crate) fn capacity(&self, window: u8, longest: usize) -> usize {
        let filled = usize::from(self.room()).checked_sub(longest).map_or(0, |rest| rest.saturating_add(1));
        // cannot overflow: a block has fewer than 2^14 units, and there are 64 at most. Intended: nothing less one is nothing.
        usize::from(window).saturating_mul(filled).saturating_sub(1)
    }

    pub(crate) fn check(&self, options: &MapOptions) -> Result<(), MapError> {
        let fits = self.units_of(options.longest.into()) <= self.room().into();
        if fits && options.spares > 0 && options.spares < self.blocks {
            Ok(())
        } else {
            Err(MapError::Options)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(prog: u32, erase: u32, blocks: u64) -> Result<Shape, MapError> {
        Shape::new(FlashGeometry::new(1, prog, erase, blocks).expect("a geometry"))
    }

    #[test]
    fn units_hold_a_head_and_blocks_hold_units() {
        let of = |shape: Shape| (shape.unit, shape.units, shape.blocks);
        assert_eq!(shape(1, 4096, 8).map(of), Ok((32, 128, 8)));
        assert_eq!(shape(16, 4096, 64).map(of), Ok((32, 128, 64)));
        assert_eq!(shape(24, 4800, 2).map(of), Ok((48, 100, 2)));
        assert_eq!(shape(292, 13 * 292, 4).map(of), Ok((292, 13, 4)));
        assert_eq!(shape(4, 1 << 20, 4).map(of), Ok((64, 1 << 14, 4)));
        for (prog, erase, blocks) in [(16, 64, 4), (256, 512, 4), (16, 4096, 1), (16, 4096, 65)] {
            assert_eq!(shape(prog, erase, blocks), Err(MapError::Geometry), "{prog} {erase} {blocks}");
        }
    }

    #[test]
    fn options_that_leave_no_room_are_refused() {
        let shape = shape(16, 512, 4).expect("a shape");
        let check = |longest, spares| shape.check(&MapOptions { longest, spares });
        assert_eq!((check(0, 1), check(14 * 32 - 32, 3)), (Ok(()), Ok(())));
        for (longest, spares) in [(14 * 32 - 31, 1), (0, 0), (0, 4)] {
            assert_eq!(check(longest, spares), Err(MapError::Options), "{longest} {spares}");
        }
        assert_eq!((shape.capacity(3, 1), shape.capacity(3, 14), shape.capacity(3, 15)), (41, 2, 0));
        assert_eq!((shape.capacity(1, 2), shape.capacity(0, 1)), (12, 0));
    }
}
