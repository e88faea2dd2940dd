//! The header of a medium: reading it, and unlocking with it.

use core::borrow::BorrowMut;
use core::fmt;

use atrest_keyslot::flash::{
    Derive, Derived, DeviceSecret, FlashKey, HEADER_LEN, Header, SLOTS, SlotError, check_passphrase,
    open_slot,
};

use super::copies::Copies;
use super::{FlashDevice, FlashRegion, twin};
use crate::header::{CopyState, FlashHeaderError, FoundHeader, HeaderMark, HeaderNotOpened};

/// The header of a medium, read and checked.
///
/// `scratch` has room for a prog unit of the medium at least; what passes through it is no secret. The header itself is kept in `H`: in
/// here, 512 bytes, or in memory that the program lends ([`FlashHeader::open_in`]).
pub struct FlashHeader<D, B, H = [u8; HEADER_LEN]> {
    pub(super) copies: Copies<D, B>,
    pub(super) bytes: H,
    /// The copy from which `bytes` were read, and how both are.
    pub(super) current: usize,
    pub(super) states: [CopyState; 2],
    /// False after a change that failed half-way: what is in `bytes` is perhaps not what is on the medium.
    pub(super) in_step: bool,
}

#[twin]
impl<D: FlashDevice, B: AsMut<[u8]>> FlashHeader<D, B> {
    /// Reads both copies and takes the newer one that is whole. Nothing is written, whatever they are like.
    ///
    /// # Errors
    /// Fails where [`open_in`](FlashHeader::open_in) does.
    pub async fn open(device: D, scratch: B) -> Result<Self, FlashHeaderError> {
        Self::open_in(device, scratch, [0; HEADER_LEN]).await
    }

    /// Opens as [`open`](FlashHeader::open) does. If that fails, everything that was passed comes back.
    ///
    /// # Errors
    /// [`HeaderNotOpened`], with the error of [`open`](FlashHeader::open).
    pub async fn try_open(device: D, scratch: B) -> Result<Self, HeaderNotOpened<D, B>> {
        let opened = Self::try_open_in(device, scratch, [0; HEADER_LEN]).await;
        opened.map_err(|not_opened| not_opened.with_bytes(()))
    }
}

#[twin]
impl<D: FlashDevice, B: AsMut<[u8]>, H: BorrowMut<[u8; HEADER_LEN]>> FlashHeader<D, B, H> {
    /// Reads both copies and takes the newer one that is whole, otherwise like [`open`](FlashHeader::open). The header is
    /// kept in memory that the program lends, and can use for something else once the data is reached. What is moved about
    /// on the stack is then small.
    ///
    /// # Errors
    /// [`FlashHeaderError::Header`] if no copy is a header, or if one is refused beside another.
    /// [`FlashHeaderError::CopiesDisagree`] if the copies are of different volumes.
    /// [`FlashHeaderError::OtherGeometry`] or [`FlashHeaderError::CutInSize`] if the header was made for
    /// another medium, [`FlashHeaderError::ScratchTooSmall`] if `scratch` has no room,
    /// [`FlashHeaderError::Flash`] if the medium fails.
    pub async fn open_in(device: D, scratch: B, bytes: H) -> Result<Self, FlashHeaderError> {
        Self::try_open_in(device, scratch, bytes).await.map_err(FlashHeaderError::from)
    }

    /// Opens as [`open_in`](FlashHeader::open_in) does. If that fails, everything that was passed comes back.
    ///
    /// # Errors
    /// [`HeaderNotOpened`], with the error of [`open_in`](FlashHeader::open_in).
    pub async fn try_open_in(device: D, scratch: B, mut bytes: H) -> Result<Self, HeaderNotOpened<D, B, H>> {
        let mut copies = match Copies::new(device, scratch) {
            Ok(copies) => copies,
            Err(not_opened) => return Err(not_opened.with_bytes(bytes)),
        };
        let (current, states) = match copies.load(bytes.borrow_mut()).await {
            Ok(found) => found,
            Err(error) => return Err(copies.not_opened(error).with_bytes(bytes)),
        };
        let header = Self { copies, bytes, current, states, in_step: true };
        match header.check_geometry() {
            Ok(()) => Ok(header),
            Err(error) => Err(header.copies.not_opened(error).with_bytes(header.bytes)),
        }
    }

    /// What it says.
    ///
    /// # Errors
    /// [`FlashHeaderError::Reopen`] if an earlier change failed: memory and medium may differ.
    pub fn header(&self) -> Result<Header<'_>, FlashHeaderError> {
        if !self.in_step {
            return Err(FlashHeaderError::Reopen);
        }
        Header::parse(self.bytes.borrow()).map_err(FlashHeaderError::Header)
    }

    /// What names it, for a sealed volume: its trusted store says whether this is the newest.
    ///
    /// # Errors
    /// [`FlashHeaderError::Reopen`], as in [`header`](Self::header).
    pub fn found(&self) -> Result<FoundHeader, FlashHeaderError> {
        let _in_step = self.header()?;
        let mark = HeaderMark::of(self.bytes.borrow()).map_err(FlashHeaderError::Header)?;
        Ok(FoundHeader { mark, in_both: self.states == [CopyState::Current; 2] })
    }

    /// How the two copies are. Reading never repairs: [`FlashHeader::repair`](crate::FlashHeader::repair) does, and every change.
    pub fn copy_states(&self) -> [CopyState; 2] {
        self.states
    }

    /// Unlocks with a passphrase: tries the keyslots one after the other, or `slot` alone. Says which one opened.
    ///
    /// When none opens, a keyslot that could not be tried is what is reported: one that needs the chip's secret, a derivation
    /// that is not in this program or has too little memory.
    ///
    /// # Errors
    /// [`FlashHeaderError::Slot`] with [`SlotError::WrongKey`] if no keyslot opens with this passphrase and
    /// all of them could be tried, and with another reason if one could not. A passphrase of an impossible
    /// length is refused before that. [`FlashHeaderError::SlotNotInUse`] or [`FlashHeaderError::NoKeyslots`]
    /// if there was none to try.
    #[inline(never)] // or a small stack would hold what this needs while the header is read, too
    pub fn unlock(
        &self,
        slot: Option<usize>,
        passphrase: &[u8],
        kdf: &mut dyn Derive,
        mut device: Option<&mut dyn DeviceSecret>,
        key: &mut FlashKey,
    ) -> Result<usize, FlashHeaderError> {
        key.clear();
        let header = self.header()?;
        check_passphrase(passphrase)?;
        let nothing = match slot {
            Some(slot) => FlashHeaderError::SlotNotInUse { slot },
            None => FlashHeaderError::NoKeyslots,
        };
        let mut reason = None;
        for number in (0..SLOTS).filter(|number| slot.is_none_or(|slot| slot == *number)) {
            let Some(slot) = header.slot(number) else { continue };
            let device: Option<&mut dyn DeviceSecret> = match &mut device {
                Some(device) => Some(&mut **device),
                None => None,
            };
            let opened = if slot.needs_device && device.is_none() {
                // Before the work, not after.
                Err(SlotError::NeedsDevice)
            } else {
                let mut derived = Derived::zeroed();
                let derivation = slot.slot_kdf().derive(passphrase, kdf, &mut derived);
                derivation.and_then(|()| open_slot(header.params(), &slot, &derived, device, key))
            };
            match opened {
                Ok(()) => return Ok(number),
                Err(SlotError::WrongKey) if reason.is_some() => {}
                Err(error) => reason = Some(FlashHeaderError::Slot { slot: number, error }),
            }
        }
        Err(reason.unwrap_or(nothing))
    }

    /// The blocks behind the header, where the data is.
    ///
    /// # Errors
    /// [`FlashHeaderError::Flash`] if the blocks do not lie on the medium, [`FlashHeaderError::Reopen`] as in
    /// [`header`](Self::header).
    pub fn into_data(self) -> Result<FlashRegion<D>, FlashHeaderError> {
        let sizes = self.header()?.params().sizes;
        let first = sizes.first_data_block();
        // intended: a region without blocks is refused.
        FlashRegion::new(self.copies.into_device(), first, sizes.block_count.saturating_sub(first))
            .map_err(FlashHeaderError::Flash)
    }

    /// The medium, header included.
    pub fn into_device(self) -> D {
        self.copies.into_device()
    }

    /// Whether the medium is the one that the header tells of: units as large, and no fewer blocks.
    fn check_geometry(&self) -> Result<(), FlashHeaderError> {
        let header = self.header()?.params().sizes;
        let medium = self.copies.geometry();
        if header.erase_size != medium.erase_size() || header.prog_size != medium.prog_size() {
            return Err(FlashHeaderError::OtherGeometry { header, medium });
        }
        if header.block_count > medium.block_count() {
            return Err(FlashHeaderError::CutInSize { needs: header.size(), has: medium.size() });
        }
        Ok(())
    }
}

impl<D, B, H> fmt::Debug for FlashHeader<D, B, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlashHeader")
            .field("current", &self.current)
            .field("states", &self.states)
            .finish_non_exhaustive()
    }
}
