//! A map as its user sees it.

use core::fmt;

use atrest_device::FlashDevice;

use crate::MapError;
use crate::head::{Head, Kind};
use crate::index::{Index, IndexEntry};
use crate::key::NameId;
use crate::medium::{Medium, Place};
use crate::shape::{MOST_BLOCKS, MapOptions};

/// A map from names to values on a [`FlashDevice`].
///
/// `D` is the medium, `T` a table with an [`IndexEntry`] for each name, `B` a buffer of one unit. When an operation that changes
/// the map returns, the change is durable; a power loss leaves the map of before it or of after it. After an error it may be
/// either, until the next change succeeds.
pub struct KeyValue<D, T, B> {
    pub(crate) medium: Medium<D, B>,
    pub(crate) index: Index<T>,
    pub(crate) options: MapOptions,
    pub(crate) blocks: Blocks,
}

/// What is known of a value without its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueInfo {
    /// The name's hash under the key.
    pub id: NameId,
    /// Bytes of the value.
    pub len: u16,
    /// The byte that was stored with it.
    pub attribute: u8,
}

/// Which blocks there are, and the one that is being filled.
pub(crate) struct Blocks {
    /// Those that hold the map: a bit for each.
    pub(crate) alive: u64,
    /// Those that have failed since the map was opened, which are not begun again.
    pub(crate) failed: u64,
    sequences: [u32; MOST_BLOCKS as usize],
    /// Number of the block that is begun next.
    pub(crate) next: u32,
    /// The block that was begun last.
    pub(crate) head: Option<u8>,
    /// Units of it that count.
    pub(crate) filled: u16,
    /// Whether entries were moved to it, behind which one unit says so.
    pub(crate) has_moved: bool,
    /// Whether it takes more entries. Not after anything has failed: then it is not known what stands there.
    pub(crate) is_open: bool,
    /// Whether something has failed since the last change that did not, and may be on the medium.
    pub(crate) is_doubtful: bool,
}

impl<D, T, B> KeyValue<D, T, B>
where
    D: FlashDevice,
    T: AsRef<[IndexEntry]> + AsMut<[IndexEntry]>,
    B: AsMut<[u8]>,
{
    /// Stores a value, in the place of the name's older one.
    ///
    /// # Errors
    /// Fails where [`set_with`](Self::set_with) does.
    pub fn set(&mut self, name: &[u8], value: &[u8]) -> Result<(), MapError> {
        self.set_with(name, value, 0)
    }

    /// Stores a value and a byte beside it, in the place of the name's older one.
    ///
    /// # Errors
    /// With nothing changed: [`MapError::ValueTooLong`], [`MapError::Full`], or [`MapError::IndexTooSmall`] if there
    /// is no room for it, [`MapError::Damaged`] if a value that has to be moved is not what was stored.
    /// [`MapError::NoSpare`], [`MapError::WornOut`] or [`MapError::Flash`] if the medium fails.
    pub fn set_with(&mut self, name: &[u8], value: &[u8], attribute: u8) -> Result<(), MapError> {
        let most = self.options.longest;
        let too_long = MapError::ValueTooLong { len: value.len(), most };
        let len = u16::try_from(value.len()).ok().filter(|len| *len <= most).ok_or(too_long)?;
        let id = self.medium.keys.id(name);
        let shape = self.medium.shape;
        let units = shape.units_of(value.len());
        let older = self.index.find(&id).map(|entry| shape.units_of(entry.len.into()));
        if older.is_none() && !self.index.has_room() {
            return Err(MapError::IndexTooSmall { has: self.index.0.as_ref().len() });
        }
        // cannot underflow: what is there takes its part of the whole.
        let others = self.index.live(&shape).saturating_sub(older.unwrap_or(0));
        let free = self.capacity_in_units().saturating_sub(others); // intended: less than nothing is nothing
        if units > free {
            let bytes = |units: usize| units.saturating_mul(shape.unit as usize); // cannot overflow: within the medium
            return Err(MapError::Full { needs: bytes(units), free: bytes(free) });
        }
        let place = self.append(&Head { kind: Kind::Value, attribute, len, id }, value)?;
        // cannot be full: that was looked at.
        self.index.put(id, attribute, len, place);
        Ok(())
    }

    /// Reads a value into `out`, and returns as much of that as it has. None if the name has no value.
    ///
    /// # Errors
    /// [`MapError::BufferTooSmall`] if `out` has no room for it, [`MapError::Damaged`] if it is not what was stored,
    /// [`MapError::Flash`] if the medium fails. `out` holds zeros then.
    pub fn get<'o>(&mut self, name: &[u8], out: &'o mut [u8]) -> Result<Option<&'o mut [u8]>, MapError> {
        let Some(entry) = self.find(name) else { return Ok(None) };
        let (needs, has) = (usize::from(entry.len), out.len());
        let Some(to) = out.get_mut(..needs) else { return Err(MapError::BufferTooSmall { needs, has }) };
        self.read_entry(&entry, 0, to)?;
        Ok(Some(to))
    }

    /// Reads a value from a byte of it on, as much as `out` has room for, and returns how much that is: 0 at its end and behind. None if
    /// the name has no value.
    ///
    /// # Errors
    /// [`MapError::Damaged`] if any of it is not what was stored, [`MapError::Flash`] if the medium fails. `out` holds
    /// zeros then.
    pub fn read(&mut self, name: &[u8], offset: usize, out: &mut [u8]) -> Result<Option<usize>, MapError> {
        let Some(entry) = self.find(name) else { return Ok(None) };
        let left = usize::from(entry.len).saturating_sub(offset); // intended: behind the end there is nothing
        let room = left.min(out.len());
        let (to, _) = out.split_at_mut(room);
        self.read_entry(&entry, offset, to)?;
        Ok(Some(room))
    }

    /// What is known of a name's value without reading it. None if it has none.
    pub fn info(&self, name: &[u8]) -> Option<ValueInfo> {
        self.find(name).as_ref().map(ValueInfo::of)
    }

    /// Takes a name's value away. False if it has none.
    ///
    /// There is always room for that. What the value was stays on the medium, encrypted as the medium is, until its block is erased.
    ///
    /// # Errors
    /// [`MapError::Damaged`] if a value that has to be moved is not what was stored. [`MapError::NoSpare`],
    /// [`MapError::WornOut`] or [`MapError::Flash`] if the medium fails.
    pub fn remove(&mut self, name: &[u8]) -> Result<bool, MapError> {
        let id = self.medium.keys.id(name);
        let was_there = self.index.find(&id).is_some();
        // A value that failed to be set may stand there all the same.
        if was_there || self.blocks.is_doubtful {
            self.append(&Head { kind: Kind::Removed, attribute: 0, len: 0, id }, &[])?;
            self.index.remove(&id);
        }
        Ok(was_there)
    }

    /// All values, in no order. Names are not on the medium.
    pub fn values(&self) -> impl Iterator<Item = ValueInfo> {
        self.index.used().map(ValueInfo::of)
    }

    /// The hash of a name, by which [`values`](Self::values) has it.
    pub fn id_of(&self, name: &[u8]) -> NameId {
        self.medium.keys.id(name)
    }

    /// Bytes that values can take for certain, with 32 bytes for each and rounded up to units.
    pub fn capacity(&self) -> usize {
        // cannot overflow: within the medium.
        self.capacity_in_units().saturating_mul(self.medium.shape.unit as usize)
    }

    /// Bytes of the [`capacity`](Self::capacity) that are taken.
    pub fn used(&self) -> usize {
        // cannot overflow: within the medium.
        self.index.live(&self.medium.shape).saturating_mul(self.medium.shape.unit as usize)
    }

    /// The medium.
    pub fn device(&self) -> &D {
        &self.medium.device
    }

    /// The medium, to anchor or to close what it is part of.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.medium.device
    }

    /// Gives the medium back.
    pub fn into_device(self) -> D {
        self.medium.device
    }

    /// Blocks that may hold entries at a time.
    pub(crate) fn window(&self) -> u8 {
        // cannot underflow: the options were checked.
        self.medium.shape.blocks.saturating_sub(self.options.spares)
    }

    fn capacity_in_units(&self) -> usize {
        let shape = &self.medium.shape;
        let longest = self.index.used().map(|entry| entry.len).max().unwrap_or(0).max(self.options.longest);
        shape.capacity(self.window(), shape.units_of(longest.into()))
    }

    fn find(&self, name: &[u8]) -> Option<IndexEntry> {
        self.index.find(&self.medium.keys.id(name))
    }

    fn read_entry(&mut self, entry: &IndexEntry, offset: usize, out: &mut [u8]) -> Result<(), MapError> {
        let place = self.place_of(entry);
        // What verifies at this place is what was stored there: no other entry has been under this number.
        match self.medium.entry(place, offset, out)? {
            Some(_) => Ok(()),
            None => Err(MapError::Damaged { block: place.block, unit: place.unit }),
        }
    }

    pub(crate) fn place_of(&self, entry: &IndexEntry) -> Place {
        Place { block: entry.block, sequence: self.blocks.sequence(entry.block), unit: entry.unit }
    }
}

impl ValueInfo {
    fn of(entry: &IndexEntry) -> Self {
        Self { id: entry.id(), len: entry.len, attribute: entry.attribute }
    }
}

impl Default for Blocks {
    fn default() -> Self {
        Self {
            alive: 0,
            failed: 0,
            sequences: [0; MOST_BLOCKS as usize],
            next: 1,
            head: None,
            filled: 0,
            has_moved: false,
            is_open: false,
            is_doubtful: false,
        }
    }
}

impl Blocks {
    pub(crate) fn sequence(&self, block: u8) -> u32 {
        // cannot be missing: there are no more blocks.
        self.sequences.get(usize::from(block)).copied().unwrap_or(0)
    }

    pub(crate) fn set_sequence(&mut self, block: u8, sequence: u32) {
        if let Some(place) = self.sequences.get_mut(usize::from(block)) {
            *place = sequence;
        }
    }

    /// The block that was begun first of those that hold the map.
    pub(crate) fn oldest(&self) -> Option<u8> {
        self.living().min_by_key(|block| self.sequence(*block))
    }

    /// The block that was begun next after one.
    pub(crate) fn after(&self, block: u8) -> Option<u8> {
        let than = self.sequence(block);
        self.living().filter(|block| self.sequence(*block) > than).min_by_key(|block| self.sequence(*block))
    }

    fn living(&self) -> impl Iterator<Item = u8> {
        let alive = self.alive;
        (0..64).filter(move |block| alive & bit(*block) != 0)
    }
}

/// A block's bit in a word.
pub(crate) fn bit(block: u8) -> u64 {
    1_u64.wrapping_shl(block.into())
}

impl<D, T, B> fmt::Debug for KeyValue<D, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyValue").field("options", &self.options).finish_non_exhaustive()
    }
}
