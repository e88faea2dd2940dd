//! Two pages of a controller's own flash, filled with records in turn.

use atrest_device::{
    FlashCause, FlashDevice, FlashError, TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError,
};

use super::frame::{self, FRAME_LEN};

/// A [`TrustedStore`] in the first two erase blocks of flash that nobody else can write, and that is durable in order: 48 bytes a
/// record, rounded up to prog units, one behind the other; when a page is full the other one is erased. `N` is at least
/// that many bytes, for one record.
///
/// With pages of 4 KiB that is one erase in 85 records.
#[derive(Debug)]
pub struct PageStore<D, const N: usize = FRAME_LEN> {
    flash: D,
    /// Sequence number of the newest whole record, and where the next goes: page and index in it.
    end: Option<(u32, u64, u32)>,
}

impl<D: FlashDevice, const N: usize> PageStore<D, N> {
    /// Reads nothing yet.
    pub fn new(flash: D) -> Result<Self, TrustedStoreError> {
        let store = Self { flash, end: None };
        let geometry = store.flash.geometry();
        let (stride, pages) = (store.stride(), geometry.block_count());
        if (N as u64) < u64::from(stride) {
            return Err(TrustedStoreError::TooSmall { needs: stride, has: N as u64 });
        }
        if store.per_page() == 0 || pages < 2 {
            let needs = stride.saturating_mul(2);
            return Err(TrustedStoreError::TooSmall { needs, has: geometry.size() });
        }
        Ok(store)
    }

    /// Gives the flash back.
    pub fn into_inner(self) -> D {
        self.flash
    }

    /// Bytes from one record to the next.
    fn stride(&self) -> u32 {
        let prog = self.flash.geometry().prog_size();
        (FRAME_LEN as u32).checked_next_multiple_of(prog).unwrap_or(u32::MAX)
    }

    fn per_page(&self) -> u32 {
        self.flash.geometry().erase_size().checked_div(self.stride()).unwrap_or(0)
    }

    fn address(&self, page: u64, index: u32) -> u64 {
        let start = page.saturating_mul(self.flash.geometry().erase_size().into());
        start.saturating_add(u64::from(index).saturating_mul(self.stride().into()))
    }

    /// Finds the newest record, and the blank place behind everything in its page.
    fn look(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        let (mut newest, mut used): (Option<(u32, u64, [u8; TRUSTED_RECORD_LEN])>, _) = (None, false);
        let mut free = [0, 0];
        for (page, free) in (0..2).zip(&mut free) {
            for index in 0..self.per_page() {
                let mut bytes = [0; N];
                let place = self.address(page, index);
                let cell = bytes.get_mut(..self.stride() as usize).unwrap_or_default();
                let readable = match self.flash.read(place, cell) {
                    Ok(()) => true,
                    // A torn record on flash with error-correcting words.
                    Err(FlashError { cause: FlashCause::Uncorrectable, .. }) => false,
                    Err(error) => return Err(super::failed(error)),
                };
                let erased = self.flash.erased_byte().unwrap_or(0xff);
                if readable && cell.iter().all(|byte| *byte == erased) {
                    continue;
                }
                (*free, used) = (index.saturating_add(1), true);
                let found = cell.first_chunk().filter(|_| readable).and_then(frame::split);
                if let Some((sequence, record)) = found
                    && newest.is_none_or(|(known, ..)| known < sequence)
                {
                    newest = Some((sequence, page, record));
                }
            }
        }
        let Some((sequence, page, record)) = newest else {
            // Pages that are not blank are erased first. A first record that was cut is none.
            self.end = Some(if used { (0, 1, u32::MAX) } else { (0, 0, 0) });
            let first = free.iter().all(|free| *free <= 1);
            return if used && !first { Err(TrustedStoreError::Damaged) } else { Ok(None) };
        };
        let [first, second] = free;
        self.end = Some((sequence, page, if page == 0 { first } else { second }));
        Ok(Some(record))
    }
}

impl<D: FlashDevice, const N: usize> TrustedStore for PageStore<D, N> {
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        self.look()
    }

    fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        if self.end.is_none() {
            match self.look() {
                Ok(_) | Err(TrustedStoreError::Damaged) => {}
                Err(error) => return Err(error),
            }
        }
        let Some((sequence, mut page, mut index)) = self.end.take() else {
            return Err(TrustedStoreError::Damaged);
        };
        let sequence = sequence.checked_add(1).ok_or(TrustedStoreError::WornOut)?;
        if index >= self.per_page() {
            (page, index) = (u64::from(page == 0), 0);
            let erase_size = self.flash.geometry().erase_size();
            self.flash.erase(self.address(page, 0), erase_size.into()).map_err(super::failed)?;
        }
        let mut bytes = [0; N];
        let frame = frame::join(record, sequence);
        bytes.iter_mut().zip(frame).for_each(|(to, from)| *to = from);
        let cell = bytes.get(..self.stride() as usize).unwrap_or_default();
        self.flash.prog(self.address(page, index), cell).map_err(super::failed)?;
        self.flash.sync().map_err(super::failed)?;
        self.end = Some((sequence, page, index.saturating_add(1)));
        Ok(())
    }
}
