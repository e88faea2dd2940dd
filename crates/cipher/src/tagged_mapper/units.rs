//! Some data units on their way through a cipher.

use crate::block::Direction;

/// Data units at once, at most.
pub(crate) const MOST: usize = 32;

/// Room for the IV of any cipher.
pub(crate) type AnyIv = [u8; 32];

/// Room for the tag of any cipher.
pub(crate) type AnyTag = [u8; 64];

/// At most [`MOST`] data units, their IVs and the tags that the cipher makes, one of each for each unit.
pub(crate) struct UnitsWithTags<'a> {
    pub(crate) direction: Direction,
    /// The sector of the first unit, in sectors of 512 bytes from the start of the segment.
    pub(crate) sector: u64,
    /// Bytes in a unit: a multiple of 512.
    pub(crate) unit: usize,
    pub(crate) ivs: &'a [AnyIv],
    /// Encrypted or decrypted in place.
    pub(crate) data: &'a mut [u8],
    /// What the tags are to be, whichever way the data goes.
    pub(crate) tags: &'a mut [AnyTag],
}

impl UnitsWithTags<'_> {
    /// The sector of that unit.
    pub(crate) fn sector_of(&self, unit: usize) -> u64 {
        self.sector.wrapping_add((self.unit as u64 / 512).wrapping_mul(unit as u64))
    }

    /// Splits them into pieces of at most `count` units.
    pub(crate) fn in_groups(self, count: usize, mut each: impl FnMut(UnitsWithTags<'_>)) {
        let count = count.max(1);
        let Self { direction, sector, unit, ivs, data, tags } = self;
        let groups = ivs.chunks(count).zip(data.chunks_mut(unit * count)).zip(tags.chunks_mut(count));
        let per_group = (unit as u64 / 512).wrapping_mul(count as u64);
        for (number, ((ivs, data), tags)) in (0_u64..).zip(groups) {
            let sector = sector.wrapping_add(per_group.wrapping_mul(number));
            each(UnitsWithTags { direction, sector, unit, ivs, data, tags });
        }
    }
}
