//! What a record says of a rotation of the volume key. docs/SEALED-FLASH.md, "Rotating the volume key".
//!
//! Serials tell which key a block is under: one number parts them, and every block begun before it is under the old key. Programs
//! without the feature `rotate` know that there are such records, and refuse them.

#[cfg(feature = "rotate")]
use core::fmt;

#[cfg(feature = "rotate")]
use atrest_device::FlashCause;

use super::error::SealedError;
#[cfg(feature = "rotate")]
use super::keys::SealedKey;
use super::record::Stamp;

/// Of a volume whose key is being rotated. By default there is no rotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rotation {
    /// Blocks begun with this serial or a later one are under the new key, older ones under the old. 0 without a rotation.
    #[cfg(feature = "rotate")]
    pub(crate) from: u64,
    /// The block that stands in the scratch, and what it holds there.
    #[cfg(feature = "rotate")]
    pub(crate) moving: Option<Stamp>,
}

/// A record during a rotation.
pub(crate) const ROTATING: u8 = 3;

impl Rotation {
    /// The version of a record with this, and what stands in it for the header's sequence number.
    pub(crate) fn version_and_number(&self, version: u8, header: u64) -> (u8, u64) {
        #[cfg(feature = "rotate")]
        if self.from != 0 {
            return (ROTATING, self.from);
        }
        (version, header)
    }

    /// The header's sequence number, in the place of which the number stands that was read. A rotation leaves no room for it.
    pub(crate) fn header_sequence(&self, number: u64) -> u64 {
        #[cfg(feature = "rotate")]
        if self.from != 0 {
            return 0;
        }
        number
    }

    /// Of a record of a rotation, with what its flags would say in another one: both at once tell that the block is being moved.
    #[cfg(feature = "rotate")]
    pub(crate) fn parse(
        number: u64,
        clean: &mut bool,
        victim: &mut Option<Stamp>,
    ) -> Result<Self, SealedError> {
        if number == 0 || number >= super::serial::SERIAL_END {
            return Err(SealedError::LaterVersion);
        }
        let moving = if *clean { victim.take() } else { None };
        *clean &= moving.is_none();
        Ok(Self { from: number, moving })
    }

    #[cfg(not(feature = "rotate"))]
    pub(crate) fn parse(_: u64, _: &mut bool, _: &mut Option<Stamp>) -> Result<Self, SealedError> {
        Err(SealedError::Rotating)
    }

    /// The block that stands in the scratch.
    pub(crate) fn moving(&self) -> Option<Stamp> {
        #[cfg(feature = "rotate")]
        return self.moving;
        #[cfg(not(feature = "rotate"))]
        None
    }

    /// Whether a record of this is one of the rotation that a volume was opened with, or of none as it was.
    pub(crate) fn goes_with(&self, opened: &Self) -> bool {
        #[cfg(feature = "rotate")]
        return self.from == opened.from;
        #[cfg(not(feature = "rotate"))]
        return self == opened;
    }
}

/// The keys of a volume whose key is rotated: both are needed until [`finish_rotation`](super::RotatingFlash::finish_rotation)
/// has returned.
#[cfg(feature = "rotate")]
#[derive(Clone, Copy)]
pub struct RotationKeys<'a> {
    /// The new volume key, which was drawn for this rotation and never used before, with the volume's own identifier.
    pub key: SealedKey<'a>,
    /// The volume key up to now, as long as the new one.
    pub previous: &'a [u8],
}

/// How far a rotation has come.
#[cfg(feature = "rotate")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotationProgress {
    /// Erase blocks that hold something under the old key.
    pub left: u32,
    /// Erase blocks of the volume.
    pub blocks: u32,
    /// The block that is read from the scratch, because its own place could not be written yet. Until
    /// [`rotate_step`](super::RotatingFlash::rotate_step) has written it nothing else is.
    pub in_scratch: Option<u32>,
}

/// Why a step of a rotation failed. What the volume holds is as before.
#[cfg(feature = "rotate")]
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotationError {
    /// The scratch failed, or did not keep what was written. The volume goes on; another scratch may do.
    Scratch(FlashCause),
    /// The volume failed. After [`FlashCause::Tampered`] the next step goes on with the block behind. After
    /// [`FlashCause::BadBlock`] the block can be read and nothing can be written, until a step succeeds.
    Volume(FlashCause),
    /// Not everything is under the new key.
    Left {
        /// Erase blocks that are not.
        blocks: u32,
    },
}

#[cfg(feature = "rotate")]
impl fmt::Display for RotationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scratch(cause) => write!(f, "the scratch failed: {cause}"),
            Self::Volume(cause) => cause.fmt(f),
            Self::Left { blocks } => {
                write!(f, "{blocks} erase blocks are still under the old key: go on with the rotation")
            }
        }
    }
}

#[cfg(feature = "rotate")]
impl core::error::Error for RotationError {}

#[cfg(feature = "rotate")]
impl fmt::Debug for RotationKeys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RotationKeys").finish_non_exhaustive()
    }
}
