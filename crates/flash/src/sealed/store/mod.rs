//! Trusted stores of a controller. FORMATS.md, "Sealed flash", has the bytes.

mod counter;
mod frame;
mod log;
mod pages;
mod slots;

pub use counter::{CounterStore, ENTRY_LEN, MonotonicCounter};
pub use frame::FRAME_LEN;
pub use pages::PageStore;
pub use slots::{ElementSlots, SlotStore};

use atrest_device::{FlashCause, FlashError, TrustedStoreError};

fn failed(error: FlashError) -> TrustedStoreError {
    match error.cause {
        FlashCause::BadBlock { .. } => TrustedStoreError::WornOut,
        FlashCause::Uncorrectable => TrustedStoreError::Damaged,
        FlashCause::Driver(code) => TrustedStoreError::Driver(code),
        _ => TrustedStoreError::Driver(-1),
    }
}
