//! A new volume key for a volume in use. docs/SEALED-FLASH.md, "Rotating the volume key", has why no moment of it loses anything.
//!
//! A rotation begins with one record, under the new key. From then on whatever is begun is under that key; the blocks that stand are
//! moved, one in a step. A moved block is sealed once, into the scratch, and then copied byte by byte to its own place.

use atrest_cipher::aead::Aead;
use atrest_device::FlashCause;
use atrest_secret::{Random, constant_time_eq};

use super::cells::{Cells, Sealing, UNIT, associated};
use super::error::{NotOpened, SealedError};
use super::keys::{Keys, SealedKey};
use super::mount::{blocks, failed};
use super::options::{SealedMedium, SealedOptions};
use super::record::{Stamp, Stored};
use super::rotation::{Rotation, RotationError, RotationKeys, RotationProgress};
use super::scratch::WithScratch;
use super::serial::Epoch;
use super::table::BlockState;
use super::two_keys::TwoKeys;
use super::volume::{SealedFlash, stamp};
use super::{FlashDevice, TrustedStore, twin};

/// A sealed volume whose key is rotated, on a medium with a scratch. It is used as any [`SealedFlash`].
pub type RotatingFlash<A, D, C, S, T, B> = SealedFlash<TwoKeys<A>, WithScratch<D, C>, S, T, B>;

#[twin]
impl<A, D, C, S, T, B> RotatingFlash<A, D, C, S, T, B>
where
    A: Aead,
    D: FlashDevice,
    C: FlashDevice,
    S: TrustedStore,
    T: AsRef<[BlockState]> + AsMut<[BlockState]>,
    B: AsMut<[u8]>,
{
    /// Opens a volume to rotate its key, or goes on with a rotation: after a power loss, or after [`close`](Self::close). The rest is
    /// as in [`try_mount`](Self::try_mount).
    ///
    /// The rotation begins when this returns for the first time. From then on the volume opens with both keys only, until
    /// [`finish_rotation`](Self::finish_rotation) has returned; so both are kept somewhere before this is called. What is written
    /// from now on is under the new key. [`rotate_step`](Self::rotate_step) does the rest. If the rotation was finished before, nothing is
    /// left to do.
    ///
    /// # Errors
    /// [`SealedError::NotNewKey`] if the new key is the old one or has another length. Otherwise it fails where
    /// [`mount`](Self::mount) does.
    pub async fn open_rotating(
        device: WithScratch<D, C>,
        store: S,
        keys: &RotationKeys<'_>,
        options: SealedOptions,
        table: T,
        buffer: B,
        random: &mut dyn Random,
    ) -> Result<Self, NotOpened<WithScratch<D, C>, S, T, B>> {
        let mut volume = Self::lent((device, store, table, buffer), &keys.key, options, random)?;
        match volume.open_with_both(keys).await {
            Ok(()) => Ok(volume),
            Err(error) => Err(volume.not_opened(error)),
        }
    }

    async fn open_with_both(&mut self, keys: &RotationKeys<'_>) -> Result<(), SealedError> {
        let RotationKeys { key, previous } = keys;
        if previous.len() != key.volume_key.len() || constant_time_eq(previous, key.volume_key) {
            return Err(SealedError::NotNewKey);
        }
        let old = SealedKey { volume_key: previous, ..*key };
        if !old.is_filled_in() {
            return Err(SealedError::NoKey);
        }
        let old = Keys::<A>::derive(&old, &self.cells.layout).map_err(SealedError::Key)?;
        let stored = self.store.load().await.map_err(SealedError::Store)?.ok_or(SealedError::StoreEmpty)?;
        let mark = *Stored::mark(&stored);
        let (is_new, is_old) = (mark == self.cells.keys.mark, mark == old.mark);
        if !is_new && !is_old {
            return Err(SealedError::OtherVolume);
        }
        let rotation = Stored::from_bytes(&stored)?.record.rotation;
        if rotation.from != 0 {
            if !is_new {
                return Err(SealedError::Rotating);
            }
            return self.go_on(key, old, rotation).await;
        }
        if is_new {
            // Finished before. One mark in 2^16 is that of both keys, and says nothing then.
            match self.mount_lent(key).await {
                Err(_) if is_old => {}
                done => return done,
            }
        }
        self.begin(key, old).await
    }

    /// Opens a volume under its old key, and begins the rotation.
    async fn begin(&mut self, key: &SealedKey<'_>, old: Keys<A>) -> Result<(), SealedError> {
        let (cipher, mut other) = old.into_parts();
        self.cells.keys.exchange(&mut other);
        (self.cells.keys.cipher.old, self.cells.keys.cipher.from) = (Some(cipher), u64::MAX);
        self.mount_lent(key).await?;
        // Nothing was programmed since, so all blocks are of before and take no more, and no slot of theirs a ticket.
        let from = self.next;
        self.cells.keys.exchange(&mut other);
        self.cells.keys.cipher.from = from;
        self.cells.keys.rotation = other.rotated(from);
        self.rotation = Rotation { from, moving: None };
        self.sum_up();
        self.write_record(false, None).await.map_err(failed)
    }

    /// Opens a volume in the middle of a rotation, and finishes the step that was cut.
    async fn go_on(
        &mut self,
        key: &SealedKey<'_>,
        old: Keys<A>,
        rotation: Rotation,
    ) -> Result<(), SealedError> {
        self.cells.keys.rotation = old.rotated(rotation.from);
        let (old, _) = old.into_parts();
        (self.cells.keys.cipher.old, self.cells.keys.cipher.from) = (Some(old), rotation.from);
        self.rotation = rotation;
        self.cells.device.moved = rotation.moving.map(|stamp| stamp.block);
        self.mount_lent(key).await?;
        // If its place can't be written, the block is read from the scratch.
        let _ = self.finish_move().await;
        Ok(())
    }

    /// How far the rotation has come.
    pub fn rotation(&self) -> RotationProgress {
        let left = (0..blocks(&self.cells.layout)).filter(|block| self.is_left(*block)).count();
        RotationProgress {
            // cannot be cut: 32 bits count the blocks.
            left: left as u32,
            blocks: blocks(&self.cells.layout),
            in_scratch: self.rotation.moving.map(|stamp| stamp.block),
        }
    }

    /// Moves one block to the new key: two writes of the store, an erase of the scratch, and one of the block. Call it between other uses
    /// of the volume until nothing is [`left`](RotationProgress::left). Blocks that are erased anyway need no step.
    ///
    /// A block with a unit that fails can't be moved. It stays under the old key until somebody erases it; the steps go on behind it, and
    /// begin anew after the last block. If the future is dropped, the next step goes on where it was; nothing but steps changes
    /// the volume until then.
    ///
    /// # Errors
    /// [`RotationError::Volume`] or [`RotationError::Scratch`] if one of them fails.
    pub async fn rotate_step(&mut self) -> Result<RotationProgress, RotationError> {
        self.settle().await;
        self.finish_move().await?;
        let after = |from: u32| (from..blocks(&self.cells.layout)).find(|block| self.is_left(*block));
        if let Some(block) = after(self.cells.device.next).or_else(|| after(0)) {
            // cannot overflow: 32 bits count the blocks.
            self.cells.device.next = block.saturating_add(1);
            self.move_block(block).await?;
        }
        Ok(self.rotation())
    }

    /// Ends the rotation: from now on the new key alone opens the volume, and the old one is wiped here. The caller then forgets it as well.
    /// One write of the store.
    ///
    /// # Errors
    /// [`RotationError::Left`] if blocks are still under the old key. [`RotationError::Volume`] if the record can't be written: both
    /// keys are still needed then.
    pub async fn finish_rotation(&mut self) -> Result<(), RotationError> {
        self.settle().await;
        self.finish_move().await?;
        let left = self.rotation().left;
        if left > 0 {
            return Err(RotationError::Left { blocks: left });
        }
        if core::mem::take(&mut self.rotation).from != 0 {
            // Until a record is known to say so.
            (self.changed, self.gap) = (true, true);
            self.cells.keys.rotation = 0;
        }
        if self.gap {
            self.write_record(false, None).await.map_err(RotationError::Volume)?;
        }
        self.cells.keys.cipher.old = None;
        Ok(())
    }

    /// Whether a block holds something under the old key.
    fn is_left(&self, block: u32) -> bool {
        let state = self.state(block);
        state.fill() > 0 && state.epoch().serial < self.rotation.from
    }

    /// Seals what a block holds under the new key in the scratch, has the record name that, and copies it to the block's own place.
    async fn move_block(&mut self, block: u32) -> Result<(), RotationError> {
        self.begin_change().await.map_err(RotationError::Volume)?;
        let old = self.state(block);
        self.cells.device.clear(block).await.map_err(RotationError::Scratch)?;
        let mut new = BlockState::ERASED;
        for unit in 0..old.fill() {
            let serial = self.serial().await.map_err(RotationError::Volume)?;
            // Used for something that is not on the medium.
            self.gap = true;
            new.append(serial, self.salt);
            match self.cells.reseal(block, unit, old.epoch(), new.epoch(), serial).await {
                Err(RotationError::Volume(FlashCause::Tampered { .. })) => {
                    self.note_failed(block);
                    return Err(RotationError::Volume(FlashCause::Tampered { block: block.into(), unit }));
                }
                done => done?,
            }
        }
        self.cells.device.sync_scratch().await.map_err(RotationError::Scratch)?;
        if !self.stands_in_scratch(block, &new).await {
            return Err(RotationError::Scratch(FlashCause::Uncorrectable));
        }
        // As before it takes no more units: to a file system nothing has changed.
        new.close();
        // Memory first. Until the record is known to name the scratch, the block's own place is not touched.
        self.take_out(block);
        new.set_in_flight(true);
        if let Some(state) = self.state_mut(block) {
            *state = new;
        }
        self.rotation.moving = Some(stamp(block, &new));
        self.cells.device.moved = Some(block);
        self.write_record(false, None).await.map_err(RotationError::Volume)?;
        self.finish_move().await
    }

    /// Whether all units of a block verify in the scratch.
    async fn stands_in_scratch(&mut self, block: u32, state: &BlockState) -> bool {
        let look = Look::new(&mut self.cells, Some(block));
        look.cells.count(block, state.epoch(), state.fill()).await == state.fill()
    }

    /// Copies the block that stands in the scratch to its own place, and has the record name that. Does nothing if there is none.
    async fn finish_move(&mut self) -> Result<(), RotationError> {
        let Some(moving) = self.rotation.moving else { return Ok(()) };
        if self.tampered {
            return Err(RotationError::Volume(FlashCause::Stopped));
        }
        // Perhaps the record still names the block's own place.
        if self.gap {
            self.write_record(false, None).await.map_err(RotationError::Volume)?;
        }
        self.cells.copy_back(moving, self.options.medium).await.map_err(RotationError::Volume)?;
        // Memory first: the scratch is not touched before a record is written that does not name it.
        (self.rotation.moving, self.changed, self.gap) = (None, true, true);
        self.write_record(false, None).await.map_err(RotationError::Volume)
    }
}

/// A look at one of the two places of a block. Whatever comes of it, and if its future is dropped, blocks are read afterwards where they
/// were before.
struct Look<'a, A, D, C, B> {
    cells: &'a mut Cells<A, WithScratch<D, C>, B>,
    before: Option<u32>,
}

impl<'a, A, D, C, B> Look<'a, A, D, C, B> {
    fn new(cells: &'a mut Cells<A, WithScratch<D, C>, B>, moved: Option<u32>) -> Self {
        let before = core::mem::replace(&mut cells.device.moved, moved);
        Self { cells, before }
    }
}

impl<A, D, C, B> Drop for Look<'_, A, D, C, B> {
    fn drop(&mut self) {
        self.cells.device.moved = self.before;
    }
}

#[twin]
impl<A: Aead, D: FlashDevice, C: FlashDevice, B: AsMut<[u8]>> Cells<TwoKeys<A>, WithScratch<D, C>, B> {
    /// Opens a unit and seals it under another epoch, into the scratch.
    async fn reseal(
        &mut self,
        block: u32,
        unit: u32,
        old: Epoch,
        new: Epoch,
        serial: u64,
    ) -> Result<(), RotationError> {
        if self.open_repeatedly(block, unit, old).await.map_err(RotationError::Volume)?.is_none() {
            let block = block.into();
            return Err(RotationError::Volume(FlashCause::Tampered { block, unit }));
        }
        let sealing = Sealing { serial, salt: new.salt, associated: associated(UNIT, block, unit, new) };
        let (address, len) = (self.layout.unit_address(block, unit), self.layout.unit_len(unit));
        let payload = self.layout.payload() as usize;
        self.seal(len, &sealing, payload, unit == 0).map_err(RotationError::Volume)?;
        let (device, buffer) = self.device_and_buffer();
        // intended: the buffer has room for a unit; less would not verify.
        let cell = buffer.get(..len as usize).unwrap_or_default();
        device.keep(block, address, cell).await.map_err(RotationError::Scratch)
    }

    /// Erases the place of a block that stands in the scratch, and copies it there. Afterwards it is read from there, unless that failed.
    async fn copy_back(&mut self, block: Stamp, medium: SealedMedium) -> Result<(), FlashCause> {
        let number = block.block;
        self.device.moved = Some(number);
        if medium != SealedMedium::Card {
            self.erase(number).await?;
        }
        for unit in 0..block.fill {
            let (address, len) = (self.layout.unit_address(number, unit), self.layout.unit_len(unit));
            if self.read_bytes(address, len).await?.is_none() {
                return Err(FlashCause::Uncorrectable);
            }
            let (device, buffer) = self.device_and_buffer();
            // intended: the buffer has room for a unit; less would not verify.
            let cell = buffer.get(..len as usize).unwrap_or_default();
            device.device.prog(address, cell).await.map_err(|error| error.cause)?;
        }
        let look = Look::new(self, None);
        let found = look.cells.count(number, block.epoch, block.fill).await;
        drop(look);
        if found != block.fill {
            return Err(FlashCause::BadBlock { block: number.into() });
        }
        self.device.moved = None;
        Ok(())
    }
}
