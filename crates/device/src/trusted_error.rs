//! What a trusted store holds, and why it failed.

use core::fmt;

/// Bytes in a record of a [`TrustedStore`](crate::TrustedStore).
pub const TRUSTED_RECORD_LEN: usize = 80;

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
