//! The table in memory of what is where: an entry for each name.

use crate::key::{ID_LEN, NameId};
use crate::shape::Shape;

/// What a map remembers of a name. A map has a table of these, one for each name that it can hold.
#[derive(Clone, Copy, Debug, Default)]
pub struct IndexEntry {
    id: NameId,
    pub(crate) len: u16,
    /// Where it stands. 0 if this entry is free: the first unit of a block is no value.
    pub(crate) unit: u16,
    /// Where it will stand once the block that is being filled counts, or 0.
    moving_to: u16,
    pub(crate) block: u8,
    pub(crate) attribute: u8,
}

impl IndexEntry {
    /// A free entry, for tables that are static.
    pub const EMPTY: Self = Self { id: [0; ID_LEN], len: 0, unit: 0, moving_to: 0, block: 0, attribute: 0 };
}

/// The table, with what is asked of it.
pub(crate) struct Index<T>(pub(crate) T);

impl<T: AsRef<[IndexEntry]> + AsMut<[IndexEntry]>> Index<T> {
    pub(crate) fn used(&self) -> impl Iterator<Item = &IndexEntry> {
        self.0.as_ref().iter().filter(|entry| entry.unit != 0)
    }

    pub(crate) fn find(&self, id: &NameId) -> Option<IndexEntry> {
        self.used().find(|entry| entry.id == *id).copied()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.0.as_ref().iter().any(|entry| entry.unit == 0)
    }

    pub(crate) fn clear(&mut self) {
        self.0.as_mut().fill(IndexEntry::default());
    }

    /// Enters a value, in the place of the name's older one. False if the table is full.
    pub(crate) fn put(&mut self, id: NameId, attribute: u8, len: u16, (block, unit): (u8, u16)) -> bool {
        let table = self.0.as_mut();
        let older = table.iter().position(|entry| entry.unit != 0 && entry.id == id);
        let place = older.or_else(|| table.iter().position(|entry| entry.unit == 0));
        let Some(entry) = place.and_then(|place| table.get_mut(place)) else { return false };
        *entry = IndexEntry { id, len, unit, moving_to: 0, block, attribute };
        true
    }

    pub(crate) fn remove(&mut self, id: &NameId) {
        for entry in self.0.as_mut().iter_mut().filter(|entry| entry.id == *id) {
            *entry = IndexEntry::default();
        }
    }

    /// Units that all values take.
    pub(crate) fn live(&self, shape: &Shape) -> usize {
        self.used().map(|entry| shape.units_of(entry.len.into())).sum()
    }

    /// The next value of a block, behind a unit of it.
    pub(crate) fn next(&mut self, block: u8, behind: u16) -> Option<&mut IndexEntry> {
        let of_block = |entry: &&mut IndexEntry| entry.unit > behind && entry.block == block;
        self.0.as_mut().iter_mut().filter(of_block).min_by_key(|entry| entry.unit)
    }

    /// The value that is to be moved to this unit.
    pub(crate) fn moving_to(&self, unit: u16) -> Option<IndexEntry> {
        self.used().find(|entry| entry.moving_to == unit).copied()
    }

    /// What was to be moved stands in this block now.
    pub(crate) fn moved(&mut self, block: u8) {
        for entry in self.0.as_mut().iter_mut().filter(|entry| entry.moving_to != 0) {
            (entry.block, entry.unit, entry.moving_to) = (block, entry.moving_to, 0);
        }
    }
}

impl IndexEntry {
    /// The name's hash.
    pub(crate) fn id(&self) -> NameId {
        self.id
    }

    pub(crate) fn move_to(&mut self, unit: u16) {
        self.moving_to = unit;
    }
}
