//! Appending entries, and beginning a block when the present one is full: what still counts of the oldest blocks is moved to
//! the new one, which then counts in their place.

use atrest_device::{FlashCause, FlashDevice, FlashError, FlashOperation};

use crate::MapError;
use crate::head::{Beginning, Head, Kind};
use crate::index::IndexEntry;
use crate::map::{KeyValue, bit};
use crate::medium::Place;

/// What is moved to a block that is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Take {
    /// Nothing: there is another free block.
    Nothing,
    /// All that counts of the oldest block, which is free then.
    Oldest,
    /// Nothing, and what there was does not count any more.
    Empty,
}

impl<D, T, B> KeyValue<D, T, B>
where
    D: FlashDevice,
    T: AsRef<[IndexEntry]> + AsMut<[IndexEntry]>,
    B: AsMut<[u8]>,
{
    /// Stores an entry durably, and returns its block and unit. There is room for it: [`capacity`](Self::capacity) says so.
    pub(crate) fn append(&mut self, head: &Head, value: &[u8]) -> Result<(u8, u16), MapError> {
        let needs = self.medium.units_of(head);
        // One of the oldest blocks leaves room for it. A block may fail each time.
        // cannot overflow: there are 64 blocks at most.
        let attempts = u32::from(self.medium.shape.blocks).saturating_mul(3);
        for _ in 0..attempts {
            // cannot overflow: both are units of a block.
            let end = self.blocks.filled.saturating_add(needs);
            match self.blocks.head.filter(|_| self.blocks.is_open && end <= self.end()) {
                None => self.begin(self.what_to_take())?,
                Some(block) => {
                    let unit = self.blocks.filled;
                    let place = Place { block, sequence: self.blocks.sequence(block), unit };
                    // Until it is known to stand there, nothing else is appended.
                    (self.blocks.is_open, self.blocks.is_doubtful) = (false, true);
                    let done = self.medium.store(place, head, value);
                    match done.and_then(|()| self.medium.device.sync()) {
                        Ok(()) => {
                            (self.blocks.filled, self.blocks.is_open) = (end, true);
                            self.blocks.is_doubtful = false;
                            return Ok((block, unit));
                        }
                        Err(error) if is_bad(&error) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
        Err(MapError::NoSpare)
    }

    /// Begins the first block of an empty map, in one that does not hold the map that was there.
    pub(crate) fn begin_empty(&mut self) -> Result<(), MapError> {
        self.begin(Take::Empty)
    }

    /// Erases what does not hold the map. What can't be erased was bad before.
    pub(crate) fn erase_all_but_head(&mut self) -> Result<(), MapError> {
        for block in (0..self.medium.shape.blocks).filter(|block| self.blocks.alive & bit(*block) == 0) {
            match self.medium.erase(block) {
                Err(error) if !is_bad(&error) => return Err(error.into()),
                _ => {}
            }
        }
        self.medium.device.sync()?;
        Ok(())
    }

    /// Units at which the present block ends: what is moved to a block at any time takes one more, and fits all the same.
    pub(crate) fn end(&self) -> u16 {
        let units = self.medium.shape.units;
        // cannot underflow: a shape has more units.
        if self.blocks.has_moved { units } else { units.saturating_sub(1) }
    }

    fn what_to_take(&self) -> Take {
        let is_full = self.blocks.alive.count_ones() >= self.window().into();
        if is_full { Take::Oldest } else { Take::Nothing }
    }

    /// Begins a block, in the next one that does not fail.
    fn begin(&mut self, take: Take) -> Result<(), MapError> {
        // What has failed may count all the same when the map is opened again, and would hide what is appended to an earlier block.
        self.blocks.is_open = false;
        let blocks = self.medium.shape.blocks;
        let last = self.blocks.head.unwrap_or(blocks);
        // Round and round: each block is erased as often as any other.
        for block in (0..blocks).filter(|block| *block > last).chain(0..last.min(blocks)) {
            if (self.blocks.alive | self.blocks.failed) & bit(block) != 0 {
                continue;
            }
            match self.begin_in(block, take) {
                Err(MapError::Flash(error)) if is_bad(&error) => self.blocks.failed |= bit(block),
                done => return done,
            }
        }
        Err(MapError::NoSpare)
    }

    fn begin_in(&mut self, block: u8, take: Take) -> Result<(), MapError> {
        let sequence = self.blocks.next;
        // The number is used, whatever comes of this.
        self.blocks.next = sequence.checked_add(1).ok_or(MapError::WornOut)?;
        self.medium.erase(block)?;
        let oldest = self.blocks.oldest().filter(|_| take == Take::Oldest);
        let end = self.plan(oldest);
        let moving = end > 1;
        let kept = match take {
            Take::Empty => 0,
            _ => self.blocks.alive & !oldest.map_or(0, bit),
        };
        let alive = kept | bit(block);
        let first = Beginning { sequence, alive, filled: self.blocks.filled, moving };
        self.medium.store(Place { block, sequence, unit: 0 }, &first.head(), &[])?;
        let mut filled = 1;
        while filled < end {
            let to = Place { block, sequence, unit: filled };
            // cannot be missing: the plan has no gaps.
            let Some(entry) = self.index.moving_to(filled) else { break };
            let from = self.place_of(&entry);
            if !self.medium.copy(from, to)? {
                return Err(MapError::Damaged { block: from.block, unit: from.unit });
            }
            // cannot overflow, nor be cut off: the plan ends within the block.
            filled = filled.saturating_add(self.medium.shape.units_of(entry.len.into()) as u16);
        }
        if moving {
            // Whatever a medium holds back, it does not hold back what this says is there.
            self.medium.device.sync()?;
            let moved = Head { kind: Kind::Moved, attribute: 0, len: 0, id: Default::default() };
            self.medium.store(Place { block, sequence, unit: filled }, &moved, &[])?;
            // cannot overflow: a block has room for it.
            filled = filled.saturating_add(1);
        }
        // Before the block that does not count any more is erased.
        self.medium.device.sync()?;
        self.index.moved(block);
        self.blocks.set_sequence(block, sequence);
        (self.blocks.alive, self.blocks.head) = (alive, Some(block));
        (self.blocks.filled, self.blocks.has_moved, self.blocks.is_open) = (filled, moving, true);
        Ok(())
    }

    /// Chooses a unit in the new block for each value that is moved there: all that count of a block. Returns the unit behind the last
    /// one. They fit: a block has as much room for what is moved as for what is set. What a beginning that failed had chosen is chosen
    /// anew, because until one succeeds the oldest block stays the oldest, and nothing is appended.
    fn plan(&mut self, from: Option<u8>) -> u16 {
        let (mut to, mut behind) = (1_u16, 0);
        while let Some(entry) = from.and_then(|block| self.index.next(block, behind)) {
            entry.move_to(to);
            behind = entry.unit;
            // cannot overflow, nor be cut off: units of a block.
            to = to.saturating_add(self.medium.shape.units_of(entry.len.into()) as u16);
        }
        to
    }
}

/// Whether a medium says that it can't change a block, and another one may do. What a driver's own code says nobody knows: another
/// block is tried.
fn is_bad(error: &FlashError) -> bool {
    let changes = matches!(error.operation, FlashOperation::Prog | FlashOperation::Erase);
    changes
        && matches!(
            error.cause,
            FlashCause::BadBlock { .. }
                | FlashCause::AlreadyProgrammed { .. }
                | FlashCause::Closed { .. }
                | FlashCause::Void { .. }
                | FlashCause::OutOfOrder { .. }
                | FlashCause::Driver(_)
        )
}
