//! Why a header could not be read or changed.

use core::fmt;

use atrest_device::{FlashError, FlashGeometry};
use atrest_keyslot::flash::{FlashSizes, HeaderError, SLOTS, SlotError};

use super::anchor::AnchorError;

/// Why a header was not opened or made, with what was passed for it: the device to format or to give to another program, and the
/// memory. `H` is `()` where the header is kept in the volume itself.
pub struct HeaderNotOpened<D, B, H = ()> {
    /// Why.
    pub error: FlashHeaderError,
    /// The medium.
    pub device: D,
    /// The buffer for a prog unit.
    pub scratch: B,
    /// The memory for the header.
    pub bytes: H,
}

impl<D, B, H> HeaderNotOpened<D, B, H> {
    pub(crate) fn with_bytes<N>(self, bytes: N) -> HeaderNotOpened<D, B, N> {
        let Self { error, device, scratch, .. } = self;
        HeaderNotOpened { error, device, scratch, bytes }
    }
}

impl<D, B, H> From<HeaderNotOpened<D, B, H>> for FlashHeaderError {
    fn from(not_opened: HeaderNotOpened<D, B, H>) -> Self {
        not_opened.error
    }
}

impl<D, B, H> fmt::Debug for HeaderNotOpened<D, B, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeaderNotOpened").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<D, B, H> fmt::Display for HeaderNotOpened<D, B, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<D, B, H> core::error::Error for HeaderNotOpened<D, B, H> {}

/// A failed operation on the header of a medium.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashHeaderError {
    /// The medium failed.
    Flash(FlashError),
    /// Neither copy is a header; this is what is wrong with the one that is nearest to it.
    Header(HeaderError),
    /// Both copies are whole, and one is no older state of the other. An attacker can do that, a power loss can not.
    CopiesDisagree,
    /// The header was made for a medium of other units.
    OtherGeometry {
        /// What the header says.
        header: FlashSizes,
        /// What the medium is.
        medium: FlashGeometry,
    },
    /// The medium is smaller than the volume on it: part of an image is missing, or the card lies about its size.
    CutInSize {
        /// Bytes of the volume, header included.
        needs: u64,
        /// Bytes of the medium.
        has: u64,
    },
    /// The scratch buffer has no room for a prog unit.
    ScratchTooSmall {
        /// Bytes that are needed.
        needs: u32,
        /// Bytes that there are.
        has: usize,
    },
    /// No keyslot holds a key: the volume was crypto-erased. What is on it can't be had back.
    NoKeyslots,
    /// A keyslot was not opened or made.
    Slot {
        /// Which one, of those that were tried the last.
        slot: usize,
        /// Why.
        error: SlotError,
    },
    /// There is no keyslot of that number, or it holds no key.
    SlotNotInUse {
        /// The number.
        slot: usize,
    },
    /// The keyslot holds a key already.
    SlotInUse {
        /// The number.
        slot: usize,
    },
    /// All keyslots hold a key. Remove one first.
    NoFreeSlot,
    /// This is the last key. Destroying it destroys the volume, which is an operation of its own.
    LastKey {
        /// The keyslot.
        slot: usize,
    },
    /// Formatting would overwrite a volume, or something else, and was not told to.
    NotBlank,
    /// What was written does not read back, and the other copy is as it was: nothing has changed.
    NotWritten {
        /// The copy: 0 or 1.
        copy: usize,
    },
    /// The change is made, and holds; but in this copy the state before it may still stand, with keys that were to be destroyed.
    OldCopyRemains {
        /// The copy: 0 or 1.
        copy: usize,
        /// The medium's own error, if it told of one.
        error: Option<FlashError>,
    },
    /// What was there was to be replaced, and could not be destroyed in this copy: it may still open, or not. Nothing new was written.
    NotDestroyed {
        /// The copy: 0 or 1.
        copy: usize,
        /// The medium's own error, if it told of one.
        error: Option<FlashError>,
    },
    /// What was there is destroyed in both copies, as it was to be, but the new header could not be written to this one.
    NotRewritten {
        /// The copy: 0 or 1.
        copy: usize,
        /// The other copy holds the new header. If not, the medium holds none.
        in_other: bool,
        /// The medium's own error, if it told of one.
        error: Option<FlashError>,
    },
    /// The volume is sealed, and its header is changed with its trusted store only. Nothing has changed.
    AnchorNeeded,
    /// The trusted store was not told of the new header. Nothing has changed on the medium.
    NotAnnounced {
        /// Why.
        error: AnchorError,
    },
    /// The change is made in both copies, and holds; but the trusted store still allows the header before it. The next opening of the volume
    /// settles that, if nobody puts the header before back.
    NotSettled {
        /// Why.
        error: AnchorError,
    },
    /// The volume key is being rotated already, and that has to come to its end before.
    Rotating,
    /// The volume is not sealed, or has no trusted store, and its key can't be rotated.
    NotSealed,
    /// The header was changed as often as can be counted.
    WornOut,
    /// An earlier change failed half-way. Open the header anew.
    Reopen,
}

impl From<SlotError> for FlashHeaderError {
    /// Of something that concerns no keyslot in particular.
    fn from(error: SlotError) -> Self {
        Self::Slot { slot: SLOTS, error }
    }
}

impl fmt::Display for FlashHeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flash(error) => error.fmt(f),
            Self::Header(error) => error.fmt(f),
            Self::CopiesDisagree => f.write_str("the two copies of the header belong to different volumes"),
            Self::OtherGeometry { header, medium } => write!(
                f,
                "the header was made for erase blocks of {} and prog units of {} bytes, the medium has {} and {}",
                header.erase_size,
                header.prog_size,
                medium.erase_size(),
                medium.prog_size()
            ),
            Self::CutInSize { needs, has } => {
                write!(f, "the volume has {needs} bytes, the medium only {has}")
            }
            Self::ScratchTooSmall { needs, has } => {
                write!(f, "the scratch buffer has {has} bytes, a prog unit needs {needs}")
            }
            Self::NoKeyslots => f.write_str("no keyslot holds a key: the volume was crypto-erased"),
            Self::Slot { slot, error } if *slot < SLOTS => write!(f, "keyslot {slot}: {error}"),
            Self::Slot { error, .. } => error.fmt(f),
            Self::SlotNotInUse { slot } if *slot >= SLOTS => {
                write!(f, "there is no keyslot {slot}: they are numbered from 0 to {}", SLOTS - 1)
            }
            Self::SlotNotInUse { slot } => write!(f, "keyslot {slot} holds no key"),
            Self::SlotInUse { slot } => write!(f, "keyslot {slot} holds a key already"),
            Self::NoFreeSlot => f.write_str("all keyslots hold a key; remove one first"),
            Self::LastKey { slot } => {
                write!(f, "keyslot {slot} holds the last key; erase the volume if that is what is wanted")
            }
            Self::NotBlank => {
                f.write_str("there is something on the medium, and it was not asked to be replaced")
            }
            Self::NotWritten { copy } => {
                write!(f, "copy {copy} of the header does not read back; nothing has changed")
            }
            Self::OldCopyRemains { copy, error } => {
                write!(
                    f,
                    "the change is made, but copy {copy} of the header may still hold the state before it"
                )?;
                error.map_or(Ok(()), |error| write!(f, ": {error}"))
            }
            Self::NotDestroyed { copy, error } => {
                write!(
                    f,
                    "copy {copy} of the header could not be destroyed, and nothing new was written; what was there may still open"
                )?;
                error.map_or(Ok(()), |error| write!(f, ": {error}"))
            }
            Self::NotRewritten { copy, in_other, error } => {
                write!(
                    f,
                    "what was there is destroyed, but the new header could not be written to copy {copy}"
                )?;
                f.write_str(if *in_other {
                    "; the other copy holds it"
                } else {
                    ", and the medium holds none"
                })?;
                error.map_or(Ok(()), |error| write!(f, ": {error}"))
            }
            Self::AnchorNeeded => {
                f.write_str("the volume is sealed: its header is changed with its trusted store only")
            }
            Self::NotAnnounced { error } => write!(f, "nothing was changed: {error}"),
            Self::NotSettled { error } => write!(
                f,
                "the change is made, but the trusted store still allows the header before it: {error}"
            ),
            Self::Rotating => {
                f.write_str("the volume key is being rotated: that has to come to its end first")
            }
            Self::NotSealed => {
                f.write_str("the volume is not sealed, or has no trusted store: its key can't be rotated")
            }
            Self::WornOut => f.write_str("the header's sequence number is used up"),
            Self::Reopen => f.write_str("a change failed half-way; open the header anew"),
        }
    }
}

impl core::error::Error for FlashHeaderError {}
