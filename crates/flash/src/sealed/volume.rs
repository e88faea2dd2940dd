//! An open sealed volume: what is in memory of it, how serials are given out, and how its state is anchored.

use core::fmt;

use atrest_cipher::aead::Aead;
use atrest_device::FlashCause;

use super::cells::Cells;
use super::header::AnchoredHeader;
use super::options::{SealedMedium, SealedOptions};
use super::record::{Record, Stamp, Stored};
use super::rotation::Rotation;
use super::serial::{self, SERIAL_END, Salt};
use super::slots::Slots;
use super::table::BlockState;
use super::{FlashDevice, TrustedStore, Unfinished, twin};

/// A [`FlashDevice`] on untrusted flash, whose contents nobody can change, move or put back without being found out.
///
/// `A` is the cipher, `D` the medium, `S` the trusted store, `T` a table of one [`BlockState`] for each erase block, `B` a
/// buffer of [`buffer_len`](super::SealedLayout::buffer_len) bytes. What is guaranteed, and what is not, is in docs/SEALED-FLASH.md.
///
/// Units are programmed from the first of a block on (one that is left out is programmed with 0xFF); reads and programs are of whole units. Reading a unit that was not programmed gives 0xFF
/// where it still can be, and zeros where not (no block is appended to that was begun before the volume was opened).
/// The first unit that is not what was stored ends all writing, unless the opening has left it unread (see
/// [`is_damaged`](Self::is_damaged)).
pub struct SealedFlash<A, D, S, T, B> {
    pub(crate) cells: Cells<A, D, B>,
    pub(crate) store: S,
    pub(crate) table: T,
    pub(crate) options: SealedOptions,
    /// Of all blocks with nothing in flight, as they were anchored or have become void since.
    pub(crate) sum: u128,
    /// The next serial.
    pub(crate) next: u64,
    /// The next serial when the record was written.
    pub(crate) anchor: u64,
    /// No serial from here on before the record is written again.
    pub(crate) limit: u64,
    /// Blocks of earlier epochs are not appended to.
    pub(crate) start: u64,
    /// Of this session: whatever it seals is under this.
    pub(crate) salt: Salt,
    /// What records say of the header.
    pub(crate) header: AnchoredHeader,
    /// The record says that there is nothing newer.
    pub(crate) clean: bool,
    /// Something has changed since the record was written.
    pub(crate) changed: bool,
    /// The record is written before the next serial is used: one was used for something that is not on the medium, or nobody knows
    /// what the record is.
    pub(crate) gap: bool,
    /// Tickets since the record was written.
    pub(crate) tickets: usize,
    pub(crate) slots: Slots,
    pub(crate) syncs: u32,
    pub(crate) tampered: bool,
    /// Units failed that the record confirms. The blocks with them are closed.
    pub(crate) damaged: bool,
    /// Blocks begun before the volume was opened have not been verified: the record has confirmed what stands in their cells.
    pub(crate) unread: bool,
    /// What a future has left that was dropped.
    pub(crate) unfinished: Unfinished,
    /// Of the volume key.
    pub(crate) rotation: Rotation,
}

/// Tickets in blocks between two writes of the record, at most.
pub(crate) const MOST_TICKETS: usize = 6;

#[twin]
impl<A, D, S, T, B> SealedFlash<A, D, S, T, B>
where
    A: Aead,
    D: FlashDevice,
    S: TrustedStore,
    T: AsRef<[BlockState]> + AsMut<[BlockState]>,
    B: AsMut<[u8]>,
{
    /// Syncs the medium and writes the trusted store: from now on nobody can undo what was written before.
    ///
    /// # Errors
    /// [`FlashCause::TrustedStore`] or the medium's own error: what was written before is then not anchored.
    /// [`FlashCause::WornOut`] if no serials are left, [`FlashCause::Stopped`] after tampering was found.
    pub async fn anchor(&mut self) -> Result<(), FlashCause> {
        self.settle().await;
        if self.changed || self.tampered {
            self.write_record(false, None).await
        } else {
            self.cells.sync().await
        }
    }

    /// Closes the volume before power is switched off: syncs the medium, and writes to the trusted store that nothing is
    /// newer. The next opening finds nothing in doubt. Blocks that were begun take no more units after it.
    ///
    /// # Errors
    /// Fails where [`anchor`](Self::anchor) does. The next opening then finds the volume as after a power
    /// loss.
    pub async fn close(&mut self) -> Result<(), FlashCause> {
        self.settle().await;
        if self.clean && !self.tampered {
            self.cells.sync().await
        } else {
            self.write_record(true, None).await
        }
    }

    /// The medium.
    pub fn device(&self) -> &D {
        &self.cells.device
    }

    /// Medium and store back, without [closing](Self::close).
    pub fn into_parts(self) -> (D, S) {
        (self.cells.device, self.store)
    }

    /// Power losses that the volume still survives with the `reserve` of these options, if nothing is written meanwhile. A volume that was
    /// used with a larger one is opened with a smaller one to live longer; serials that were skipped do not come back.
    pub fn power_losses_left(&self) -> u64 {
        // cannot be less than 0: records leave the last serials.
        SERIAL_END.saturating_sub(self.next).wrapping_shr(self.options.reserve_bits().into())
    }

    /// Sizes and places.
    pub fn layout(&self) -> &super::SealedLayout {
        &self.cells.layout
    }

    /// Whether a unit was found that is not what was stored, though it was when the volume was opened, or was programmed since. Nothing is
    /// written any more then.
    pub fn is_stopped(&self) -> bool {
        self.tampered
    }

    /// Whether units failed whose place and number the record confirms all the same. Reading one of them is
    /// [`Tampered`](FlashCause::Tampered) and stops nothing; blocks with such units take no more before they are erased.
    ///
    /// With [`Verify::AtOpening`](crate::sealed::Verify::AtOpening) they failed when the volume was opened. With
    /// [`Verify::OnRead`](crate::sealed::Verify::OnRead) they are units of blocks begun before that, and fail when they are first read.
    pub fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// Anchors the present state, and names the block that is erased next.
    pub(crate) async fn write_record(&mut self, clean: bool, victim: Option<u32>) -> Result<(), FlashCause> {
        if self.tampered {
            return Err(FlashCause::Stopped);
        }
        self.cells.sync().await?;
        // cannot overflow: serials are counted by 40 bits, and a reserve is 2^31 at most.
        let limit = self.next.saturating_add(1_u64.wrapping_shl(self.options.reserve_bits().into()));
        if limit >= SERIAL_END {
            return Err(FlashCause::WornOut);
        }
        // If the store is made to forget, a counter still says which serials can have been used: none behind those of its records.
        if let Some(records) = self.store.stored_at_most().await.map_err(FlashCause::TrustedStore)?
            // intended: a counter at its end allows no serials.
            && serial::unused_after(records.saturating_add(1)).is_none_or(|end| end < limit)
        {
            return Err(FlashCause::WornOut);
        }
        let mut sum = self.sum;
        for (block, state) in (0..).zip(self.table.as_ref()) {
            if state.is_in_flight() {
                sum = sum.wrapping_add(self.cells.keys.share(stamp(block, state)));
            }
        }
        let named = victim.map(|block| stamp(block, &self.state(block)));
        let record = Record {
            mark: self.cells.keys.mark,
            clean,
            cached: !self.is_ordered(),
            reserve: self.options.reserve_bits(),
            anchor: self.next,
            salt: self.salt,
            victim: named,
            rotation: self.rotation,
        };
        let tag = self.cells.keys.anchor(sum, &record.body());
        let stored = Stored { record, tag, header: self.header };
        // If this fails nobody knows whether it is what is anchored, and it may say that the volume was closed: nothing is changed before
        // something is anchored.
        self.gap = true;
        self.store.store(&stored.to_bytes()).await.map_err(FlashCause::TrustedStore)?;
        for state in self.table.as_mut() {
            state.set_in_flight(false);
        }
        self.sum = sum;
        (self.anchor, self.limit, self.clean) = (self.next, limit, clean);
        (self.changed, self.gap) = (victim.is_some(), false);
        (self.tickets, self.syncs) = (0, 0);
        Ok(())
    }

    /// Before the first change: a clean record becomes one that is not.
    pub(crate) async fn begin_change(&mut self) -> Result<(), FlashCause> {
        if self.is_halted() {
            return Err(FlashCause::Stopped);
        }
        if self.clean || self.gap {
            self.write_record(false, None).await?;
        }
        self.changed = true;
        Ok(())
    }

    /// Gives out a serial, once and for all.
    pub(crate) async fn serial(&mut self) -> Result<u64, FlashCause> {
        if self.next >= self.limit {
            self.write_record(false, None).await?;
            self.changed = true;
        }
        let serial = self.next;
        // cannot overflow: serials are counted by 40 bits.
        self.next = serial.saturating_add(1);
        Ok(serial)
    }

    /// Takes a block out of the sum until the next record, because something in it is about to change.
    pub(crate) fn take_out(&mut self, block: u32) {
        let state = self.state(block);
        if !state.is_in_flight() {
            self.sum = self.sum.wrapping_sub(self.cells.keys.share(stamp(block, &state)));
            if let Some(state) = self.state_mut(block) {
                state.set_in_flight(true);
            }
        }
    }

    /// What is known of a block. The table has an entry for each, which was checked.
    pub(crate) fn state(&self, block: u32) -> BlockState {
        self.table.as_ref().get(block as usize).copied().unwrap_or(BlockState::VOID)
    }

    pub(crate) fn state_mut(&mut self, block: u32) -> Option<&mut BlockState> {
        self.table.as_mut().get_mut(block as usize)
    }

    /// Whether a block takes more units before it is erased.
    pub(crate) fn is_open(&self, state: &BlockState) -> bool {
        !state.is_closed() && (state.fill() == 0 || state.epoch().serial >= self.start)
    }

    /// Whether nothing may be changed: after tampering, and while a block stands in the scratch.
    pub(crate) fn is_halted(&self) -> bool {
        self.tampered || self.rotation.moving().is_some()
    }

    pub(crate) fn is_ordered(&self) -> bool {
        self.options.medium == SealedMedium::Ordered
    }
}

pub(crate) fn stamp(block: u32, state: &BlockState) -> Stamp {
    Stamp { block, epoch: state.epoch(), fill: state.fill() }
}

impl<A, D, S, T, B> fmt::Debug for SealedFlash<A, D, S, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedFlash")
            .field("geometry", &self.cells.layout.geometry())
            .field("next", &self.next)
            .field("anchor", &self.anchor)
            .field("clean", &self.clean)
            .field("tampered", &self.tampered)
            .finish_non_exhaustive()
    }
}
