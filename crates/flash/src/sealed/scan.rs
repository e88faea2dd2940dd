//! What a medium holds, block by block: what is anchored and what is newer, and the sum that the record has to confirm.

use atrest_cipher::aead::Aead;

use super::cells::{Cell, Cells};
use super::damage::MOST_OTHERS;
use super::error::SealedError;
use super::fast::Reach;
use super::keys::Keys;
use super::layout::SealedLayout;
use super::mount::blocks;
use super::record::{Record, Stamp};
use super::serial::{Epoch, Salt};
use super::table::BlockState;
use super::volume::{MOST_TICKETS, stamp};
use super::{FlashDevice, twin};

/// What is found while the medium is read.
pub(crate) struct Scan {
    cached: bool,
    pub(crate) clean: bool,
    /// How much of what is older than the record is read.
    pub(crate) reach: Reach,
    /// Of the session that wrote the record.
    pub(crate) salt: Salt,
    /// Something newer than the record was sealed in another session: in a copy of the volume.
    foreign: bool,
    /// More tickets were found than a window has, or two for one block.
    overfull: bool,
    /// Whether units that fail are gone past.
    pub(crate) past: bool,
    /// The owner takes what verifies, whatever the record says.
    pub(crate) adopts: bool,
    /// A newer block was taken for one whose first unit is lost altogether.
    pub(crate) lost: bool,
    /// Older blocks that may be something else than what they are taken for: what they are taken for, and what else.
    pub(crate) others: [Option<(Stamp, Stamp)>; MOST_OTHERS],
    pub(crate) anchor: u64,
    /// No serial from here on can be there.
    pub(crate) limit: u64,
    /// Of the anchored state, as far as it has been seen.
    pub(crate) sum: u128,
    /// Cells newer than the anchor.
    pub(crate) in_flight: u64,
    /// The newest of them: its serial and place.
    newest: Option<(u64, u32, Cell)>,
    /// The newest serial of all.
    top: u64,
    /// Blocks that may have been erased: serial of the ticket, and what they had held. One can come from the record.
    pub(crate) tickets: [Option<(u64, Stamp)>; MOST_TICKETS + 1],
    /// The block whose erase was cut and has left something that verifies.
    pub(crate) torn: Option<u32>,
}

/// Reads of the newest cell, all of which have to verify: a torn program may read right once.
const CONFIRMATIONS: usize = 2;

#[twin]
impl Scan {
    pub(crate) fn new(record: &Record) -> Self {
        let mut tickets = [None; MOST_TICKETS + 1];
        let [first, ..] = &mut tickets;
        *first = record.victim.map(|victim| (0, victim));
        Self {
            cached: record.cached,
            clean: record.clean,
            reach: Reach::Units,
            salt: record.salt,
            foreign: false,
            overfull: false,
            past: false,
            adopts: false,
            lost: false,
            others: [None; MOST_OTHERS],
            anchor: record.anchor,
            limit: record.limit(),
            sum: 0,
            in_flight: 0,
            newest: None,
            top: 0,
            tickets,
            torn: None,
        }
    }

    /// Reads every block. Afterwards the table has what verifies, and the sum what of that is anchored.
    pub(crate) async fn read<A: Aead, D: FlashDevice, B: AsMut<[u8]>>(
        &mut self,
        cells: &mut Cells<A, D, B>,
        table: &mut [BlockState],
    ) -> Result<(), SealedError> {
        for (block, state) in (0..blocks(&cells.layout)).zip(table) {
            *state = match self.reach {
                Reach::Serials | Reach::Ends => self.read_block_by_serials(cells, block).await?,
                Reach::Units if self.past => self.read_damaged_block(cells, block).await?,
                Reach::Units => self.read_block(cells, block).await?,
            };
        }
        Ok(())
    }

    pub(crate) async fn read_block<A: Aead, D: FlashDevice, B: AsMut<[u8]>>(
        &mut self,
        cells: &mut Cells<A, D, B>,
        block: u32,
    ) -> Result<BlockState, SealedError> {
        let medium = SealedError::Medium;
        let Some(epoch) = cells.open_first(block).await.map_err(medium)? else {
            return Ok(BlockState::VOID);
        };
        let mut last = epoch.serial;
        let mut anchored = self.note(epoch.serial, epoch, block, Cell::Unit(0));
        let mut fill = 1;
        for unit in 1..cells.layout.units() {
            match cells.open_unit(block, unit, epoch).await.map_err(medium)? {
                Some(serial) if serial > last => {
                    last = serial;
                    // cannot overflow: units of a block are counted by 14 bits.
                    fill = unit.saturating_add(1);
                    anchored = anchored.saturating_add(self.note(serial, epoch, block, Cell::Unit(unit)));
                }
                Some(_) => return Err(self.not_anchored()),
                None => break,
            }
        }
        // Serials rise in a block, so what is anchored comes first.
        self.sum = self.sum.wrapping_add(cells.keys.share(Stamp { block, epoch, fill: anchored }));
        let mut state = BlockState::holding(epoch, fill);
        state.set_in_flight(anchored != fill);
        if cells.layout.slot() != 0
            && let Some((serial, victim)) = cells.open_ticket(block, epoch).await.map_err(medium)?
            && serial >= self.anchor
        {
            self.note(serial, epoch, block, Cell::Slot);
            self.add_ticket(serial, victim);
        }
        Ok(state)
    }

    /// Counts a cell of a block of this epoch if it is in flight; 1 if it is anchored.
    pub(crate) fn note(&mut self, serial: u64, epoch: Epoch, block: u32, cell: Cell) -> u32 {
        self.top = self.top.max(serial);
        if serial < self.anchor {
            return 1;
        }
        self.foreign |= epoch.salt != self.salt;
        // cannot overflow: 32 bits count the blocks, and 14 the units of one.
        self.in_flight = self.in_flight.saturating_add(1);
        if self.newest.is_none_or(|(newest, ..)| newest < serial) {
            self.newest = Some((serial, block, cell));
        }
        0
    }

    pub(crate) fn add_ticket(&mut self, serial: u64, victim: Stamp) {
        let known = self.tickets.iter().flatten().any(|(_, ticket)| ticket.block == victim.block);
        match self.tickets.iter_mut().skip(1).find(|ticket| ticket.is_none()) {
            Some(free) if !known => *free = Some((serial, victim)),
            // No window has so many. Whether the store is older is told first.
            _ => self.overfull = true,
        }
    }

    /// The newest cell may be the one whose program was cut. If it does not verify every time it is taken as not there.
    pub(crate) async fn take_back_marginal<A: Aead, D: FlashDevice, B: AsMut<[u8]>>(
        &mut self,
        cells: &mut Cells<A, D, B>,
        table: &mut [BlockState],
    ) -> Result<(), SealedError> {
        let Some((serial, block, cell)) = self.newest else { return Ok(()) };
        let Some(state) = table.get_mut(block as usize) else { return Ok(()) };
        let epoch = state.epoch();
        for _ in 0..CONFIRMATIONS {
            let verifies = match cell {
                Cell::Unit(unit) => cells.open_unit(block, unit, epoch).await.map(|found| found.is_some()),
                Cell::Slot => self.ticket(cells, block, epoch).await.map(|found| found.is_some()),
            };
            if verifies.map_err(SealedError::Medium)? {
                continue;
            }
            // Serials in flight have no gap, which is checked next: the one before this is the newest now.
            // cannot underflow: this one was counted, and its serial is not below the anchor.
            self.in_flight = self.in_flight.saturating_sub(1);
            self.newest = (self.in_flight > 0).then_some((serial.saturating_sub(1), block, cell));
            match cell {
                Cell::Unit(unit) => {
                    // Other units of the block may be known to fail.
                    let closed = state.is_closed();
                    *state = BlockState::holding(epoch, unit);
                    if closed {
                        state.close();
                    }
                    state.set_in_flight(true);
                }
                Cell::Slot => {
                    self.tickets = self.tickets.map(|ticket| ticket.filter(|(found, _)| *found != serial));
                }
            }
            break;
        }
        Ok(())
    }

    /// What is newer than the record is the beginning of what was done since then.
    pub(crate) fn check_serials(&self) -> Result<(), SealedError> {
        let Some((newest, ..)) = self.newest else {
            // A second ticket for the record's block, which has faded since: no program writes one.
            return if self.overfull { Err(self.not_anchored()) } else { Ok(()) };
        };
        let limit = if self.clean { self.anchor } else { self.limit };
        if newest >= limit {
            return Err(SealedError::StoreOlder { limit, found: newest });
        }
        if self.overfull || self.foreign {
            return Err(self.not_anchored());
        }
        let expected = newest.checked_add(1).and_then(|next| next.checked_sub(self.anchor));
        if !self.cached && expected != Some(self.in_flight) {
            return Err(SealedError::Gap { anchor: self.anchor, newest, found: self.in_flight });
        }
        Ok(())
    }

    /// Blocks that may have been erased count as what they had held; what a cut erase has left of one is void.
    pub(crate) async fn apply_tickets<A: Aead, D: FlashDevice, B: AsMut<[u8]>>(
        &mut self,
        cells: &mut Cells<A, D, B>,
        table: &mut [BlockState],
    ) -> Result<(), SealedError> {
        for (_, ticket) in self.tickets.into_iter().flatten() {
            let Some(state) = table.get_mut(ticket.block as usize) else { return Err(self.not_anchored()) };
            let is_old = state.fill() != 0 && state.epoch().serial < self.anchor;
            if is_old && state.is_in_flight() {
                // Nothing is appended to a block between its ticket and its erase, nor was before.
                return Err(self.not_anchored());
            }
            let found = stamp(ticket.block, state);
            if is_old {
                self.sum = self.sum.wrapping_sub(cells.keys.share(found));
            }
            self.sum = self.sum.wrapping_add(cells.keys.share(ticket));
            if is_old && found != ticket {
                *state = BlockState::VOID;
                if self.torn.replace(ticket.block).is_some() {
                    return Err(self.not_anchored());
                }
            }
        }
        if self.past && self.torn.is_none() {
            self.tear_damaged(cells, table).await;
        }
        Ok(())
    }

    /// A block that was about to be erased, holds what its ticket says, and has units that fail: a cut erase may have left it so. One erase at
    /// most was cut. Where there are several such blocks, the others were damaged before, and are still.
    async fn tear_damaged<A: Aead, D: FlashDevice, B: AsMut<[u8]>>(
        &mut self,
        cells: &mut Cells<A, D, B>,
        table: &mut [BlockState],
    ) {
        for (_, ticket) in self.tickets.into_iter().flatten() {
            let Some(state) = table.get_mut(ticket.block as usize) else { continue };
            let is_old = state.fill() != 0 && state.epoch().serial < self.anchor;
            if is_old && cells.count(ticket.block, ticket.epoch, ticket.fill).await != ticket.fill {
                *state = BlockState::VOID;
                self.torn = Some(ticket.block);
                return;
            }
        }
    }

    pub(crate) fn not_anchored(&self) -> SealedError {
        SealedError::NotAnchored { anchor: self.anchor, newest: self.top }
    }
}

/// Looks for the one block of which the medium shows more than is anchored: its last unit, or all of it. That happens when
/// what a cut program or erase had left did not verify at the opening after it, and does now. A sum that the record confirms is the
/// anchored state, whatever led to it.
pub(crate) fn without_one<A: Aead>(
    sum: u128,
    table: &[BlockState],
    keys: &Keys<A>,
    good: impl Fn(u128) -> bool,
) -> Option<(usize, BlockState, u128)> {
    for (block, state) in table.iter().enumerate() {
        if state.fill() == 0 || state.is_in_flight() {
            // Saves time: such a block is not in the sum with all that it shows, so nothing less would make the sum good.
            continue;
        }
        let found = stamp(block as u32, state);
        let rest = sum.wrapping_sub(keys.share(found));
        // cannot underflow: the block holds something.
        for fill in [found.fill.saturating_sub(1), 0] {
            let sum = rest.wrapping_add(keys.share(Stamp { fill, ..found }));
            if good(sum) {
                let mut state = BlockState::holding(found.epoch, fill);
                state.close();
                return Some((block, state, sum));
            }
        }
    }
    None
}

/// Makes all blocks void.
pub(crate) fn clear(table: &mut [BlockState], layout: &SealedLayout) -> Result<(), SealedError> {
    let (needs, has) = (layout.medium().block_count(), table.len());
    if (has as u64) < needs {
        return Err(SealedError::TableTooSmall { needs, has });
    }
    table.fill(BlockState::VOID);
    Ok(())
}
