//! The bitmap that takes the journal's place: a set bit says that tags of its data units may be wrong.
//!
//! Bit 0 is the lowest bit of the first byte behind the superblock. The bitmap is read and written in blocks of 4096 bytes, of which the
//! last one may be cut off where the journal ends.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::Layout;

const BLOCK: usize = 4096;

/// Bits, each of which stands for a *region*: a run of data units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bitmap {
    bytes: Vec<u8>,
    log2_units: u8,
    units: u64,
}

impl Bitmap {
    /// A bitmap with no bit set, for the data units of a layout. `None` if a bit for so few units makes it longer than the journal.
    pub fn clear(layout: &Layout, log2_units: u8) -> Option<Self> {
        let units = layout.units();
        let bits = units.checked_sub(1)?.checked_shr(log2_units.into())?.checked_add(1)?;
        let journal = layout.section_len().checked_mul(layout.sections().into())?;
        let bytes = bits.div_ceil(8);
        if bytes > journal || u32::try_from(bits).is_err() {
            return None;
        }
        let len = bytes.checked_next_multiple_of(BLOCK as u64)?.min(journal);
        Some(Self { bytes: vec![0; usize::try_from(len).ok()?], log2_units, units })
    }

    /// Base-2 logarithm of the data units of a region.
    pub fn log2_units(&self) -> u8 {
        self.log2_units
    }

    /// The bitmap as it lies behind the superblock.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where the bitmap is read into.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Sets the bit of every region that has one of these units.
    pub fn set(&mut self, units: Range<u64>) {
        for region in self.regions(units) {
            if let Some(byte) = self.bytes.get_mut(byte_of(region)) {
                *byte |= 1 << (region & 7);
            }
        }
    }

    /// Where the blocks lie that have the bits of these units, in bytes of the bitmap.
    pub fn blocks(&self, units: Range<u64>) -> Range<usize> {
        let regions = self.regions(units);
        let block = |region: u64| byte_of(region).checked_div(BLOCK).unwrap_or(0); // cannot fail: a block is not 0.
        // intended: no unit is in no block.
        let end = regions.end.checked_sub(1).map_or(0, |last| block(last).saturating_add(1));
        // cannot overflow: the bitmap has fewer than 2^29 bytes.
        block(regions.start).saturating_mul(BLOCK)..end.saturating_mul(BLOCK).min(self.bytes.len())
    }

    /// Whether the region that has a unit is marked.
    pub fn has(&self, unit: u64) -> bool {
        self.marked(unit.checked_shr(self.log2_units.into()).unwrap_or(0)) // intended: one region has all.
    }

    /// Whether each region that has one of these units is marked.
    pub fn has_all(&self, units: Range<u64>) -> bool {
        self.regions(units).all(|region| self.marked(region))
    }

    /// Whether no region is marked. Bits behind the last region do not count.
    pub fn is_clear(&self) -> bool {
        self.next(0).is_none()
    }

    /// Returns the units from `from` on that the first marked region has which ends behind it.
    pub fn next(&self, from: u64) -> Option<Range<u64>> {
        let mut regions = self.regions(from..self.units);
        let mut region = regions.next()?;
        while !self.marked(region) {
            region = match region & 7 {
                // Eight at once, of a byte that has none.
                0 if self.bytes.get(byte_of(region)) == Some(&0) => regions.nth(7)?,
                _ => regions.next()?,
            };
        }
        let start = region.checked_shl(self.log2_units.into())?;
        let end = region.checked_add(1)?.checked_mul(1_u64.checked_shl(self.log2_units.into())?);
        Some(start.max(from)..end.map_or(self.units, |end| end.min(self.units)))
    }

    /// Clears every bit but those that `keep` has and that have a unit behind `from`.
    pub fn keep(&mut self, keep: &Self, from: u64) {
        self.bytes.fill(0);
        let mut at = from;
        while let Some(units) = keep.next(at) {
            at = units.end;
            self.set(units);
        }
    }

    /// The numbers of the regions that have one of these units.
    fn regions(&self, units: Range<u64>) -> Range<u64> {
        let end = units.end.min(self.units);
        if units.start >= end {
            return 0..0;
        }
        let region = |unit: u64| unit.checked_shr(self.log2_units.into()).unwrap_or(0); // intended: as above
        // cannot be less than 0: the range is not empty. A region is one of at most 2^32.
        region(units.start)..region(end.saturating_sub(1)).saturating_add(1)
    }

    fn marked(&self, region: u64) -> bool {
        self.bytes.get(byte_of(region)).is_some_and(|byte| byte & 1 << (region & 7) != 0)
    }
}

/// The byte that has a region's bit.
fn byte_of(region: u64) -> usize {
    (region >> 3) as usize
}

#[cfg(test)]
mod tests {
    use super::super::{Flags, Layout, NewLayout};
    use super::*;

    fn layout(size: u64, journal: Option<u32>) -> Layout {
        let new = NewLayout {
            data_unit: 512,
            tag_len: 4,
            interleave: 0,
            journal,
            flags: Flags { fixed_padding: true, ..Flags::default() },
            salt: [0; 16],
            size,
            data_size: None,
        };
        let superblock = Layout::create(&new).expect("there is room");
        Layout::new(&superblock, new.size, None).expect("it lies there")
    }

    #[test]
    fn a_unit_marks_its_region_alone_and_the_last_one_ends_with_the_data() {
        let layout = layout(4 << 20, None);
        let mut bitmap = Bitmap::clear(&layout, 4).expect("it fits");
        assert!(bitmap.is_clear() && bitmap.bytes().len() == 4096);
        bitmap.set(15..33);
        assert_eq!(bitmap.bytes()[..2], [7, 0]);
        bitmap.set(16 * 9..16 * 9 + 1);
        assert_eq!(bitmap.bytes()[..2], [7, 2]);
        assert!(bitmap.has(0) && bitmap.has(47) && !bitmap.has(48) && bitmap.has(159) && !bitmap.has(160));
        assert!(bitmap.has_all(0..48) && !bitmap.has_all(0..49));
        assert_eq!((bitmap.blocks(5..6), bitmap.blocks(0..0)), (0..4096, 0..0));
        assert_eq!(bitmap.next(5), Some(5..16));
        assert_eq!(bitmap.next(48), Some(144..160));
        assert_eq!(bitmap.next(160), None);
        let units = layout.units();
        bitmap.set(units - 1..units + 100);
        let last = (units - 1) / 16 * 16;
        assert_eq!(bitmap.next(160), Some(last..units));
        let mut kept = Bitmap::clear(&layout, 4).expect("it fits");
        kept.set(0..units);
        kept.keep(&bitmap, 20);
        assert!(!kept.has(0) && kept.has(20) && kept.has(144) && !kept.has(170) && kept.has(units - 1));
    }

    #[test]
    fn a_bitmap_that_is_longer_than_the_journal_is_none() {
        let long = layout(1 << 30, Some(0));
        assert!(Bitmap::clear(&long, 0).is_none(), "two million bits in 90 KiB");
        let bitmap = Bitmap::clear(&long, 3).expect("an eighth");
        assert!(bitmap.bytes().len() as u64 <= long.section_at(1) - long.section_at(0));
        assert!(Bitmap::clear(&long, 63).is_some_and(|bitmap| bitmap.bytes().len() == 4096));
        assert!(Bitmap::clear(&long, 64).is_none());
    }
}
