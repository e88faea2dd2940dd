//! A sealed volume as a flash device.

use atrest_cipher::aead::Aead;
use atrest_device::{FlashCause, FlashError, FlashGeometry, FlashOperation};

use super::layout::Tickets;
use super::options::SealedMedium;
use super::record::Stamp;
use super::serial::Epoch;
use super::table::BlockState;
use super::unfinished::Step;
use super::volume::{MOST_TICKETS, SealedFlash, stamp};
use super::{FlashDevice, TrustedStore, twin};

/// What a unit reads as that was not programmed and still can be.
pub(crate) const OPEN: u8 = 0xff;
/// What a unit reads as that was not programmed and can't be any more: no valid checksum of littlefs covers it.
pub(crate) const CLOSED: u8 = 0;

#[twin]
impl<A, D, S, T, B> SealedFlash<A, D, S, T, B>
where
    A: Aead,
    D: FlashDevice,
    S: TrustedStore,
    T: AsRef<[BlockState]> + AsMut<[BlockState]>,
    B: AsMut<[u8]>,
{
    async fn read_one(&mut self, block: u32, unit: u32, out: &mut [u8]) -> Result<(), FlashCause> {
        let state = self.state(block);
        if unit >= state.fill() {
            if state == BlockState::VOID {
                return Err(FlashCause::Void { block: block.into() });
            }
            out.fill(if self.is_open(&state) { OPEN } else { CLOSED });
            return Ok(());
        }
        match self.cells.read_unit(block, unit, state.epoch(), out).await? {
            Some(_) => Ok(()),
            None => {
                self.note_failed(block);
                Err(FlashCause::Tampered { block: block.into(), unit })
            }
        }
    }

    /// A unit of a block has failed. What the record confirms hides nothing, whether it was known to fail when the volume was opened or
    /// is only found now.
    pub(crate) fn note_failed(&mut self, block: u32) {
        let unread = self.unread && self.state(block).epoch().serial < self.start;
        if unread && let Some(state) = self.state_mut(block) {
            state.close();
            self.damaged = true;
        }
        self.tampered |= !(self.damaged && self.state(block).is_closed());
    }

    async fn prog_one(
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
            self.prog_next(block, state.fill(), None).await?;
        }
        self.prog_next(block, unit, payload).await
    }

    /// Programs the next unit of an open block. Without a payload it then reads as if it could still be programmed.
    async fn prog_next(&mut self, block: u32, unit: u32, payload: Option<&[u8]>) -> Result<(), FlashCause> {
        self.begin_change().await?;
        let serial = self.serial().await?;
        // Memory first: whatever comes of the program, serial and unit are used.
        self.take_out(block);
        let salt = self.salt;
        if let Some(state) = self.state_mut(block) {
            state.append(serial, salt);
        }
        let epoch = self.state(block).epoch();
        self.unfinished.begin(Step::Program { block, unit, epoch });
        let mut done = self.cells.prog_unit(block, unit, epoch, serial, payload).await;
        if done.is_ok() && self.options.read_back {
            done = match self.cells.verifies(block, unit, epoch).await {
                Ok(true) => Ok(()),
                Ok(false) => Err(FlashCause::BadBlock { block: block.into() }),
                Err(cause) => Err(cause),
            };
        }
        if let Err(cause) = done {
            self.burn(block, unit, epoch).await;
            return Err(cause);
        }
        self.unfinished.end();
        if unit == 0 {
            self.slots.push(block);
        }
        Ok(())
    }

    /// After a program that failed: what verifies counts, the block takes no more, and the serial is behind the next anchor.
    async fn burn(&mut self, block: u32, unit: u32, epoch: Epoch) {
        let stored = matches!(self.cells.verifies(block, unit, epoch).await, Ok(true));
        // cannot overflow: units of a block are counted by 14 bits.
        self.put_back(block, epoch, unit.saturating_add(stored.into()));
        self.unfinished.end();
        // If this fails it is done before the next change.
        let _ = self.write_record(false, None).await;
    }

    /// After an erase that failed: the block holds what still verifies, and takes no more.
    async fn keep(&mut self, block: u32, before: Stamp) {
        let held = self.cells.count(block, before.epoch, before.fill).await;
        self.put_back(block, before.epoch, held);
        self.unfinished.end();
        // If this fails it is done before the next change.
        let _ = self.write_record(false, None).await;
    }

    /// Before anything else: a program or erase whose future was dropped has failed.
    pub(crate) async fn settle(&mut self) {
        match self.unfinished.step() {
            Some(Step::Program { block, unit, epoch }) => self.burn(block, unit, epoch).await,
            Some(Step::Erase { block, before }) => self.keep(block, before).await,
            None => {}
        }
    }

    async fn erase_one(&mut self, block: u32) -> Result<(), FlashCause> {
        if self.is_halted() {
            return Err(FlashCause::Stopped);
        }
        if self.state(block).is_in_flight() {
            // Serials in flight never vanish.
            self.write_record(false, None).await?;
        }
        self.slots.remove(block);
        let before = self.state(block);
        if before.fill() == 0 {
            self.begin_change().await?;
        } else {
            if !self.announce(block).await? {
                self.write_record(false, Some(block)).await?;
            }
            self.changed = true;
            self.sum = self.sum.wrapping_sub(self.cells.keys.share(stamp(block, &before)));
        }
        if let Some(state) = self.state_mut(block) {
            *state = BlockState::ERASED;
        }
        let before = stamp(block, &before);
        self.unfinished.begin(Step::Erase { block, before });
        let mut done = self.cells.erase(block).await;
        if self.options.medium == SealedMedium::Card {
            if done.is_ok() {
                done = self.cells.overwrite(block).await;
            }
        } else if done.is_ok() && self.options.read_back {
            done = match self.cells.is_programmed(block, 0).await {
                Ok(false) => Ok(()),
                Ok(true) => Err(FlashCause::BadBlock { block: block.into() }),
                Err(cause) => Err(cause),
            };
        }
        if let Err(cause) = done {
            self.keep(block, before).await;
            return Err(cause);
        }
        self.unfinished.end();
        Ok(())
    }

    /// Writes a ticket for a block into a free slot. False if that has to go to the store.
    async fn announce(&mut self, block: u32) -> Result<bool, FlashCause> {
        let room = self.tickets < MOST_TICKETS && self.next < self.limit;
        if self.options.tickets == Tickets::Store || self.clean || self.gap || !room {
            return Ok(false);
        }
        let Some(home) = self.slots.pop() else { return Ok(false) };
        let victim = stamp(block, &self.state(block));
        let serial = self.serial().await?;
        // cannot overflow: there are six at most, which was looked at.
        self.tickets = self.tickets.saturating_add(1);
        self.changed = true;
        self.take_out(home);
        let epoch = self.state(home).epoch();
        // Until it is known to stand there. The block is announced by this ticket or by the next record, never by two tickets.
        self.gap = true;
        let done = self.cells.prog_ticket(home, epoch, serial, victim).await;
        let stored = !self.options.read_back
            || matches!(self.cells.open_ticket(home, epoch).await, Ok(Some(read)) if read == (serial, victim));
        if done.is_err() || !stored {
            return Ok(false);
        }
        if !self.is_ordered() {
            self.cells.sync().await?;
        }
        self.gap = false;
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

    /// The first addresses of a range's units, or of its blocks for an erase, which was checked; and their length.
    fn places(
        &self,
        operation: FlashOperation,
        address: u64,
        len: u64,
    ) -> Result<(impl Iterator<Item = u64> + use<A, D, S, T, B>, u64), FlashError> {
        let geometry = self.cells.layout.geometry();
        geometry.check(operation, address, len)?;
        let step = match operation {
            FlashOperation::Erase => geometry.erase_size(),
            _ => geometry.prog_size(),
        };
        // cannot overflow: the range was found to lie on the medium.
        Ok(((address..address.saturating_add(len)).step_by(step as usize), step.into()))
    }
}

#[twin]
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

    async fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        let (places, step) = self.places(FlashOperation::Read, address, buf.len() as u64)?;
        self.settle().await;
        for (at, out) in places.zip(buf.chunks_mut(step as usize)) {
            let (block, unit) = self.cells.layout.place(at);
            self.read_one(block, unit, out)
                .await
                .map_err(|cause| FlashError::new(FlashOperation::Read, at, step, cause))?;
        }
        Ok(())
    }

    async fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        let (places, step) = self.places(FlashOperation::Prog, address, data.len() as u64)?;
        self.settle().await;
        for (at, payload) in places.zip(data.chunks(step as usize)) {
            let (block, unit) = self.cells.layout.place(at);
            self.prog_one(block, unit, at, Some(payload))
                .await
                .map_err(|cause| FlashError::new(FlashOperation::Prog, at, step, cause))?;
        }
        Ok(())
    }

    async fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        let (places, step) = self.places(FlashOperation::Erase, address, len)?;
        self.settle().await;
        for at in places {
            let (block, _) = self.cells.layout.place(at);
            self.erase_one(block)
                .await
                .map_err(|cause| FlashError::new(FlashOperation::Erase, at, step, cause))?;
        }
        Ok(())
    }

    /// Syncs the medium, and on every so many calls writes the trusted store, if anything has changed.
    async fn sync(&mut self) -> Result<(), FlashError> {
        let failed = |cause| FlashError::new(FlashOperation::Sync, 0, 0, cause);
        self.settle().await;
        // intended: at the last number every sync writes the store.
        self.syncs = self.syncs.saturating_add(1);
        if self.changed && (self.syncs >= self.options.anchor_every || !self.is_ordered()) {
            return self.write_record(false, None).await.map_err(failed);
        }
        self.cells.sync().await.map_err(failed)
    }

    /// What a unit reads as that can be programmed; what is programmed may read the same.
    fn erased_byte(&self) -> Option<u8> {
        Some(OPEN)
    }

    /// Whether all units of the range can be programmed, by what is in memory of their blocks: `scratch` is not used.
    async fn is_blank(&mut self, address: u64, len: u64, _scratch: &mut [u8]) -> Result<bool, FlashError> {
        let (places, _) = self.places(FlashOperation::BlankQuery, address, len)?;
        self.settle().await;
        let mut blank = true;
        for at in places {
            let (block, unit) = self.cells.layout.place(at);
            let state = self.state(block);
            blank &= self.is_open(&state) && unit >= state.fill();
        }
        Ok(blank)
    }
}
