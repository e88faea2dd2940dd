//! Sealed flash: authenticated, and older states are recognised. Bytes: FORMATS.md, "Sealed flash"; why: docs/SEALED-FLASH.md.
//!
//! Each unit carries a serial and a tag. The *epoch* of a block is the serial of its first unit; block, epoch and number of
//! units name one content for ever, and a keyed sum over these of all blocks is what the trusted store anchors.

mod behind;
#[cfg(test)]
mod by_hand;
pub(crate) mod error;
pub(crate) mod frame;
pub(crate) mod header;
pub(crate) mod keys;
pub(crate) mod layout;
pub(crate) mod options;
mod parts;
pub(crate) mod record;
pub(crate) mod rotation;
#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod secret_bytes;
pub(crate) mod serial;
pub(crate) mod slots;
pub(crate) mod store_error;
pub(crate) mod table;
#[cfg(feature = "rotate")]
pub(crate) mod two_keys;
pub(crate) mod unfinished;
pub(crate) mod verdict;

#[cfg(test)]
use crate::blocking::sealed::{cells, correct, damage, mount, reader, volume};

#[cfg(feature = "rotate")]
pub use crate::blocking::sealed::{RotatingFlash, WithScratch};
pub use crate::blocking::sealed::{SealedFlash, SealedReader, store};
pub use behind::COUNTER_LOG_BLOCKS;
pub use error::{NotOpened, SealedError};
pub use header::{HandOver, HeaderAnchor};
pub use keys::SealedKey;
pub use layout::{LayoutError, SealedLayout, Tickets};
pub use options::{SealedMedium, SealedOptions, Verify};
pub use parts::{PARTS_LOG_BLOCKS, Part, PartStore, PartsError, SealedParts};
pub use record::RecordFields;
#[cfg(feature = "rotate")]
pub use rotation::{RotationError, RotationKeys, RotationProgress};
pub use table::BlockState;
#[cfg(feature = "rotate")]
pub use two_keys::TwoKeys;
pub(crate) use unfinished::{NeverUnfinished, Unfinished};
pub use verdict::{UnitState, Verdict};
