//! The little memory that nobody but the device itself can write: what makes an older state of a medium recognisable.

use super::twin;
use crate::{TRUSTED_RECORD_LEN, TrustedStoreError};

/// One record, replaced as a whole: two pages of a controller's own flash, a slot of a secure element, a file on the desk, a log
/// for which a counter vouches.
///
/// Whoever can put an older record back can put an older medium back. The record needs no secrecy.
#[twin]
#[allow(async_fn_in_trait, reason = "executors of microcontrollers have one thread")]
pub trait TrustedStore {
    /// The record that was stored last, or none if there has never been one. Changes nothing.
    ///
    /// # Errors
    /// [`TrustedStoreError::Damaged`] if something is stored, but no whole record. [`TrustedStoreError::Busy`] if
    /// somebody else uses the store. [`TrustedStoreError::Driver`] if the memory can't be read.
    async fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError>;

    /// What was loaded has been accepted: when this returns it is what the next `load` returns, until another one is stored. Stores
    /// that can show two records after a power loss, the old one and the new one, decide here; others have nothing to do.
    ///
    /// # Errors
    /// [`TrustedStoreError::Busy`] if somebody else has stored a record meanwhile, [`TrustedStoreError::WornOut`] if
    /// settling takes a write and nothing can be stored any more, [`TrustedStoreError::Driver`] if the memory fails.
    /// The next `load` may return another record then.
    async fn claim(&mut self) -> Result<(), TrustedStoreError> {
        Ok(())
    }

    /// Replaces the record. A power loss leaves the old one or the new one; when this returns the new one is durable. After
    /// an error it may be either.
    ///
    /// # Errors
    /// [`TrustedStoreError::WornOut`] if nothing can be stored any more, [`TrustedStoreError::TooSmall`] if the
    /// record has no room, [`TrustedStoreError::Busy`] if somebody else uses the store.
    /// [`TrustedStoreError::Driver`] if the memory can't be written.
    async fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError>;

    /// As many records as can have been stored, forgotten ones too, if others can make the store forget them. None if nobody
    /// can: then a store that is empty has never been written.
    ///
    /// # Errors
    /// [`TrustedStoreError::Driver`] if the memory can't be read.
    async fn stored_at_most(&mut self) -> Result<Option<u64>, TrustedStoreError> {
        Ok(None)
    }
}

/// A pointer to a store is that store.
macro_rules! forward {
    ($pointer:ty) => {
        #[twin]
        impl<S: TrustedStore + ?Sized> TrustedStore for $pointer {
            async fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
                (**self).load().await
            }

            async fn claim(&mut self) -> Result<(), TrustedStoreError> {
                (**self).claim().await
            }

            async fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
                (**self).store(record).await
            }

            async fn stored_at_most(&mut self) -> Result<Option<u64>, TrustedStoreError> {
                (**self).stored_at_most().await
            }
        }
    };
}

forward!(&mut S);
#[cfg(any(test, feature = "alloc"))]
forward!(alloc::boxed::Box<S>);
