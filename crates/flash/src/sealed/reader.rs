//! A sealed volume without its trusted store: read-only, and whatever was put back goes unnoticed.

use core::fmt;

use atrest_cipher::aead::Aead;
use atrest_device::{FlashCause, FlashError, FlashGeometry, FlashOperation};

use super::cells::Cells;
use super::device::CLOSED;
use super::error::SealedError;
use super::keys::SealedKey;
use super::mount::{blocks, cells, read_only};
use super::options::{SealedMedium, SealedOptions};
use super::scan;
use super::table::BlockState;
use super::verdict::Verdict;
use super::{FlashDevice, twin};

/// A [`FlashDevice`] that reads a sealed medium of which the trusted store is elsewhere, or lost.
///
/// Forged, moved and exchanged units are detected, units of different epochs of a block too. **Not** detected are a whole block of
/// an earlier time, units at the end of a block that are blank, and the whole medium put back. Programs and erases are refused:
/// without the store nobody knows which numbers have been used for sealing.
///
/// What a power loss has torn, and what was in a block before the volume was made, can't be told from what was changed: reading there, or
/// behind it in its block, fails with [`FlashCause::Tampered`], unless it is to be [taken for torn](Self::assuming_torn). A medium
/// that knows no blank units, such as a card, shows neither: there a broken unit at the end of a block goes
/// unnoticed, and a broken first one makes the block void.
pub struct SealedReader<A, D, T, B> {
    cells: Cells<A, D, B>,
    table: T,
    assume_torn: bool,
}

#[twin]
impl<A, D, T, B> SealedReader<A, D, T, B>
where
    A: Aead,
    D: FlashDevice,
    T: AsRef<[BlockState]> + AsMut<[BlockState]>,
    B: AsMut<[u8]>,
{
    /// Opens a volume, to be read only. Reads the whole medium.
    ///
    /// # Errors
    /// What [`format_over`](super::SealedFlash::format_over) refuses of what the caller passes, and
    /// [`SealedError::Medium`] if the medium fails. Units that do not verify are no error here; reading them
    /// is.
    pub async fn open_without_freshness(
        device: D,
        key: &SealedKey<'_>,
        options: SealedOptions,
        mut table: T,
        buffer: B,
    ) -> Result<Self, SealedError> {
        let mut cells = cells::<A, D, B>(device, key, &options, buffer)?;
        scan::clear(table.as_mut(), &cells.layout)?;
        for (block, state) in (0..blocks(&cells.layout)).zip(table.as_mut()) {
            *state = survey(&mut cells, block, options.medium).await.map_err(SealedError::Medium)?;
        }
        Ok(Self { cells, table, assume_torn: false })
    }

    /// From now on takes what does not verify, in the first unit of a block or behind the last one that does, for what a power loss has
    /// torn: as if it were not there. If it is something else, what is read may be older than what was stored last.
    pub fn assuming_torn(self) -> Self {
        Self { assume_torn: true, ..self }
    }

    /// Returns what stands in a unit of an erase block.
    ///
    /// # Errors
    /// [`FlashCause::OutOfBounds`] for a unit that the medium does not have, or the medium's own error. A
    /// unit that does not verify is a [`Verdict`].
    pub async fn verdict(&mut self, block: u32, unit: u32) -> Result<Verdict, FlashCause> {
        self.cells.layout.check_unit(block, unit)?;
        let state = self.state(block);
        if unit >= state.fill() {
            let tampered = state.is_unverified() && self.cells.is_programmed(block, unit).await?;
            return Ok(if tampered { Verdict::Tampered } else { Verdict::Absent });
        }
        let found = self.cells.open_repeatedly(block, unit, state.epoch()).await?;
        Ok(found.map_or(Verdict::Tampered, |serial| Verdict::Sealed { serial }))
    }

    /// Sizes and places.
    pub fn layout(&self) -> &super::SealedLayout {
        &self.cells.layout
    }

    /// The medium back.
    pub fn into_device(self) -> D {
        self.cells.device
    }

    /// What is known of a block of the medium: the table has an entry for each, which was checked.
    fn state(&self, block: u32) -> BlockState {
        self.table.as_ref().get(block as usize).copied().unwrap_or(BlockState::VOID)
    }

    async fn read_one(&mut self, block: u32, unit: u32, out: &mut [u8]) -> Result<(), FlashCause> {
        let state = self.state(block);
        if unit >= state.fill() {
            if state.is_unverified() && !self.assume_torn {
                // A unit was there. As void or closed it would send littlefs to older metadata.
                return Err(FlashCause::Tampered { block: block.into(), unit: state.fill() });
            }
            if state.fill() == 0 {
                return Err(FlashCause::Void { block: block.into() });
            }
            out.fill(CLOSED);
            return Ok(());
        }
        match self.cells.read_unit(block, unit, state.epoch(), out).await? {
            Some(_) => Ok(()),
            None => Err(FlashCause::Tampered { block: block.into(), unit }),
        }
    }
}

/// Epoch and units of a block, up to the last one that verifies, and whether something is behind it.
#[twin]
async fn survey<A: Aead, D: FlashDevice, B: AsMut<[u8]>>(
    cells: &mut Cells<A, D, B>,
    block: u32,
    medium: SealedMedium,
) -> Result<BlockState, FlashCause> {
    let mut state = BlockState::VOID;
    if let Some(epoch) = cells.open_first(block).await? {
        let mut fill = 1;
        for unit in 1..cells.layout.units() {
            if cells.open_unit(block, unit, epoch).await?.is_some() {
                // cannot overflow: units of a block are counted by 14 bits.
                fill = unit.saturating_add(1);
            }
        }
        state = BlockState::holding(epoch, fill);
    }
    while has_more(cells, block, state.fill(), medium).await? {
        // A marginal cell may read right the next time.
        let epoch = match state.fill() {
            0 => cells.open_first_repeatedly(block).await?,
            fill => cells.open_repeatedly(block, fill, state.epoch()).await?.map(|_| state.epoch()),
        };
        let Some(epoch) = epoch else {
            state.set_unverified(true);
            break;
        };
        // cannot overflow: units of a block are counted by 14 bits.
        state = BlockState::holding(epoch, state.fill().saturating_add(1));
    }
    Ok(state)
}

/// Whether something stands in a block from a unit on. No, if the medium can't tell: erasing a card leaves what was there.
#[twin]
async fn has_more<A: Aead, D: FlashDevice, B: AsMut<[u8]>>(
    cells: &mut Cells<A, D, B>,
    block: u32,
    unit: u32,
    medium: SealedMedium,
) -> Result<bool, FlashCause> {
    if medium == SealedMedium::Card {
        return Ok(false);
    }
    match cells.is_blank_from(block, unit).await {
        Ok(blank) => Ok(!blank),
        Err(FlashCause::Unsupported) => Ok(false),
        Err(FlashCause::BadBlock { .. }) => Ok(true),
        Err(cause) => Err(cause),
    }
}

#[twin]
impl<A, D, T, B> FlashDevice for SealedReader<A, D, T, B>
where
    A: Aead,
    D: FlashDevice,
    T: AsRef<[BlockState]> + AsMut<[BlockState]>,
    B: AsMut<[u8]>,
{
    fn geometry(&self) -> FlashGeometry {
        self.cells.layout.geometry()
    }

    async fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.geometry().check(FlashOperation::Read, address, buf.len() as u64)?;
        let step = self.cells.layout.payload() as usize;
        for (out, at) in buf.chunks_mut(step).zip((address..).step_by(step)) {
            let (block, unit) = self.cells.layout.place(at);
            self.read_one(block, unit, out)
                .await
                .map_err(|cause| FlashError::new(FlashOperation::Read, at, step as u64, cause))?;
        }
        Ok(())
    }

    async fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        Err(read_only(FlashOperation::Prog, address, data.len() as u64))
    }

    async fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        Err(read_only(FlashOperation::Erase, address, len))
    }

    async fn sync(&mut self) -> Result<(), FlashError> {
        Ok(())
    }

    /// Nothing can be programmed.
    async fn is_blank(&mut self, address: u64, len: u64, _scratch: &mut [u8]) -> Result<bool, FlashError> {
        self.geometry().check(FlashOperation::BlankQuery, address, len)?;
        Ok(false)
    }
}

impl<A, D, T, B> fmt::Debug for SealedReader<A, D, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedReader")
            .field("geometry", &self.cells.layout.geometry())
            .finish_non_exhaustive()
    }
}
