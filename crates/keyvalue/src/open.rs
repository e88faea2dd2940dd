//! Opening: which blocks hold the map, and what stands in them. Nothing is written.

use atrest_device::FlashDevice;

use crate::MapError;
use crate::head::{Beginning, Kind};
use crate::index::{Index, IndexEntry};
use crate::key::{Keys, MapKey};
use crate::map::{Blocks, KeyValue, bit};
use crate::medium::{Medium, Place, is_content};
use crate::shape::{MOST_BLOCKS, MapOptions, Shape};

impl<D, T, B> KeyValue<D, T, B>
where
    D: FlashDevice,
    T: AsRef<[IndexEntry]> + AsMut<[IndexEntry]>,
    B: AsMut<[u8]>,
{
    /// Opens the map on a medium. Everything is read and verified once; nothing is written.
    ///
    /// `index` has an entry for each name that the map can hold, `buffer` room for a unit
    /// ([`buffer_len`](Self::buffer_len)).
    ///
    /// # Errors
    /// [`MapError::Geometry`], [`MapError::Options`], [`MapError::NoKey`] or [`MapError::BufferTooSmall`] for
    /// what the caller passes, [`MapError::NotFormatted`] if there is no map, [`MapError::IndexTooSmall`] if it
    /// holds more names. [`MapError::Damaged`] if an entry that counts is not what was stored, and
    /// [`MapError::Flash`] if the medium fails: one that authenticates fails here if it was changed.
    pub fn open(
        device: D,
        key: &MapKey<'_>,
        options: MapOptions,
        index: T,
        buffer: B,
    ) -> Result<Self, MapError> {
        let mut map = Self::closed(device, key, options, index, buffer)?;
        let headed = map.beginnings()?;
        let is_newest = map.choose(&headed)?.ok_or(MapError::NotFormatted)?;
        map.read_blocks(&headed)?;
        if let Some(head) = map.blocks.head {
            // What was begun later and does not count might count when it is read again: nothing goes into an earlier block.
            let filled = map.blocks.filled;
            map.blocks.is_open = is_newest && map.medium.is_blank(head, filled)?;
        }
        Ok(map)
    }

    /// Makes an empty map, in the place of one that is there under the same key. Of that one nothing is left once this returns
    /// but what the medium keeps of erased data; a power loss leaves the old one or the new one.
    ///
    /// # Errors
    /// [`MapError::Geometry`], [`MapError::Options`], [`MapError::NoKey`] or [`MapError::BufferTooSmall`] for
    /// what the caller passes, [`MapError::NoSpare`] if no block can be erased and programmed, [`MapError::WornOut`] if
    /// no numbers are left, [`MapError::Flash`] if the medium fails.
    pub fn format(
        device: D,
        key: &MapKey<'_>,
        options: MapOptions,
        index: T,
        buffer: B,
    ) -> Result<Self, MapError> {
        let mut map = Self::closed(device, key, options, index, buffer)?;
        let headed = map.beginnings()?;
        // An older map is there until the new one is.
        map.choose(&headed)?;
        map.begin_empty()?;
        map.erase_all_but_head()?;
        Ok(map)
    }

    /// Bytes in the buffer that a map on this medium works in.
    ///
    /// # Errors
    /// [`MapError::Geometry`] if the medium can't hold a map.
    pub fn buffer_len(device: &D) -> Result<usize, MapError> {
        Shape::new(device.geometry()).map(|shape| shape.unit as usize)
    }

    fn closed(
        device: D,
        key: &MapKey<'_>,
        options: MapOptions,
        index: T,
        buffer: B,
    ) -> Result<Self, MapError> {
        let shape = Shape::new(device.geometry())?;
        shape.check(&options)?;
        let keys = Keys::derive(key, &shape)?;
        let medium = Medium::new(device, shape, keys, buffer)?;
        let mut index = Index(index);
        index.clear();
        Ok(Self { medium, index, options, blocks: Blocks::default() })
    }

    /// What stands at the beginning of each block. The next number is behind them all.
    fn beginnings(&mut self) -> Result<Headed, MapError> {
        let mut headed = [None; MOST_BLOCKS as usize];
        for (block, place) in (0..self.medium.shape.blocks).zip(&mut headed) {
            let found = self.medium.beginning(block)?.and_then(|head| head.beginning());
            if let Some(beginning) = found {
                self.blocks.set_sequence(block, beginning.sequence);
                // cannot be wrong at the end: with the last number no block begins.
                self.blocks.next = self.blocks.next.max(beginning.sequence.saturating_add(1));
            }
            *place = found;
        }
        Ok(headed)
    }

    /// Finds the block that was begun last and counts, which says what others do. Says whether none was begun later.
    fn choose(&mut self, headed: &Headed) -> Result<Option<bool>, MapError> {
        let mut below = None;
        while let Some((block, beginning)) = newest(headed, below) {
            if !beginning.moving || self.is_complete(block, beginning.sequence)? {
                if beginning.alive & bit(block) == 0 {
                    return Err(MapError::Damaged { block, unit: 0 });
                }
                (self.blocks.alive, self.blocks.head) = (beginning.alive, Some(block));
                return Ok(Some(below.is_none()));
            }
            below = Some(beginning.sequence);
        }
        Ok(None)
    }

    /// Whether all that was to be moved to a block is there. What says so was programmed last: something is damaged if it is there alone.
    fn is_complete(&mut self, block: u8, sequence: u32) -> Result<bool, MapError> {
        let (mut unit, mut damaged) = (1, None);
        while unit < self.medium.shape.units {
            let place = Place { block, sequence, unit };
            let found = self.medium.entry(place, 0, &mut [])?;
            match (found, damaged) {
                (Some(head), None) if head.kind == Kind::Moved => return Ok(true),
                (Some(head), Some(unit)) if head.kind == Kind::Moved => {
                    return Err(MapError::Damaged { block, unit });
                }
                (Some(head), None) if head.kind == Kind::Value => {
                    // cannot overflow: the entry fits into the block.
                    unit = unit.saturating_add(self.medium.units_of(&head));
                }
                _ => {
                    damaged = damaged.or(Some(unit));
                    // cannot overflow: it is a unit of the block.
                    unit = unit.saturating_add(1);
                }
            }
        }
        Ok(false)
    }

    /// Reads the blocks that hold the map, oldest first, into the index.
    fn read_blocks(&mut self, headed: &Headed) -> Result<(), MapError> {
        let alive = self.blocks.alive;
        if let Some(block) = (0..64).find(|block| {
            alive & bit(*block) != 0 && headed.get(usize::from(*block)).is_none_or(|place| place.is_none())
        }) {
            return Err(MapError::Damaged { block, unit: 0 });
        }
        let mut at = self.blocks.oldest();
        let mut left = alive;
        while let Some(block) = at {
            left &= !bit(block);
            let next = self.blocks.after(block);
            let filled_of = |block: u8| headed.get(usize::from(block)).copied().flatten();
            let filled = next.and_then(filled_of).map(|beginning| beginning.filled);
            self.blocks.filled = self.read_block(block, filled)?;
            self.blocks.has_moved = filled_of(block).is_some_and(|beginning| beginning.moving);
            at = next;
        }
        // Two with the same number: only whoever has the key can have written them.
        if left != 0 {
            return Err(MapError::Damaged { block: left.trailing_zeros() as u8, unit: 0 });
        }
        Ok(())
    }

    /// Enters what stands in a block, up to a unit if it is known how far it is filled. Returns how far it is.
    fn read_block(&mut self, block: u8, filled: Option<u16>) -> Result<u16, MapError> {
        let sequence = self.blocks.sequence(block);
        let mut unit = 1;
        let end = filled.unwrap_or(self.medium.shape.units);
        while unit < end {
            let found = self.medium.entry(Place { block, sequence, unit }, 0, &mut [])?;
            let Some(head) = found.filter(|head| is_content(head.kind)) else { break };
            match head.kind {
                Kind::Value if !self.index.put(head.id, head.attribute, head.len, (block, unit)) => {
                    return Err(MapError::IndexTooSmall { has: self.index.0.as_ref().len() });
                }
                Kind::Removed => self.index.remove(&head.id),
                _ => {}
            }
            // cannot overflow: the entry fits into the block.
            unit = unit.saturating_add(self.medium.units_of(&head));
        }
        let is_damaged = match filled {
            Some(filled) => unit != filled,
            None => self.has_more(block, unit)?,
        };
        if is_damaged {
            return Err(MapError::Damaged { block, unit });
        }
        Ok(unit)
    }

    /// Whether an entry stands behind a unit where there is none. Each was durable before the next one was programmed.
    fn has_more(&mut self, block: u8, behind: u16) -> Result<bool, MapError> {
        let sequence = self.blocks.sequence(block);
        // cannot overflow: it is a unit of the block.
        for unit in behind.saturating_add(1)..self.medium.shape.units {
            if self.medium.entry(Place { block, sequence, unit }, 0, &mut [])?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

type Headed = [Option<Beginning>; MOST_BLOCKS as usize];

/// The block that was begun last, or last before one.
fn newest(headed: &Headed, below: Option<u32>) -> Option<(u8, Beginning)> {
    let begun = (0..).zip(headed).filter_map(|(block, place)| place.map(|beginning| (block, beginning)));
    let earlier = begun.filter(|(_, beginning)| below.is_none_or(|below| beginning.sequence < below));
    earlier.max_by_key(|(_, beginning)| beginning.sequence)
}
