//! Opening a volume of which something was damaged. docs/SEALED-FLASH.md, "Damage", has what is proven, and how.
//!
//! The record's sum is over block, epoch and number of units. So a unit that fails its tag costs nothing but itself, as long as epoch
//! and number are proven by something else: by units behind it, by a tag that verifies with one bit put right, or by the record itself,
//! which confirms no other numbers than those that are anchored.

use atrest_cipher::aead::Aead;
use atrest_device::FlashCause;

use super::cells::{Cell, Cells};
use super::error::SealedError;
use super::record::{Record, Stamp};
use super::scan::Scan;
use super::serial::Epoch;
use super::table::BlockState;
use super::volume::stamp;
use super::{FlashDevice, twin};

/// Blocks that may be something else than what they are taken for, at most. All combinations are tried.
pub(crate) const MOST_OTHERS: usize = 12;

/// Beside so many of them a single block of all is looked for that is something else again: each of them doubles the work.
const MOST_BESIDE: u32 = 4;

/// So many serials before that of a later unit the first unit of its block is looked for.
const SEARCH: u64 = 256;

#[twin]
impl Scan {
    /// The second look at a medium that the record did not confirm: goes past what fails.
    pub(crate) fn past_damage(record: &Record) -> Self {
        let mut scan = Self::new(record);
        scan.past = true;
        scan
    }

    /// To take over what verifies.
    pub(crate) fn to_adopt(record: &Record) -> Self {
        let mut scan = Self::past_damage(record);
        scan.adopts = true;
        scan
    }

    /// The state of a block in which units may fail. Those that fail before the last that verifies were there: units of a block are
    /// programmed in order, so one behind them proves it. What else the block may have been is noted for [`explain`](Self::explain).
    pub(crate) async fn read_damaged_block<A: Aead, D: FlashDevice, B: AsMut<[u8]>>(
        &mut self,
        cells: &mut Cells<A, D, B>,
        block: u32,
    ) -> Result<BlockState, SealedError> {
        let medium = SealedError::Medium;
        let Some((epoch, first)) = self.first_unit(cells, block).await? else { return Ok(BlockState::VOID) };
        let mut anchored = self.note(epoch.serial, epoch, block, Cell::Unit(0));
        // The last unit that is proven, its serial, and the first that fails.
        let (mut at, mut last) = (0_u32, epoch.serial);
        let mut hole = (!first).then_some(0);
        for unit in 1..cells.layout.units() {
            let Some(serial) = cells.open_unit(block, unit, epoch).await.map_err(medium)? else { continue };
            // cannot overflow: units of a block are counted by 14 bits, and serials by 40.
            let failed = unit.saturating_sub(at).saturating_sub(1);
            if serial.checked_sub(last).is_none_or(|more| more <= failed.into()) {
                // Each unit between takes a serial.
                return Err(self.not_anchored());
            }
            if failed > 0 {
                // cannot overflow: units of a block are counted by 14 bits, and serials by 40.
                hole = hole.or(Some(at.saturating_add(1)));
            }
            if serial < self.anchor {
                // cannot overflow: units of a block are counted by 14 bits, and serials by 40.
                anchored = unit.saturating_add(1);
            } else {
                let border =
                    if last < self.anchor { self.border(cells, block, epoch, at, unit).await? } else { at };
                if last < self.anchor {
                    // cannot overflow: units of a block are counted by 14 bits, and serials by 40.
                    anchored = border.saturating_add(1);
                }
                // cannot overflow: units of a block are counted by 14 bits, and serials by 40.
                let newer = unit.saturating_sub(border).saturating_sub(1);
                self.in_flight = self.in_flight.saturating_add(newer.into());
            }
            self.note(serial, epoch, block, Cell::Unit(unit));
            (at, last) = (unit, serial);
        }
        // cannot overflow: units of a block are counted by 14 bits, and serials by 40.
        let (mut fill, mut whole) = (at.saturating_add(1), hole.is_none());
        let mut longer = fill;
        while longer < cells.layout.units()
            && let Some(found) = cells.correct_unit(block, longer, epoch, self.limit).await.map_err(medium)?
            && found.serial > last
        {
            last = found.serial;
            // cannot overflow: units of a block are counted by 14 bits, and serials by 40.
            longer = longer.saturating_add(1);
            if found.serial >= self.anchor && fill.saturating_add(1) == longer {
                self.note(found.serial, epoch, block, Cell::Unit(fill));
                (fill, whole) = (longer, false);
            }
        }
        self.read_damaged_ticket(cells, block, epoch).await?;
        let stamp = |fill| Stamp { block, epoch, fill };
        let is_old = anchored == fill;
        if is_old && !first && !self.adopts {
            // Perhaps what a cut erase has left; if not, units at the end may be of a program that failed.
            for held in fill..=longer {
                self.may_be(stamp(0), stamp(held));
            }
            return Ok(BlockState::VOID);
        }
        // What is newer counts at once, so only an old block can be longer.
        if is_old && longer > fill {
            self.may_be(stamp(fill), stamp(longer));
        }
        if is_old && let Some(hole) = hole {
            self.may_be(stamp(fill), stamp(hole));
        }
        self.sum = self.sum.wrapping_add(cells.keys.share(stamp(anchored)));
        let mut state = BlockState::holding(epoch, fill);
        state.set_in_flight(!is_old);
        if !whole {
            state.close();
        }
        Ok(state)
    }

    /// A block that is taken for one may as well be the other.
    fn may_be(&mut self, taken_for: Stamp, other: Stamp) {
        if let Some(free) = self.others.iter_mut().find(|other| other.is_none()) {
            *free = Some((taken_for, other));
        }
    }

    async fn read_damaged_ticket<A: Aead, D: FlashDevice, B: AsMut<[u8]>>(
        &mut self,
        cells: &mut Cells<A, D, B>,
        block: u32,
        epoch: Epoch,
    ) -> Result<(), SealedError> {
        if cells.layout.slot() == 0 {
            return Ok(());
        }
        match self.ticket(cells, block, epoch).await.map_err(SealedError::Medium)? {
            // One of another session is of a copy, and announces nothing here.
            Some((serial, victim)) if serial >= self.anchor && epoch.salt == self.salt => {
                self.note(serial, epoch, block, Cell::Slot);
                self.add_ticket(serial, victim);
            }
            _ => {}
        }
        Ok(())
    }

    /// The ticket in a block's slot. The second look puts one wrong bit right.
    pub(crate) async fn ticket<A: Aead, D: FlashDevice, B: AsMut<[u8]>>(
        &self,
        cells: &mut Cells<A, D, B>,
        block: u32,
        epoch: Epoch,
    ) -> Result<Option<(u64, Stamp)>, FlashCause> {
        match cells.open_ticket(block, epoch).await? {
            None if self.past => cells.correct_ticket(block, epoch, self.limit).await,
            ticket => Ok(ticket),
        }
    }

    /// Epoch of a block, and whether its first unit verifies. A first unit that is lost altogether leaves a void block, unless it is newer than
    /// the record: what a cut erase has left looks the same, and only the record tells.
    async fn first_unit<A: Aead, D: FlashDevice, B: AsMut<[u8]>>(
        &mut self,
        cells: &mut Cells<A, D, B>,
        block: u32,
    ) -> Result<Option<(Epoch, bool)>, SealedError> {
        let medium = SealedError::Medium;
        if let Some(epoch) = cells.open_first(block).await.map_err(medium)? {
            return Ok(Some((epoch, true)));
        }
        if let Some(epoch) = cells.correct_first(block, self.limit).await.map_err(medium)?
            && !self.is_foreign(epoch)
        {
            return Ok(Some((epoch, false)));
        }
        if self.adopts {
            return Ok(None);
        }
        let Some(epoch) = self
            .lost_epoch(cells, block)
            .await?
            .filter(|epoch| epoch.serial >= self.anchor && !self.is_foreign(*epoch))
        else {
            return Ok(None);
        };
        // The next opening has to find it by the record, which proves one such block.
        if core::mem::replace(&mut self.lost, true) {
            return Err(self.not_anchored());
        }
        Ok(Some((epoch, false)))
    }

    /// Newer than the record, and sealed in another session: of a copy of the volume. What of that does not verify is nothing.
    fn is_foreign(&self, epoch: Epoch) -> bool {
        epoch.serial >= self.anchor && epoch.salt != self.salt
    }

    /// Of units that fail between two that do not, the last that is anchored: the one of `at` if none can be told to be. All are older than
    /// `until`, which is newer than the record.
    async fn border<A: Aead, D: FlashDevice, B: AsMut<[u8]>>(
        &self,
        cells: &mut Cells<A, D, B>,
        block: u32,
        epoch: Epoch,
        at: u32,
        until: u32,
    ) -> Result<u32, SealedError> {
        let mut border = at;
        // cannot overflow: units of a block are counted by 14 bits, and serials by 40.
        for unit in at.saturating_add(1)..until {
            let found =
                cells.correct_unit(block, unit, epoch, self.limit).await.map_err(SealedError::Medium)?;
            if found.is_some_and(|found| found.serial < self.anchor) {
                border = unit;
            }
        }
        Ok(border)
    }

    /// The epoch of a block whose first unit is lost, though something stands there: a unit behind it opens under that
    /// epoch alone. One of the two salts behind the first unit has to be left.
    async fn lost_epoch<A: Aead, D: FlashDevice, B: AsMut<[u8]>>(
        &self,
        cells: &mut Cells<A, D, B>,
        block: u32,
    ) -> Result<Option<Epoch>, SealedError> {
        let medium = SealedError::Medium;
        // Saves time: no session has a salt that reads like blank flash.
        if !cells.may_stand(block, 0).await.map_err(medium)? {
            return Ok(None);
        }
        let Some([first, second]) = cells.salts(block).await.map_err(medium)? else { return Ok(None) };
        let other = Some(second).filter(|second| *second != first);
        for unit in 1..cells.layout.units() {
            let Some(serial) = cells.serial_of(block, unit, self.limit).await.map_err(medium)? else {
                continue;
            };
            let Some(newest) = serial.checked_sub(unit.into()) else { continue };
            // cannot overflow: units of a block are counted by 14 bits, and serials by 40.
            for serial in (newest.saturating_sub(SEARCH)..=newest).rev() {
                for salt in [first].into_iter().chain(other) {
                    let epoch = Epoch { serial, salt };
                    if cells.open_unit(block, unit, epoch).await.map_err(medium)?.is_some() {
                        return Ok(Some(epoch));
                    }
                }
            }
            // Somebody may have put it there: the next one tells as well.
        }
        Ok(None)
    }

    /// Looks for the blocks that are not as the scan took them. A sum that the record confirms is the anchored state, whatever led to it.
    pub(crate) async fn explain<A: Aead, D: FlashDevice, B: AsMut<[u8]>>(
        &self,
        cells: &mut Cells<A, D, B>,
        table: &mut [BlockState],
        good: impl Fn(&Cells<A, D, B>, u128) -> bool,
    ) -> Result<Option<u128>, SealedError> {
        if self.lost {
            return Ok(None);
        }
        let known = self.others.iter().flatten().count() as u32;
        let sets = 1_u32.wrapping_shl(known);
        let differences = self.others.map(|pair| {
            pair.map_or(0, |(taken_for, other)| {
                cells.keys.share(other).wrapping_sub(cells.keys.share(taken_for))
            })
        });
        for chosen in 1..sets {
            let sum = self.sum_of(&differences, chosen);
            if good(cells, sum) {
                self.choose(chosen, table);
                return Ok(Some(sum));
            }
        }
        // And a single one of all.
        let sets = if known <= MOST_BESIDE { sets } else { 1 };
        for chosen in 0..sets {
            let sum = self.sum_of(&differences, chosen);
            if let Some((found, sum)) = self.explain_one(cells, table, sum, &good).await? {
                self.choose(chosen, table);
                if let Some(entry) = table.get_mut(found.block as usize) {
                    *entry = closed(found);
                }
                return Ok(Some(sum));
            }
        }
        Ok(None)
    }

    /// The sum if those that are chosen are the other thing that they may be.
    fn sum_of(&self, differences: &[u128; MOST_OTHERS], chosen: u32) -> u128 {
        let of_chosen = (0_u32..).zip(differences).filter(|(at, _)| chosen.wrapping_shr(*at) & 1 == 1);
        of_chosen.fold(self.sum, |sum, (_, difference)| sum.wrapping_add(*difference))
    }

    fn choose(&self, chosen: u32, table: &mut [BlockState]) {
        for (_, other) in self.chosen(chosen) {
            if let Some(entry) = table.get_mut(other.block as usize) {
                *entry = closed(other);
            }
        }
    }

    fn chosen(&self, chosen: u32) -> impl Iterator<Item = (Stamp, Stamp)> {
        let others = (0_u32..).zip(self.others.iter().flatten());
        others.filter(move |(at, _)| chosen.wrapping_shr(*at) & 1 == 1).map(|(_, pair)| *pair)
    }

    /// The one block that is shorter, longer or not void.
    async fn explain_one<A: Aead, D: FlashDevice, B: AsMut<[u8]>>(
        &self,
        cells: &mut Cells<A, D, B>,
        table: &[BlockState],
        sum: u128,
        good: impl Fn(&Cells<A, D, B>, u128) -> bool,
    ) -> Result<Option<(Stamp, u128)>, SealedError> {
        let units = cells.layout.units();
        for (block, state) in (0..).zip(table) {
            if state.is_in_flight() {
                // Saves time: its anchored part is in the sum, which was tried.
                continue;
            }
            // Without its first unit a block holds as many as verify or more; otherwise perhaps fewer.
            let (epoch, rest, proven, fewest) = if state.fill() == 0 {
                let lost = self.lost_epoch(cells, block).await?;
                let Some(epoch) = lost.filter(|epoch| epoch.serial < self.anchor) else { continue };
                // cannot overflow: units of a block are counted by 14 bits, and serials by 40.
                let proven = cells.last(block, epoch).await.map_err(SealedError::Medium)?.saturating_add(1);
                (epoch, sum, proven, proven)
            } else {
                (state.epoch(), sum.wrapping_sub(cells.keys.share(stamp(block, state))), state.fill(), 0)
            };
            // cannot overflow: units of a block are counted by 14 bits, and serials by 40.
            for fill in fewest..units.saturating_add(1) {
                // A unit that is gone without a trace was cut off or put back, rather than damaged.
                let longer = fill.checked_sub(1).filter(|unit| *unit >= proven);
                if let Some(unit) = longer
                    && !cells.may_stand(block, unit).await.map_err(SealedError::Medium)?
                {
                    break;
                }
                let found = Stamp { block, epoch, fill };
                let sum = rest.wrapping_add(cells.keys.share(found));
                if fill != state.fill() && good(cells, sum) {
                    return Ok(Some((found, sum)));
                }
            }
        }
        Ok(None)
    }
}

/// A block that holds what the record says, and takes no more.
fn closed(stamp: Stamp) -> BlockState {
    let mut state = BlockState::holding(stamp.epoch, stamp.fill);
    state.close();
    state
}
