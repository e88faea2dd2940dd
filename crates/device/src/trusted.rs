//! The little memory that nobody but the device itself can write: what makes an older state of a medium recognisable.

use core::fmt;

/// Bytes in a record of a [`TrustedStore`].
pub const TRUSTED_RECORD_LEN: usize = 80;

/// One record, replaced as a whole: two pages of a controller's own flash, a slot of a secure element, a file on the desk, a log
/// for which a counter vouches.
///
/// Whoever can put an older record back can put an older medium back. The record needs no secrecy.
pub trait TrustedStore {
    /// The record that was stored last, or none if there has never been one. Changes nothing.
    ///
    /// # Errors
    /// [`TrustedStoreError::Damaged`] if something is stored, but no whole record. [`TrustedStoreError::Busy`] if
    /// somebody else uses the store. [`TrustedStoreError::Driver`] if the memory can't be read.
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError>;

    /// What was loaded has been accepted: when this returns it is what the next `load` returns, until another one is stored. Stores
    /// that can show two records after a power loss, the old one and the new one, decide here; others have nothing to do.
    ///
    /// # Errors
    /// [`TrustedStoreError::Busy`] if somebody else has stored a record meanwhile, [`TrustedStoreError::WornOut`] if
    /// settling takes a write and nothing can be stored any more, [`TrustedStoreError::Driver`] if the memory fails.
    /// The next `load` may return another record then.
    fn claim(&mut self) -> Result<(), TrustedStoreError> {
        Ok(())
    }

    /// Replaces the record. A power loss leaves the old one or the new one; when this returns the new one is durable. After
    /// an error it may be either.
    ///
    /// # Errors
    /// [`TrustedStoreError::WornOut`] if nothing can be stored any more, [`TrustedStoreError::TooSmall`] if the
    /// record has no room, [`TrustedStoreError::Busy`] if somebody else uses the store.
    /// [`TrustedStoreError::Driver`] if the memory can't be written.
    fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError>;

    /// As many records as can have been stored, forgotten ones too, if others can make the store forget them. None if nobody
    /// can: then a store that is empty has never been written.
    ///
    /// # Errors
    /// [`TrustedStoreError::Driver`] if the memory can't be read.
    fn stored_at_most(&mut self) -> Result<Option<u64>, TrustedStoreError> {
        Ok(None)
    }
}

/// A pointer to a store is that store.
macro_rules! forward {
    ($pointer:ty) => {
        impl<S: TrustedStore + ?Sized> TrustedStore for $pointer {
            fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
                (**self).load()
            }

            fn claim(&mut self) -> Result<(), TrustedStoreError> {
                (**self).claim()
            }

            fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
                (**self).store(record)
            }

            fn stored_at_most(&mut self) -> Result<Option<u64>, TrustedStoreError> {
                (**self).stored_at_most()
            }
        }
    };
}

forward!(&mut S);
#[cfg(any(test, feature = "alloc"))]
forward!(alloc::boxed::Box<S>);

/// Why a trusted store failed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustedStoreError {
    /// Something is stored, but no whole record that counts.
    Damaged,
    /// The store cannot hold a record.
    TooSmall {
        /// Bytes that are needed.
        needs: u32,
        /// Bytes that there are.
        has: u64,
    },
    /// The store can't be written any more: its memory is worn out, or its counter used up.
    WornOut,
    /// Somebody else uses the store.
    Busy,
    /// The store authenticates what it holds, and has been given no key to do it with.
    NoKey,
    /// The store's own code.
    Driver(i32),
}

impl fmt::Display for TrustedStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged => f.write_str(
                "what the trusted store holds is damaged, or nothing of this volume: a place that held something else \
                 before is cleared when the volume is made",
            ),
            Self::TooSmall { needs, has } => {
                write!(f, "the trusted store has {has} bytes, {needs} are needed")
            }
            Self::WornOut => f.write_str(
                "the trusted store cannot be written any more: read the volume without freshness and copy it to a new one",
            ),
            Self::Busy => f.write_str("the trusted store is in use"),
            Self::NoKey => f.write_str("the trusted store has no key: the volume has not been unlocked"),
            Self::Driver(code) => write!(f, "the trusted store failed with error {code}"),
        }
    }
}

impl core::error::Error for TrustedStoreError {}
