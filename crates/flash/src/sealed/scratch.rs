//! A medium with a scratch beside it, where a block stands while its own place is written anew.

use core::fmt;

use atrest_device::{FlashCause, FlashError, FlashGeometry, FlashOperation};

use super::error::SealedError;
use super::{FlashDevice, twin};

/// The medium of a volume whose key is rotated: `D`, and a scratch `C` of one erase block or more. What stands in the scratch is
/// sealed, and anybody may read and write it.
pub struct WithScratch<D, C> {
    pub(crate) device: D,
    scratch: C,
    /// Bytes of the scratch that a block of the medium takes, and how many such places there are.
    place_len: u32,
    places: u32,
    /// The block that is read from the scratch.
    pub(crate) moved: Option<u32>,
    /// Where the next step of the rotation looks for a block to move.
    pub(crate) next: u32,
}

impl<D: FlashDevice, C: FlashDevice> WithScratch<D, C> {
    /// A block goes to the place of the scratch that has its number, modulo their count: so they wear alike.
    ///
    /// # Errors
    /// [`SealedError::Scratch`] if the scratch has no room for an erase block of the medium, or reads and programs other units:
    /// those of the medium have to be multiples of its.
    pub fn new(device: D, scratch: C) -> Result<Self, SealedError> {
        let (medium, beside) = (device.geometry(), scratch.geometry());
        let goes_into = |part: u32, whole: u32| whole.is_multiple_of(part);
        let place_len = beside.erase_size().max(medium.erase_size());
        let fits = goes_into(beside.read_size(), medium.read_size())
            && goes_into(beside.prog_size(), medium.prog_size())
            && goes_into(beside.erase_size(), place_len);
        // No size of a geometry is 0.
        let places = beside.size().checked_div(place_len.into()).filter(|_| fits);
        match places.filter(|places| *places > 0) {
            None => Err(SealedError::Scratch),
            Some(places) => {
                // intended: more places than blocks that 32 bits number are of no use.
                let places = u32::try_from(places).unwrap_or(u32::MAX);
                Ok(Self { device, scratch, place_len, places, moved: None, next: 0 })
            }
        }
    }

    /// Medium and scratch back.
    pub fn into_parts(self) -> (D, C) {
        (self.device, self.scratch)
    }

    /// Where a byte of a block stands in the scratch.
    fn place(&self, block: u32, byte: u64) -> u64 {
        // cannot overflow: a place lies in the scratch, whose bytes 64 bits count.
        // cannot be missing: there is a place.
        let place = u64::from(block.checked_rem(self.places).unwrap_or(0));
        place.saturating_mul(self.place_len.into()).saturating_add(byte)
    }

    /// Block of the medium, and byte in it.
    fn of(&self, address: u64) -> (u64, u64) {
        let erase = u64::from(self.device.geometry().erase_size());
        // cannot be missing: no size of a geometry is 0.
        (address.checked_div(erase).unwrap_or(0), address.checked_rem(erase).unwrap_or(0))
    }
}

#[twin]
impl<D: FlashDevice, C: FlashDevice> WithScratch<D, C> {
    /// Makes the place of a block blank.
    pub(crate) async fn clear(&mut self, block: u32) -> Result<(), FlashCause> {
        let place = self.place(block, 0);
        self.scratch.erase(place, self.place_len.into()).await.map_err(|error| error.cause)
    }

    /// Programs a part of a block, from this address of the medium on, in the block's place.
    pub(crate) async fn keep(&mut self, block: u32, address: u64, data: &[u8]) -> Result<(), FlashCause> {
        let place = self.place(block, self.of(address).1);
        self.scratch.prog(place, data).await.map_err(|error| error.cause)
    }

    pub(crate) async fn sync_scratch(&mut self) -> Result<(), FlashCause> {
        self.scratch.sync().await.map_err(|error| error.cause)
    }
}

#[twin]
impl<D: FlashDevice, C: FlashDevice> FlashDevice for WithScratch<D, C> {
    fn geometry(&self) -> FlashGeometry {
        self.device.geometry()
    }

    /// Ranges do not reach over the end of a block that stands in the scratch.
    async fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.geometry().check(FlashOperation::Read, address, buf.len() as u64)?;
        let (block, byte) = self.of(address);
        match self.moved {
            Some(moved) if u64::from(moved) == block => {
                let place = self.place(moved, byte);
                self.scratch.read(place, buf).await
            }
            _ => self.device.read(address, buf).await,
        }
    }

    async fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.device.prog(address, data).await
    }

    async fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.device.erase(address, len).await
    }

    async fn sync(&mut self) -> Result<(), FlashError> {
        self.device.sync().await
    }

    fn erased_byte(&self) -> Option<u8> {
        self.device.erased_byte()
    }

    async fn is_blank(&mut self, address: u64, len: u64, scratch: &mut [u8]) -> Result<bool, FlashError> {
        self.device.is_blank(address, len, scratch).await
    }
}

impl<D, C> fmt::Debug for WithScratch<D, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithScratch").field("moved", &self.moved).finish_non_exhaustive()
    }
}
