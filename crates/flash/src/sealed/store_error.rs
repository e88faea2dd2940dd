//! What the medium of a trusted store says, in the words of a store.

use atrest_device::{FlashCause, FlashError, TrustedStoreError};

pub(crate) fn failed(error: FlashError) -> TrustedStoreError {
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
