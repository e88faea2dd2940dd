//! A section of the journal: eight sectors of entries, then the data units that they name.
//!
//! Every sector ends with a *commit id*, which says for which section, sector and round it was written. A section is valid if all of its
//! sectors have the same round. The bytes that commit ids displace in the data stand in the entries.

use super::Layout;
use super::layout::ENTRY_SECTORS;

/// Bytes of a section's keyed hash, shorter ones filled up with zeros.
pub const JOURNAL_MAC_LEN: usize = 64;

const SECTOR: usize = 512;
const ID: usize = 8;
/// Where a sector's commit id stands, and its piece of the keyed hash before it.
const ID_AT: usize = SECTOR - ID;
const MAC_AT: usize = ID_AT - ID;
/// The upper half of an entry's sector number, if the entry names no data unit.
const UNUSED: u32 = u32::MAX;
const IN_PROGRESS: u32 = u32::MAX - 1;

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// Nothing.
    Unused,
    /// The data unit that begins at a sector, and its tag.
    Unit {
        /// First sector, counted from the start of the data.
        sector: u64,
        /// The tag.
        tag: &'a [u8],
    },
}

/// Reads and writes sections of one layout. Buffers are [`Layout::section_len`] bytes long; every method returns `None` for
/// others.
#[derive(Clone, Copy, Debug)]
pub struct Sections<'a>(pub &'a Layout);

/// What commit ids are made of, one for each round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitIds([u64; 4]);

impl Default for CommitIds {
    /// 0x1111…, 0x2222…, 0x3333… and 0x4444….
    fn default() -> Self {
        Self([1, 2, 3, 4].map(|digit: u64| digit.wrapping_mul(0x1111_1111_1111_1111)))
    }
}

impl CommitIds {
    /// Combines them with a key stream. Equal ones are counted up, as the kernel does.
    #[must_use]
    pub fn masked(self, mask: &[u8; 32]) -> Self {
        let mut ids = self.0;
        let mut done: [Option<u64>; 4] = [None; 4];
        for ((id, mask), at) in ids.iter_mut().zip(mask.as_chunks().0).zip(0..) {
            *id ^= u64::from_le_bytes(*mask);
            // At most three others can be equal.
            while done.contains(&Some(*id)) {
                *id = id.wrapping_add(1);
            }
            if let Some(done) = done.get_mut(at) {
                *done = Some(*id);
            }
        }
        Self(ids)
    }

    /// Returns the commit id of a sector of a section in a round, 0 to 3.
    pub fn id(&self, section: u32, sector: u32, round: u8) -> [u8; 8] {
        let [first, second, third, fourth] = self.0;
        let base = match round & 3 {
            0 => first,
            1 => second,
            2 => third,
            _ => fourth,
        };
        (base ^ (u64::from(section) << 32 ^ u64::from(sector))).to_le_bytes()
    }

    /// Returns the round that a commit id belongs to.
    pub fn round_of(&self, id: [u8; 8], section: u32, sector: u32) -> Option<u8> {
        (0..4).find(|round| self.id(section, sector, *round) == id)
    }
}

impl<'a> Sections<'a> {
    /// Returns the rounds that occur in a section, a bit for each. [`Err`] has the first sector whose commit id belongs to none.
    pub fn rounds(self, number: u32, section: &[u8]) -> Option<Result<u8, u32>> {
        self.check(section.len())?;
        let mut rounds = 0;
        for (sector, at) in section.chunks_exact(SECTOR).zip(0..) {
            match self.0.commit_ids().round_of(*sector.last_chunk()?, number, at) {
                Some(round) => rounds |= 1 << round,
                None => return Some(Err(at)),
            }
        }
        Some(Ok(rounds))
    }

    /// Writes units with their tags as the first entries of a section. The others are unused. More units than
    /// [`Layout::entries`] do not fit: `None`.
    pub fn compose<'u>(
        self,
        number: u32,
        round: u8,
        units: impl Iterator<Item = (u64, &'u [u8], &'u [u8])>,
        section: &mut [u8],
    ) -> Option<()> {
        self.check(section.len())?;
        section.fill(0);
        for at in 0..self.0.entries() {
            let (sector, range) = self.place(at)?;
            let entry = section.get_mut(sector..)?.get_mut(range)?;
            entry.get_mut(4..8)?.copy_from_slice(&UNUSED.to_le_bytes());
        }
        for (at, (unit, data, tag)) in (0..).zip(units) {
            self.put(at, (unit, data, tag), section)?;
        }
        for (sector, at) in section.chunks_exact_mut(SECTOR).zip(0..) {
            *sector.last_chunk_mut()? = self.0.commit_ids().id(number, at, round);
        }
        Some(())
    }

    fn put(self, at: u64, (unit, data, tag): (u64, &[u8], &[u8]), section: &mut [u8]) -> Option<()> {
        if data.len() != self.0.data_unit() || tag.len() != self.0.tag_len() {
            return None;
        }
        let (sector, range) = self.place(at)?;
        let place = self.data(at)?;
        section.get_mut(place)?.copy_from_slice(data);
        let entry = section.get_mut(sector..)?.get_mut(range)?;
        let first = unit.checked_mul(self.sectors_per_unit())?;
        let (number, rest) = entry.split_first_chunk_mut()?;
        *number = first.to_le_bytes();
        let (last, rest) = rest.split_at_mut_checked(data.len().checked_div(SECTOR)?.checked_mul(ID)?)?;
        for (last, sector) in last.chunks_exact_mut(ID).zip(data.chunks_exact(SECTOR)) {
            last.copy_from_slice(sector.last_chunk::<ID>()?);
        }
        rest.get_mut(..tag.len())?.copy_from_slice(tag);
        Some(())
    }

    /// Returns an entry of a section. `None` if there are not as many.
    pub fn entry(self, at: u64, section: &[u8]) -> Option<Entry<'_>> {
        self.check(section.len())?;
        let (sector, range) = self.place(at)?;
        let entry = section.get(sector..)?.get(range)?;
        let number = u64::from_le_bytes(*entry.first_chunk()?);
        if matches!((number >> 32) as u32, UNUSED | IN_PROGRESS) {
            return Some(Entry::Unused);
        }
        let tag_at = self.last_len()?.checked_add(ID)?;
        let tag = entry.get(tag_at..)?.get(..self.0.tag_len())?;
        Some(Entry::Unit { sector: number, tag })
    }

    /// Copies the data of an entry out of a section, with the bytes that commit ids displaced.
    pub fn restore(self, at: u64, section: &[u8], data: &mut [u8]) -> Option<()> {
        self.check(section.len())?;
        let place = self.data(at)?;
        let stored = section.get(place)?;
        let (sector, range) = self.place(at)?;
        let last = section.get(sector..)?.get(range)?.get(ID..)?.get(..self.last_len()?)?;
        if data.len() != stored.len() {
            return None;
        }
        data.copy_from_slice(stored);
        for (sector, last) in data.chunks_exact_mut(SECTOR).zip(last.chunks_exact(ID)) {
            sector.last_chunk_mut::<ID>()?.copy_from_slice(last);
        }
        Some(())
    }

    /// Hands over the bytes that a section's keyed hash covers, in order: the sector numbers of all entries.
    pub fn hashed(self, section: &[u8], mut take: impl FnMut(&[u8; 8])) -> Option<()> {
        self.check(section.len())?;
        for at in 0..self.0.entries() {
            let (sector, range) = self.place(at)?;
            take(section.get(sector..)?.get(range)?.first_chunk()?);
        }
        Some(())
    }

    /// Returns the keyed hash that a section has.
    pub fn mac(self, section: &[u8]) -> Option<[u8; JOURNAL_MAC_LEN]> {
        self.check(section.len())?;
        let mut mac = [0; JOURNAL_MAC_LEN];
        for (piece, sector) in mac.chunks_exact_mut(ID).zip(section.chunks_exact(SECTOR)) {
            piece.copy_from_slice(sector.get(MAC_AT..ID_AT)?);
        }
        Some(mac)
    }

    /// Sets the keyed hash of a section.
    pub fn set_mac(self, mac: &[u8; JOURNAL_MAC_LEN], section: &mut [u8]) -> Option<()> {
        self.check(section.len())?;
        for (piece, sector) in mac.chunks_exact(ID).zip(section.chunks_exact_mut(SECTOR)) {
            sector.get_mut(MAC_AT..ID_AT)?.copy_from_slice(piece);
        }
        Some(())
    }

    fn check(self, len: usize) -> Option<()> {
        (self.0.section_len() == len as u64).then_some(())
    }

    fn sectors_per_unit(self) -> u64 {
        // cannot be 0: data units have at least 512 bytes.
        (self.0.data_unit() as u64) >> 9
    }

    /// Bytes of an entry that commit ids displaced.
    fn last_len(self) -> Option<usize> {
        self.0.data_unit().checked_div(SECTOR)?.checked_mul(ID)
    }

    /// Where the sector of an entry begins, and the entry's bytes in it.
    fn place(self, at: u64) -> Option<(usize, core::ops::Range<usize>)> {
        let (len, per_sector) = self.0.entry();
        let slot = usize::try_from(at.checked_div(ENTRY_SECTORS)?).ok().filter(|slot| *slot < per_sector)?;
        let sector = usize::try_from(at.checked_rem(ENTRY_SECTORS)?).ok()?.checked_mul(SECTOR)?;
        let start = slot.checked_mul(len)?;
        Some((sector, start..start.checked_add(len)?))
    }

    /// Where the data of an entry lies.
    fn data(self, at: u64) -> Option<core::ops::Range<usize>> {
        let unit = self.0.data_unit();
        let entries = usize::try_from(ENTRY_SECTORS).ok()?.checked_mul(SECTOR)?;
        let start = usize::try_from(at).ok()?.checked_mul(unit)?.checked_add(entries)?;
        Some(start..start.checked_add(unit)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_ids_differ_whatever_they_are_masked_with() {
        let ids = CommitIds::default();
        assert_eq!(ids.id(0, 0, 0), [0x11; 8]);
        assert_eq!(ids.id(1, 2, 3), [0x46, 0x44, 0x44, 0x44, 0x45, 0x44, 0x44, 0x44]);
        let mut mask = [0; 32];
        for (piece, round) in mask.as_chunks_mut::<8>().0.iter_mut().zip(0..4) {
            *piece = ids.id(0, 0, round);
        }
        // All of them are 0, then, and the kernel counts up.
        let masked = ids.masked(&mask);
        let all: [u64; 4] = core::array::from_fn(|round| u64::from_le_bytes(masked.id(0, 0, round as u8)));
        assert_eq!(all, [0, 1, 2, 3]);
        assert_eq!(masked.round_of(masked.id(7, 9, 2), 7, 9), Some(2));
        assert_eq!(masked.round_of([0x11; 8], 0, 0), None);
    }
}
