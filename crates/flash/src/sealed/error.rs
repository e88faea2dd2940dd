//! Why a sealed volume does not open, and what to try next.

use core::fmt;

use atrest_cipher::KeyError;
use atrest_device::{FlashCause, TrustedStoreError};

use super::layout::LayoutError;

/// Why a sealed volume was not formatted or opened. Nothing on the medium or in the store has been changed, unless the cause
/// is the medium or the store itself.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealedError {
    /// The medium can't be sealed in this layout.
    Layout(LayoutError),
    /// The cipher does not take the key.
    Key(KeyError),
    /// The volume key is empty or all zeros, or the identifier is nil: no passphrase has opened the volume yet.
    NoKey,
    /// The table has fewer entries than the medium has erase blocks.
    TableTooSmall {
        /// Entries that are needed.
        needs: u64,
        /// Entries that there are.
        has: usize,
    },
    /// The buffer has no room for a unit.
    BufferTooSmall {
        /// Bytes that are needed.
        needs: u32,
        /// Bytes that there are.
        has: usize,
    },
    /// An option has a value that is not possible.
    Option,
    /// With such a reserve the volume is worn out early. Whoever wants that asks for it by name.
    ShortLived {
        /// Power losses that it would survive.
        power_losses: u64,
    },
    /// The random source failed. Nothing is sealed without a salt of its own.
    Random,
    /// An earlier version of this program made the volume.
    EarlierVersion,
    /// The medium failed.
    Medium(FlashCause),
    /// The trusted store failed, or what it holds is damaged.
    Store(TrustedStoreError),
    /// The trusted store holds nothing: it was never written, or, if others can write it, wiped.
    StoreEmpty,
    /// The trusted store belongs to another volume, or key, cipher or layout are others than at formatting.
    OtherVolume,
    /// A later version of this program wrote the trusted store.
    LaterVersion,
    /// The medium is newer than the trusted store: units are on it that were sealed long after the store was written.
    StoreOlder {
        /// The first serial that can't be there.
        limit: u64,
        /// The one that is there.
        found: u64,
    },
    /// The medium is not in the state that the trusted store names: it was put back to an earlier one, or changed, or damaged.
    NotAnchored {
        /// Serials below this one are older than the store's record.
        anchor: u64,
        /// The newest one on the medium.
        newest: u64,
    },
    /// Of what was written since the trusted store was, older parts are missing and newer ones are there.
    Gap {
        /// The first serial since then.
        anchor: u64,
        /// The newest one on the medium.
        newest: u64,
        /// How many of them are on the medium.
        found: u64,
    },
    /// The trusted store holds a record, and it was not asked to replace one.
    StoreInUse,
    /// The medium holds units under this very key and identifier: formatting would use numbers for sealing twice.
    KeyInUse {
        /// Index of an erase block that holds one.
        block: u32,
    },
    /// The record allows more serials than the counter beside the store vouches for: it is not of a volume that was made beside that
    /// counter. Used there, a volume made after a wipe would seal with the same serials.
    CounterBehind {
        /// The first serial that the record does not allow.
        limit: u64,
        /// The first that a volume made now would use.
        unused: u64,
    },
    /// The header is older than the one that the trusted store names: somebody put it back, perhaps for a passphrase that was removed since.
    HeaderOlder {
        /// Sequence number of the header that the store names.
        anchored: u64,
        /// That of the one that is there.
        found: u64,
    },
    /// The header is not the one that the trusted store names: it was changed without the store, or by somebody else.
    HeaderOther {
        /// Sequence number of the header that the store names.
        anchored: u64,
        /// That of the one that is there, 0 if the key came without one.
        found: u64,
    },
    /// The volume was handed over to another store, and this one is void.
    HandedOver {
        /// Sequence number of the header that the other store names.
        header: u64,
    },
    /// The numbers for sealing are used up, or those that the counter beside the store allows.
    WornOut,
    /// The volume key is being rotated: it is opened with both keys, by a program that can.
    Rotating,
    /// The new key of a rotation is the old one, or of another length.
    NotNewKey,
    /// The scratch of a rotation has no room for an erase block, or its units are not parts of the medium's.
    Scratch,
}

impl fmt::Display for SealedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layout(error) => error.fmt(f),
            Self::Key(error) => error.fmt(f),
            Self::NoKey => f.write_str("there is no key: the volume key is empty or all zeros, or the identifier is nil"),
            Self::TableTooSmall { needs, has } => {
                write!(f, "the table has {has} entries, the medium {needs} erase blocks")
            }
            Self::BufferTooSmall { needs, has } => {
                write!(f, "the buffer has {has} bytes, a unit takes {needs}")
            }
            Self::ShortLived { power_losses } => write!(
                f,
                "with this reserve the volume is worn out after {power_losses} power losses: take a smaller one, of 22 at most"
            ),
            Self::Random => f.write_str("the random source failed"),
            Self::EarlierVersion => f.write_str(
                "an earlier version of this program made the volume: copy the files to a new volume with that version",
            ),
            Self::Option => f.write_str("an option has a value that is not possible"),
            Self::Medium(cause) => write!(f, "the medium failed: {cause}"),
            Self::Store(error) => error.fmt(f),
            Self::StoreEmpty => f.write_str(
                "the trusted store is empty: bring the store of this volume, or read the volume without freshness, \
                 copy what it holds and format it anew",
            ),
            Self::OtherVolume => f.write_str(
                "the trusted store belongs to another volume, or key, cipher or layout are not those of this one",
            ),
            Self::LaterVersion => f.write_str("a later version wrote the trusted store: update this program"),
            Self::StoreOlder { limit, found } => write!(
                f,
                "the trusted store is older than the medium, which holds serial {found} where all are below {limit}: \
                 bring the store that was used last"
            ),
            Self::NotAnchored { anchor, newest } => write!(
                f,
                "the medium is not as the trusted store knows it (newest serial {newest}, anchored before {anchor}): \
                 an older state was put back, or something was changed or damaged; reading without freshness shows what is there"
            ),
            Self::Gap { anchor, newest, found } => write!(
                f,
                "of what was written last (serials {anchor} to {newest}) only {found} are there: parts were put back or \
                 damaged; reading without freshness shows what is there"
            ),
            Self::StoreInUse => f.write_str(
                "the trusted store holds the record of a volume, which would be lost: ask for its replacement by name",
            ),
            Self::KeyInUse { block } => write!(
                f,
                "erase block {block} holds data under this key and identifier: take a new identifier or a new key"
            ),
            Self::CounterBehind { limit, unused } => write!(
                f,
                "the record allows serials up to {limit}, and the counter beside it vouches for those up to {unused}: it was not \
                 written beside this counter; read the volume without freshness, and copy it to one that is made here"
            ),
            Self::HeaderOlder { anchored, found } => write!(
                f,
                "an older header was put back (number {found}, the trusted store names {anchored}): passphrases that were removed \
                 since would open the volume again"
            ),
            Self::HeaderOther { anchored, found } => write!(
                f,
                "the header (number {found}) is not the one that the trusted store names (number {anchored}): keyslots were changed \
                 without the store"
            ),
            Self::HandedOver { header } => write!(
                f,
                "the volume was handed over to another trusted store: bring that one, which names header number {header} or a later one"
            ),
            Self::WornOut => {
                f.write_str("the numbers for sealing are used up: copy the files to a new volume")
            }
            Self::Rotating => f.write_str(
                "the volume key is being rotated: open the volume with both keys, and go on with the rotation",
            ),
            Self::NotNewKey => f.write_str("the new volume key is the old one, or of another length"),
            Self::Scratch => f.write_str(
                "the scratch has no room for an erase block, or its units are not parts of the medium's",
            ),
        }
    }
}

impl core::error::Error for SealedError {}

/// Why a volume was not opened or made, with what was passed for it: the device to format, to read without freshness or to give to
/// another program, the store, and the memory.
pub struct NotOpened<D, S, T, B> {
    /// Why.
    pub error: SealedError,
    /// The medium.
    pub device: D,
    /// The trusted store.
    pub store: S,
    /// The table of block states.
    pub table: T,
    /// The buffer for a unit.
    pub buffer: B,
}

impl<D, S, T, B> From<NotOpened<D, S, T, B>> for SealedError {
    fn from(not_opened: NotOpened<D, S, T, B>) -> Self {
        not_opened.error
    }
}

impl<D, S, T, B> fmt::Debug for NotOpened<D, S, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotOpened").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<D, S, T, B> fmt::Display for NotOpened<D, S, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<D, S, T, B> core::error::Error for NotOpened<D, S, T, B> {}
