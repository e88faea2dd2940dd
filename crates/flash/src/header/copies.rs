//! The two places of the header on a medium: reading them, and choosing between them.

use atrest_device::{FlashCause, FlashError, FlashGeometry, FlashOperation};
use atrest_keyslot::flash::{FlashSizes, HEADER_LEN, Header};

use super::{FlashDevice, twin};
use crate::header::{CopyState, FlashHeaderError, Found, HeaderNotOpened, newest, sizes_of};

/// A medium with places for two copies.
pub(super) struct Copies<D, B> {
    pub(super) device: D,
    pub(super) scratch: B,
    /// Whole prog units of it are used.
    pub(super) scratch_len: usize,
    pub(super) sizes: FlashSizes,
}

#[twin]
impl<D: FlashDevice, B: AsMut<[u8]>> Copies<D, B> {
    /// Looks whether the scratch buffer and the medium have room.
    pub(super) fn new(device: D, mut scratch: B) -> Result<Self, HeaderNotOpened<D, B>> {
        match check(device.geometry(), scratch.as_mut()) {
            Ok((scratch_len, sizes)) => Ok(Self { device, scratch, scratch_len, sizes }),
            Err(error) => Err(HeaderNotOpened { error, device, scratch, bytes: () }),
        }
    }

    /// What was passed, back.
    pub(super) fn not_opened(self, error: FlashHeaderError) -> HeaderNotOpened<D, B> {
        HeaderNotOpened { error, device: self.device, scratch: self.scratch, bytes: () }
    }

    pub(super) fn geometry(&self) -> FlashGeometry {
        self.device.geometry()
    }

    pub(super) fn into_device(self) -> D {
        self.device
    }

    /// First byte of a copy, 0 or 1. No overflow: both copies were found to lie on the medium.
    pub(super) fn start(&self, copy: usize) -> u64 {
        // cannot overflow: both copies were found to lie on the medium.
        self.copy_len().saturating_mul(copy as u64)
    }

    /// Bytes that belong to a copy.
    pub(super) fn copy_len(&self) -> u64 {
        // cannot overflow: both copies were found to lie on the medium.
        self.sizes.blocks_per_copy().saturating_mul(u64::from(self.sizes.erase_size))
    }

    /// Reads the newer whole copy into `bytes`. Gives its number and how both are.
    pub(super) async fn load(
        &mut self,
        bytes: &mut [u8; HEADER_LEN],
    ) -> Result<(usize, [CopyState; 2]), FlashHeaderError> {
        let found = [self.look(0, bytes).await, self.look(1, bytes).await];
        let current = newest(&found)?;
        // The second one is there already.
        if current == 0 {
            self.read(0, bytes).await?;
            Header::parse(bytes).map_err(FlashHeaderError::Header)?;
        }
        let newest = found.iter().filter_map(Found::sequence).max();
        let states = found.map(|found| match found {
            Found::Whole { sequence, .. } if Some(sequence) == newest => CopyState::Current,
            Found::Whole { .. } => CopyState::Outdated,
            Found::Bad(error) => CopyState::Bad(error),
            Found::Unreadable(_) => CopyState::Unreadable,
        });
        Ok((current, states))
    }

    pub(super) async fn look(&mut self, copy: usize, bytes: &mut [u8; HEADER_LEN]) -> Found {
        if let Err(error) = self.read(copy, bytes).await {
            return Found::Unreadable(error);
        }
        match Header::parse(bytes) {
            Ok(header) => Found::Whole { sequence: header.sequence(), uuid: header.params().uuid },
            Err(error) => Found::Bad(error),
        }
    }

    async fn read(&mut self, copy: usize, bytes: &mut [u8; HEADER_LEN]) -> Result<(), FlashError> {
        let start = self.start(copy);
        let prog = self.sizes.prog_size as usize;
        for (part, at) in bytes.chunks_mut(self.scratch_len).zip((start..).step_by(self.scratch_len)) {
            let units = room(&mut self.scratch, part.len().next_multiple_of(prog))?;
            self.device.read(at, units).await?;
            // The units have room for the part and for what is left of the last one.
            let (read, _) = units.split_at(part.len());
            part.copy_from_slice(read);
        }
        Ok(())
    }
}

/// The first bytes of the scratch buffer, which was found to have room.
pub(super) fn room<B: AsMut<[u8]>>(scratch: &mut B, len: usize) -> Result<&mut [u8], FlashError> {
    let has = scratch.as_mut().len() as u64;
    // intended: a number for the error message.
    let cause = FlashCause::BufferTooSmall { needs: u32::try_from(len).unwrap_or(u32::MAX), has };
    scratch.as_mut().get_mut(..len).ok_or(FlashError::new(FlashOperation::Read, 0, len as u64, cause))
}

/// How much of the scratch buffer is used, and the sizes of a medium with room for both copies.
fn check(geometry: FlashGeometry, scratch: &[u8]) -> Result<(usize, FlashSizes), FlashHeaderError> {
    let has = scratch.len();
    let prog = geometry.prog_size() as usize;
    // cannot underflow: a remainder is no more than the whole. No geometry has units of 0 bytes.
    let scratch_len = has.saturating_sub(has.checked_rem(prog).unwrap_or(has));
    if scratch_len == 0 {
        return Err(FlashHeaderError::ScratchTooSmall { needs: geometry.prog_size(), has });
    }
    let sizes = sizes_of(geometry);
    if sizes.block_count <= sizes.first_data_block() {
        let needs =
            // cannot overflow: a header takes a few blocks.
            sizes.first_data_block().saturating_add(1).saturating_mul(u64::from(sizes.erase_size));
        return Err(FlashHeaderError::CutInSize { needs, has: geometry.size() });
    }
    Ok((scratch_len, sizes))
}
