//! The two copies of the compact header on a medium, and every change to them so that power may fail at any moment.
//! FORMATS.md, "Flash header"; bytes and cryptography are in `atrest_keyslot::flash`.
//!
//! Each copy has erase blocks of its own: the first of the medium, and those behind them. A change writes one copy, makes it durable
//! and reads it back before it touches the other one; the copy on which the present state rests goes last. What a change
//! was to destroy is gone from both when it returns.

mod anchor;
mod error;
mod found;
mod mark;

use atrest_device::{FlashError, FlashGeometry};
use atrest_keyslot::flash::FlashSizes;

pub use anchor::{AnchorError, AnchorHeader};
pub use error::{FlashHeaderError, HeaderNotOpened};
pub use found::CopyState;
pub(crate) use found::{Found, newest};
#[cfg(feature = "sealed")]
pub(crate) use mark::DIGEST_LEN;
pub use mark::{FoundHeader, HeaderMark};

/// The sizes of a medium as a header holds them.
pub(crate) fn sizes_of(geometry: FlashGeometry) -> FlashSizes {
    FlashSizes {
        read_size: geometry.read_size(),
        prog_size: geometry.prog_size(),
        erase_size: geometry.erase_size(),
        block_count: geometry.block_count(),
    }
}

impl From<FlashError> for FlashHeaderError {
    fn from(error: FlashError) -> Self {
        Self::Flash(error)
    }
}
