//! Pages of a controller's own flash, filled with records in turn.

use atrest_device::{TRUSTED_RECORD_LEN, TrustedStoreError};

use super::log::{Contents, Log};
use super::{FlashDevice, TrustedStore, twin};
use crate::sealed::frame::{self, FRAME_LEN};

/// A [`TrustedStore`] in all erase blocks, two at least, of flash that nobody else can write, and that is durable in order: 88 bytes a
/// record, rounded up to prog units, one behind the other; when a page is full the next one is erased. `N` is at least
/// that many bytes, for one record. What can't be written in one place goes to another; it takes three pages to survive that one goes bad.
///
/// With two pages of 4 KiB that is one erase in 46 records.
#[derive(Debug)]
pub struct PageStore<D, const N: usize = FRAME_LEN> {
    flash: Log<D, N>,
    /// Page of the newest whole record, if there is one; none at all before the pages were read.
    home: Option<Option<u64>>,
    /// The highest sequence number that was found or written.
    sequence: u32,
}

impl<D: FlashDevice, const N: usize> PageStore<D, N> {
    /// Reads nothing yet.
    ///
    /// # Errors
    /// [`TrustedStoreError::TooSmall`] if `flash` has fewer than two pages or none that holds a record, or if
    /// `N` is too small.
    pub fn new(flash: D) -> Result<Self, TrustedStoreError> {
        Ok(Self { flash: Log::new(flash, FRAME_LEN)?, home: None, sequence: 0 })
    }

    /// Gives the flash back.
    pub fn into_inner(self) -> D {
        self.flash.into_device()
    }
}

#[twin]
impl<D: FlashDevice, const N: usize> TrustedStore for PageStore<D, N> {
    async fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        let mut newest: Option<(u32, [u8; TRUSTED_RECORD_LEN])> = None;
        let contents = self
            .flash
            .look(|cell| {
                let found = cell.first_chunk().and_then(frame::split);
                let newer = found.filter(|(sequence, _)| newest.is_none_or(|(known, _)| known < *sequence));
                newest = newer.or(newest);
                newer.is_some()
            })
            .await?;
        let home = if let Contents::Found(page) = contents { Some(page) } else { None };
        self.home = Some(home);
        // A write that failed may be read later: its number is not used again.
        self.sequence = newest.map_or(0, |(sequence, _)| sequence).max(self.sequence);
        match contents {
            Contents::Other => Err(TrustedStoreError::Damaged),
            Contents::Found(_) | Contents::Nothing => Ok(newest.map(|(_, record)| record)),
        }
    }

    async fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        if self.home.is_none() {
            match self.load().await {
                Ok(_) | Err(TrustedStoreError::Damaged) => {}
                Err(error) => return Err(error),
            }
        }
        let home = self.home.take().flatten();
        self.sequence = self.sequence.checked_add(1).ok_or(TrustedStoreError::WornOut)?;
        let page = self.flash.append(&frame::join(record, self.sequence), home).await?;
        self.home = Some(Some(page));
        Ok(())
    }
}
