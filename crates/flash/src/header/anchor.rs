//! The store of a sealed volume while its header changes: it is told before the new header is written, and after it.

use core::fmt;

use atrest_device::TrustedStoreError;

use super::mark::{FoundHeader, HeaderMark};

/// Keeps the trusted store of a sealed volume in step with its header. `sealed::HeaderAnchor` is one.
///
/// Wherever power fails between the two calls, the store allows each of the two headers that the medium can hold.
pub trait AnchorHeader {
    /// Before anything of the new header is written. From now on the store allows the present header, and the next.
    ///
    /// # Errors
    /// [`AnchorError`] if the store does not allow the present header, or fails. Nothing is written then.
    fn announce(&mut self, present: FoundHeader, next: HeaderMark) -> Result<(), AnchorError>;

    /// After both copies of the new header are written. From now on the store allows no other.
    ///
    /// # Errors
    /// [`AnchorError`] if the store does not allow this header, or fails. The store then allows both, as
    /// before.
    fn settle(&mut self, present: FoundHeader) -> Result<(), AnchorError>;

    /// Whether the volume still needs the key of before: its record says so from the beginning of a rotation to its end.
    ///
    /// # Errors
    /// [`AnchorError`] if the store fails.
    fn needs_previous_key(&mut self) -> Result<bool, AnchorError> {
        Ok(false)
    }
}

/// Why the trusted store did not follow a change of the header.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnchorError {
    /// The store failed, or what it holds is damaged.
    Store(TrustedStoreError),
    /// The store holds nothing.
    Empty,
    /// The store holds no record that this program can use, or a record of another version.
    Version,
    /// The volume was handed over to another store.
    HandedOver {
        /// Sequence number of the header that the other store names.
        header: u64,
    },
    /// The store that takes a volume over holds a record already.
    InUse,
    /// The header on the medium is older than the one that the store names.
    Older {
        /// Sequence number of the header that the store names.
        anchored: u64,
        /// That of the one on the medium.
        found: u64,
    },
    /// The header on the medium is not the one that the store names.
    Other {
        /// Sequence number of the header that the store names.
        anchored: u64,
        /// That of the one on the medium.
        found: u64,
    },
    /// The store has no room for a larger sequence number.
    WornOut,
}

impl fmt::Display for AnchorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Empty => f.write_str("the trusted store is empty"),
            Self::Version => f.write_str("another version of this program wrote the trusted store"),
            Self::HandedOver { header } => write!(
                f,
                "the volume was handed over to another trusted store: bring that one, which names header number {header}"
            ),
            Self::InUse => f.write_str("the new trusted store holds a record already"),
            Self::Older { anchored, found } => write!(
                f,
                "the trusted store names header number {anchored}, and the medium holds the older number {found}"
            ),
            Self::Other { anchored, found } => write!(
                f,
                "the trusted store names header number {anchored}, and the medium holds another one, number {found}"
            ),
            Self::WornOut => f.write_str("the trusted store has no room for a larger header number"),
        }
    }
}

impl core::error::Error for AnchorError {}
