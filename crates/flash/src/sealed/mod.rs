//! Sealed flash: authenticated, and older states are recognised. Bytes: FORMATS.md, "Sealed flash"; why: docs/SEALED-FLASH.md.
//!
//! Each unit carries a serial and a tag. The *epoch* of a block is the serial of its first unit; block, epoch and number of
//! units name one content for ever, and a keyed sum over these of all blocks is what the trusted store anchors.

mod behind;
#[cfg(test)]
mod by_hand;
mod cells;
mod correct;
mod damage;
mod device;
mod error;
mod header;
mod keys;
mod layout;
mod mount;
mod options;
mod reader;
mod record;
mod repair;
mod scan;
#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod secret_bytes;
mod serial;
mod slots;
pub mod store;
mod table;
mod volume;

pub use behind::COUNTER_LOG_BLOCKS;
pub use error::{NotOpened, SealedError};
pub use header::{HandOver, HeaderAnchor};
pub use keys::SealedKey;
pub use layout::{LayoutError, SealedLayout, Tickets};
pub use options::{SealedMedium, SealedOptions};
pub use reader::{SealedReader, Verdict};
pub use record::RecordFields;
pub use repair::UnitState;
pub use table::BlockState;
pub use volume::SealedFlash;
