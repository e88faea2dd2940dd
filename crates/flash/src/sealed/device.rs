//! A sealed volume as a flash device.

use atrest_cipher::aead::Aead;
use atrest_device::{FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation, TrustedStore};

use super::layout::Tickets;
use super::options::SealedMedium;
use super::serial::Epoch;
use super::table::BlockState;
use super::volume::{MOST_TICKETS, SealedFlash, stamp};

/// What a unit reads as that was not programmed and still can be.
pub(super) const OPEN: u8 = 0xff;
/// What a unit reads as that was not programmed and can't be any more: no valid checksum of littlefs covers it.
pub(super) const CLOSED: u8 = 0;

impl<A, D, S, T, B> SealedFlash<A, D, S, T, B>
where
    A: Aead,
    D: FlashDevice,
    S: TrustedStore,
    T: AsRef<[BlockState]> + AsMut<[BlockState]>,
    B: AsMut<[u8]>,
{
    fn read_one(&mut self, block: u32, unit: u32, out: &mut [u8]) -> Result<(), FlashCause> {
        let state = self.state(block);
        if unit >= state.fill() {
            if state == BlockState::VOID {
                return Err(FlashCause::Void { block: block.into() });
            }
            out.fill(if self.is_open(&state) { OPEN } else { CLOSED });
            return Ok(());
        }
        match self.cells.read_unit(block, unit, state.epoch(), out)? {
            Some(_) => Ok(()),
            None => {
                // What the record confirms hides nothing, whether it was known to fail when the volume was opened or is only found now.
                let unread = self.unread && state.epoch().serial < self.start;
                if unread && let Some(state) = self.state_mut(block) {
                    state.close();
                    self.damaged = true;
                }
                self.tampered |= !(self.damaged && self.state(block).is_closed());
                Err(FlashCause::Tampered { block: block.into(), unit })
            }
        }
    }

    /// Without a payload the unit then reads as if it could still be programmed.
    fn prog_one(
        &mut self,
        block: u32,
        unit: u32,
        address: u64,
        payload: Option<&[u8]>,
    ) -> Result<(), FlashCause> {
        let state = self.state(block);
        if !self.is_open(&state) {
            let block = block.into();
            let void = state.fill() == 0;
            return Err(if void { FlashCause::Void { block } } else { FlashCause::Closed { block } });
        }
        if unit < state.fill() {
            return Err(FlashCause::AlreadyProgrammed { unit: address });
        }
        if unit > state.fill() {
            // littlefs leaves a unit out where the padding of a commit reaches over one.
            // intended: unit 0 is not behind any.
            if unit.saturating_sub(1) > state.fill() {
                return Err(FlashCause::OutOfOrder { next: state.fill() });
            }
            self.prog_one(block, state.fill(), address, None)?;
        }
        self.begin_change()?;
        let serial = self.serial()?;
        // Memory first: whatever comes of the program, serial and unit are used.
        self.take_out(block);
        let salt = self.salt;
        if let Some(state) = self.state_mut(block) {
            state.append(serial, salt);
        }
        let epoch = self.state(block).epoch();
        let mut done = self.cells.prog_unit(block, unit, epoch, serial, payload);
        if done.is_ok() && self.options.read_back {
            done = match self.cells.open_unit(block, unit, epoch) {
                Ok(Some(_)) => Ok(()),
                Ok(None) => Err(FlashCause::BadBlock { block: block.into() }),
                Err(cause) => Err(cause),
            };
        }
        if let Err(cause) = done {
            self.burn(block, unit, epoch);
            return Err(cause);
        }
        if unit == 0 {
            self.slots.push(block);
        }
        Ok(())
    }

    /// After a program that failed: what verifies counts, the block takes no more, and the serial is behind the next anchor.
    fn burn(&mut self, block: u32, unit: u32, epoch: Epoch) {
        let stored = matches!(self.cells.open_unit(block, unit, epoch), Ok(Some(_)));
        // cannot overflow: units of a block are counted by 14 bits.
        self.put_back(block, epoch, unit.saturating_add(stored.into()));
        // If this fails it is done before the next change.
        let _ = self.write_record(false, None);
    }

    fn erase_one(&mut self, block: u32) -> Result<(), FlashCause> {
        if self.tampered {
            return Err(FlashCause::Stopped);
        }
        if self.state(block).is_in_flight() {
            // Serials in flight never vanish.
            self.write_record(false, None)?;
        }
        self.slots.remove(block);
        let before = self.state(block);
        if before.fill() == 0 {
            self.begin_change()?;
        } else {
            if !self.announce(block)? {
                self.write_record(false, Some(block))?;
            }
            self.changed = true;
            self.sum = self.sum.wrapping_sub(self.cells.keys.share(stamp(block, &before)));
        }
        if let Some(state) = self.state_mut(block) {
            *state = BlockState::ERASED;
        }
        let mut done = self.cells.erase(block);
        if self.options.medium == SealedMedium::Card {
            done = done.and_then(|()| self.cells.overwrite(block));
        } else if done.is_ok() && self.options.read_back {
            done = match self.cells.is_programmed(block, 0) {
                Ok(false) => Ok(()),
                Ok(true) => Err(FlashCause::BadBlock { block: block.into() }),
                Err(cause) => Err(cause),
            };
        }
        if let Err(cause) = done {
            let held = self.cells.count(block, before.epoch(), before.fill());
            self.put_back(block, before.epoch(), held);
            let _ = self.write_record(false, None);
            return Err(cause);
        }
        Ok(())
    }

    /// Writes a ticket for a block into a free slot. False if that has to go to the store.
    fn announce(&mut self, block: u32) -> Result<bool, FlashCause> {
        let room = self.tickets < MOST_TICKETS && self.next < self.limit;
        if self.options.tickets == Tickets::Store || self.clean || self.gap || !room {
            return Ok(false);
        }
        let Some(home) = self.slots.pop() else { return Ok(false) };
        let victim = stamp(block, &self.state(block));
        let serial = self.serial()?;
        // cannot overflow: there are six at most, which was looked at.
        self.tickets = self.tickets.saturating_add(1);
        self.changed = true;
        self.take_out(home);
        let epoch = self.state(home).epoch();
        let done = self.cells.prog_ticket(home, epoch, serial, victim);
        let stored = !self.options.read_back
            || matches!(self.cells.open_ticket(home, epoch), Ok(Some(read)) if read == (serial, victim));
        if done.is_err() || !stored {
            self.gap = true;
            return Ok(false);
        }
        if !self.is_ordered()
            && let Err(cause) = self.cells.sync()
        {
            // The block is announced by this ticket or by the next record, never by two tickets.
            self.gap = true;
            return Err(cause);
        }
        Ok(true)
    }

    /// A block that went bad holds this many units, and takes no more. The record is written before the next change.
    fn put_back(&mut self, block: u32, epoch: Epoch, fill: u32) {
        let mut held = BlockState::holding(epoch, fill);
        held.close();
        held.set_in_flight(fill > 0);
        if let Some(state) = self.state_mut(block) {
            *state = held;
        }
        self.slots.remove(block);
        (self.changed, self.gap) = (true, true);
    }

    fn for_units(
        &mut self,
        operation: FlashOperation,
        address: u64,
        len: u64,
        mut each: impl FnMut(&mut Self, u32, u32, u64) -> Result<(), FlashCause>,
    ) -> Result<(), FlashError> {
        let geometry = self.cells.layout.geometry();
        geometry.check(operation, address, len)?;
        let step = match operation {
            FlashOperation::Erase => geometry.erase_size(),
            _ => geometry.prog_size(),
        };
        // cannot overflow: the range was found to lie on the medium.
        for at in (address..address.saturating_add(len)).step_by(step as usize) {
            let (block, unit) = self.cells.layout.place(at);
            each(self, block, unit, at)
                .map_err(|cause| FlashError::new(operation, at, step.into(), cause))?;
        }
        Ok(())
    }
}

impl<A, D, S, T, B> FlashDevice for SealedFlash<A, D, S, T, B>
where
    A: Aead,
    D: FlashDevice,
    S: TrustedStore,
    T: AsRef<[BlockState]> + AsMut<[BlockState]>,
    B: AsMut<[u8]>,
{
    fn geometry(&self) -> FlashGeometry {
        self.cells.layout.geometry()
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        let len = buf.len() as u64;
        let mut rest = buf.chunks_mut(self.cells.layout.payload() as usize);
        self.for_units(FlashOperation::Read, address, len, |flash, block, unit, _| {
            // cannot be missing: the length was found to be one of whole units.
            flash.read_one(block, unit, rest.next().unwrap_or_default())
        })
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        let mut rest = data.chunks(self.cells.layout.payload() as usize);
        self.for_units(FlashOperation::Prog, address, data.len() as u64, |flash, block, unit, at| {
            flash.prog_one(block, unit, at, rest.next())
        })
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.for_units(FlashOperation::Erase, address, len, |flash, block, _, _| flash.erase_one(block))
    }

    /// Syncs the medium, and on every so many calls writes the trusted store, if anything has changed.
    fn sync(&mut self) -> Result<(), FlashError> {
        let failed = |cause| FlashError::new(FlashOperation::Sync, 0, 0, cause);
        // intended: at the last number every sync writes the store.
        self.syncs = self.syncs.saturating_add(1);
        if self.changed && (self.syncs >= self.options.anchor_every || !self.is_ordered()) {
            return self.write_record(false, None).map_err(failed);
        }
        self.cells.sync().map_err(failed)
    }

    /// What a unit reads as that can be programmed; what is programmed may read the same.
    fn erased_byte(&self) -> Option<u8> {
        Some(OPEN)
    }

    /// Whether all units of the range can be programmed, by what is in memory of their blocks: `scratch` is not used.
    fn is_blank(&mut self, address: u64, len: u64, _scratch: &mut [u8]) -> Result<bool, FlashError> {
        let mut blank = true;
        self.for_units(FlashOperation::BlankQuery, address, len, |flash, block, unit, _| {
            let state = flash.state(block);
            blank &= flash.is_open(&state) && unit >= state.fill();
            Ok(())
        })?;
        Ok(blank)
    }
}
