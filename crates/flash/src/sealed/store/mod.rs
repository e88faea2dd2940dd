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

#[cfg(test)]
mod tests {
    use atrest_device::FlashOperation;

    use super::*;

    #[test]
    fn what_a_medium_says_is_told_in_the_words_of_a_store() {
        for (cause, error) in [
            (FlashCause::BadBlock { block: 3 }, TrustedStoreError::WornOut),
            (FlashCause::Uncorrectable, TrustedStoreError::Damaged),
            (FlashCause::Driver(5), TrustedStoreError::Driver(5)),
            (FlashCause::Cipher, TrustedStoreError::Driver(-1)),
            (FlashCause::ReadOnly, TrustedStoreError::Driver(-1)),
        ] {
            assert_eq!(failed(FlashError::new(FlashOperation::Read, 0, 0, cause)), error);
        }
    }
}
