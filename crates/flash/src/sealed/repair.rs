//! What is left of a damaged volume: which units fail, what one wrong bit has spoilt, and, if its owner says so, a new anchor over what
//! the medium holds.

use atrest_cipher::aead::Aead;
use atrest_device::FlashCause;
use atrest_secret::Random;

use super::error::SealedError;
use super::header::AnchoredHeader;
use super::keys::SealedKey;
use super::mount::cells;
use super::options::SealedOptions;
use super::scan::Scan;
use super::table::BlockState;
use super::verdict::UnitState;
use super::volume::SealedFlash;
use super::{FlashDevice, TrustedStore, twin};

#[twin]
impl<A, D, S, T, B> SealedFlash<A, D, S, T, B>
where
    A: Aead,
    D: FlashDevice,
    S: TrustedStore,
    T: AsRef<[BlockState]> + AsMut<[BlockState]>,
    B: AsMut<[u8]>,
{
    /// Returns what stands in a unit. Nothing is stopped by one that fails.
    ///
    /// A unit that fails is opened as many times as it has bits.
    ///
    /// # Errors
    /// [`FlashCause::OutOfBounds`] for a unit that the medium does not have, or the medium's own error.
    pub async fn unit_state(&mut self, block: u32, unit: u32) -> Result<UnitState, FlashCause> {
        self.settle().await;
        self.cells.layout.check_unit(block, unit)?;
        let state = self.state(block);
        if unit >= state.fill() {
            return Ok(UnitState::Absent);
        }
        let epoch = state.epoch();
        if self.cells.open_repeatedly(block, unit, epoch).await?.is_some() {
            let salt = if unit == 0 { self.cells.wrong_salt_bit(block, epoch).await? } else { None };
            return Ok(salt.map_or(UnitState::Whole, |bit| UnitState::OneBit { bit }));
        }
        let found = self.cells.correct_unit(block, unit, epoch, self.next).await?;
        Ok(found.map_or(UnitState::Failed, |found| UnitState::OneBit { bit: found.bit }))
    }

    /// Reads a unit that fails, with one bit put right. False, and nothing in `out`, if that is not enough.
    ///
    /// What is read is what was stored: the unit's tag says so. The medium stays as it is.
    ///
    /// # Errors
    /// [`FlashCause::OutOfBounds`] for a unit that the medium does not have, and with the length of a unit's
    /// content if `out` is longer; or the medium's own error. `out` is unchanged then.
    pub async fn correct(&mut self, block: u32, unit: u32, out: &mut [u8]) -> Result<bool, FlashCause> {
        self.settle().await;
        self.cells.layout.check_unit(block, unit)?;
        let payload = self.cells.layout.payload();
        if out.len() as u64 > u64::from(payload) {
            return Err(FlashCause::OutOfBounds { size: payload.into() });
        }
        let state = self.state(block);
        if unit >= state.fill()
            || self.cells.correct_unit(block, unit, state.epoch(), self.next).await?.is_none()
        {
            return Ok(false);
        }
        match self.cells.buffer().get(..out.len()) {
            Some(payload) => out.copy_from_slice(payload),
            // Cannot be: the buffer has room for a unit.
            None => return Err(FlashCause::OutOfBounds { size: payload.into() }),
        }
        Ok(true)
    }

    /// Opens a volume that its store does not confirm, and anchors what the medium holds, as far as it verifies.
    ///
    /// The owner gives up the question whether it is what was stored last: blocks may be from earlier times, or cut short, and a file system
    /// may show older data without a word. Units that fail between others stay [`Tampered`](FlashCause::Tampered). Serials go on
    /// behind all that the record allows, so none seals twice.
    ///
    /// # Errors
    /// [`SealedError::StoreEmpty`], [`SealedError::OtherVolume`] or [`SealedError::StoreOlder`]: nobody knows
    /// then which serials were used. Otherwise it fails where [`mount`](Self::mount) does, but for what it is
    /// to overlook.
    pub async fn adopt(
        device: D,
        store: S,
        key: &SealedKey<'_>,
        options: SealedOptions,
        table: T,
        buffer: B,
        random: &mut dyn Random,
    ) -> Result<Self, SealedError> {
        let cells = cells(device, key, &options, buffer)?;
        let mut volume = Self::closed(cells, store, table, options, random)?;
        let records = volume.records().await?;
        let record = volume.load().await?.record;
        volume.header = AnchoredHeader::settled(key.header)?;
        record.check_counter(records)?;
        let mut scan = Scan::to_adopt(&record);
        scan.read(&mut volume.cells, volume.table.as_mut()).await?;
        if let Err(error @ SealedError::StoreOlder { .. }) = scan.check_serials() {
            return Err(error);
        }
        volume.damaged = true;
        volume.recover(scan.limit, None).await?;
        Ok(volume)
    }
}
