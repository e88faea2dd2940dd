//! Why a sealed volume was not made or opened, and why it does not do what it is asked.

use core::fmt;

use atrest_device::{Cause, DeviceError, Operation, TrustedStoreError};
use atrest_secret::RandomError;

use crate::format::FormatError;
use crate::store::StoreError;

/// Why a volume was not made or opened.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The store holds objects already.
    NotEmpty,
    /// The size or the window is none that a volume can have.
    Size,
    /// There is no checkpoint.
    NoVolume,
    /// No checkpoint can be read; this is why the newest can't be.
    Damaged(FormatError),
    /// The volume has a trusted store, which was not named.
    StoreNeeded,
    /// The trusted store holds no record of this volume.
    NoRecord,
    /// What the trusted store holds is no record.
    Record(FormatError),
    /// The record is of another volume.
    AnotherVolume,
    /// The trusted store failed.
    Trusted(TrustedStoreError),
    /// The store shows an older state, or another history, than the record says.
    RolledBack {
        /// Number of the newest object that counts.
        anchored: u64,
        /// Number at which the history that is shown ends or departs.
        found: u64,
    },
    /// The record is older than the volume: it was restored, or somebody else has written with another one.
    StoreOlder {
        /// Number in the record.
        anchored: u64,
        /// Number of what is newer.
        found: u64,
    },
    /// Another writer was faster each time.
    Contested {
        /// The number.
        number: u64,
    },
    /// The store holds something under the next number that is no object of the volume, and may have been one.
    Unreadable {
        /// The number.
        number: u64,
    },
    /// What was flushed last lies in a journal, which was not named or is not that one.
    JournalNeeded,
    /// The device that was named as the journal holds something else.
    JournalForeign,
    /// The journal is of another volume.
    JournalOfAnother,
    /// The journal holds what belongs to no history that counts: somebody has gone on without it.
    JournalLeft {
        /// How many records.
        records: u64,
    },
    /// The journal is older than the record in the trusted store says: somebody has restored or changed it.
    JournalOlder {
        /// Number of the journal's newest record that counts.
        anchored: u64,
        /// Number of the newest one that is there.
        found: u64,
    },
    /// Records are missing between what the log covers and what the journal holds: one of them is older than the other.
    JournalGap {
        /// Number of the last record that is covered or there.
        covered: u64,
        /// Number of the first one behind it that is there.
        first: u64,
    },
    /// The journal is of another history than the log: one of them is of another copy of the volume, or older.
    JournalBranch {
        /// Number of the record up to which the log covers it.
        covered: u64,
    },
    /// The journal is too small.
    JournalSize {
        /// Bytes that it must have.
        least: u64,
    },
    /// The journal can't be read or written, for this reason.
    Journal(Cause),
    /// It is a clone, and nobody has said how the volume that it is a clone of is reached.
    Origin,
    /// The store did not answer.
    Unreachable(StoreError),
    /// What the journal holds could not be written to the volume, for this reason. It is still in the journal.
    Replay(VolumeError),
    /// No thread could be begun.
    Thread,
    /// No random bytes.
    Random,
    /// A limit of the format.
    Limit(FormatError),
}

/// Why an open volume did not do what it was asked.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeError {
    /// The range does not lie inside the volume.
    OutOfBounds {
        /// Its size in bytes.
        size: u64,
    },
    /// It was opened to be read.
    ReadOnly,
    /// A block is not what was written there, twice.
    Damaged {
        /// The block.
        block: u64,
    },
    /// The object that holds a block is gone.
    Missing {
        /// The block.
        block: u64,
    },
    /// The part of the map that a block is in is gone, or not what was written.
    Map {
        /// The block.
        block: u64,
    },
    /// Somebody else writes since, or has put something where the next object belongs: nothing more is acknowledged.
    Fenced {
        /// Number of the object that was to be stored.
        number: u64,
    },
    /// An earlier flush failed.
    EarlierFlushFailed,
    /// The store did not answer.
    Unreachable(StoreError),
    /// The trusted store failed, so nothing more is acknowledged.
    Trusted(TrustedStoreError),
    /// No random bytes.
    Random,
    /// A limit of the format, of a name for example.
    Limit(FormatError),
    /// There is no such snapshot.
    NoSuchSnapshot,
    /// Other volumes are clones of the snapshot, and need it.
    Cloned {
        /// How many.
        clones: usize,
    },
    /// That is not the volume's key.
    WrongKey,
    /// The header, which holds the new key, could not be stored, for this reason: nobody knows which key opens the volume.
    Header(Cause),
    /// What is to be collected was found by another opening of the volume.
    NotFoundHere,
    /// The checkpoint of a snapshot is gone, or not what was written.
    Snapshot {
        /// Identifier of the snapshot.
        id: u64,
    },
    /// The journal could not be written, for this reason, so nothing more is acknowledged.
    Journal(Cause),
    /// That is not done while a journal is in use.
    JournalInUse,
    /// A thread panicked while it changed the volume.
    Broken,
}

impl VolumeError {
    /// What a device says of it.
    pub fn at(self, operation: Operation, offset: u64, len: u64) -> DeviceError {
        let cause = match self {
            Self::OutOfBounds { size } => Cause::OutOfBounds { size },
            Self::ReadOnly => Cause::ReadOnly,
            Self::Damaged { block } => Cause::Tag { unit: block },
            Self::Missing { .. } | Self::Map { .. } | Self::Snapshot { .. } => Cause::Tampered,
            Self::Fenced { .. } => Cause::Busy,
            Self::EarlierFlushFailed => Cause::EarlierFlushFailed,
            Self::Unreachable(StoreError::Os(errno)) => Cause::Os(errno),
            Self::Unreachable(StoreError::Refused { status }) => Cause::Refused { status },
            Self::Unreachable(_) | Self::Trusted(_) | Self::Random => Cause::Silent,
            Self::Limit(_)
            | Self::NoSuchSnapshot
            | Self::Cloned { .. }
            | Self::WrongKey
            | Self::NotFoundHere
            | Self::JournalInUse => Cause::Unsupported,
            Self::Journal(cause) => cause,
            Self::Header(_) | Self::Broken => Cause::Gone,
        };
        DeviceError::new(operation, offset, len, cause)
    }
}

impl From<StoreError> for VolumeError {
    fn from(error: StoreError) -> Self {
        Self::Unreachable(error)
    }
}

impl From<FormatError> for VolumeError {
    fn from(error: FormatError) -> Self {
        Self::Limit(error)
    }
}

impl From<RandomError> for VolumeError {
    fn from(RandomError: RandomError) -> Self {
        Self::Random
    }
}

impl From<TrustedStoreError> for VolumeError {
    fn from(error: TrustedStoreError) -> Self {
        Self::Trusted(error)
    }
}

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> Self {
        Self::Unreachable(error)
    }
}

/// Of a journal that is taken over.
impl From<VolumeError> for OpenError {
    fn from(error: VolumeError) -> Self {
        match error {
            VolumeError::Journal(cause) => Self::Journal(cause),
            VolumeError::Unreachable(error) => Self::Unreachable(error),
            VolumeError::Trusted(error) => Self::Trusted(error),
            VolumeError::Limit(error) => Self::Limit(error),
            VolumeError::Fenced { number } => Self::Contested { number },
            error => Self::Replay(error),
        }
    }
}

impl From<FormatError> for OpenError {
    fn from(error: FormatError) -> Self {
        Self::Limit(error)
    }
}

impl From<RandomError> for OpenError {
    fn from(RandomError: RandomError) -> Self {
        Self::Random
    }
}

impl From<TrustedStoreError> for OpenError {
    fn from(error: TrustedStoreError) -> Self {
        Self::Trusted(error)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEmpty => f.write_str("the store holds objects of a sealed volume already"),
            Self::Size => f.write_str("a sealed volume can't have that size or window"),
            Self::NoVolume => f.write_str("the store holds no sealed volume: it has no checkpoint"),
            Self::Damaged(why) => write!(f, "no checkpoint of the volume can be read; of the newest: {why}"),
            Self::StoreNeeded => f.write_str("the volume has a trusted store, which says what its newest state is"),
            Self::NoRecord => f.write_str("the trusted store holds no record of the volume, so nobody can say whether it is the newest state"),
            Self::Record(why) => write!(f, "what the trusted store holds is no record of a sealed volume: {why}"),
            Self::AnotherVolume => f.write_str("the record in the trusted store is of another volume"),
            Self::Trusted(error) => error.fmt(f),
            Self::RolledBack { anchored, found } => write!(
                f,
                "the store shows an older state or another history: object {anchored} counts, what is shown ends or departs at {found}"
            ),
            Self::StoreOlder { anchored, found } => write!(
                f,
                "the record in the trusted store is older than the volume: it names object {anchored}, another session has written {found}"
            ),
            Self::Contested { number } => {
                write!(f, "object {number} could not be stored: somebody else writes, or the store holds another history there")
            }
            Self::Unreadable { number } => {
                write!(f, "object {number} can't be read, and stands where the next one belongs")
            }
            Self::JournalNeeded => f.write_str("what was flushed last lies in the journal of the volume, which is needed to open it"),
            Self::JournalForeign => f.write_str("what was named as the journal holds something else, which is not overwritten"),
            Self::JournalOfAnother => f.write_str("the journal is of another volume"),
            Self::JournalLeft { records } => write!(
                f,
                "the journal holds {records} flushes that are not part of the volume: somebody has gone on without it"
            ),
            Self::JournalOlder { anchored, found } => write!(
                f,
                "the journal is older than the volume, or was changed: flush {anchored} counts, what is there ends at {found}"
            ),
            Self::JournalGap { covered, first } => write!(
                f,
                "flushes between {covered} and {first} are missing: the volume or its journal is older than the other"
            ),
            Self::JournalBranch { covered } => write!(
                f,
                "the journal is of another history than the volume: flush {covered} was another one there"
            ),
            Self::JournalSize { least } => write!(f, "a journal has at least {least} bytes"),
            Self::Journal(cause) => write!(f, "the journal can't be used: {cause}"),
            Self::Origin => f.write_str("the volume is a clone of another one, which can't be reached from here"),
            Self::Unreachable(error) => error.fmt(f),
            Self::Replay(error) => error.fmt(f),
            Self::Thread => f.write_str("no thread could be begun"),
            Self::Random => RandomError.fmt(f),
            Self::Limit(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for VolumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfBounds { size } => write!(f, "the range lies outside the volume of {size} bytes"),
            Self::ReadOnly => f.write_str("the volume is open for reading only"),
            Self::Damaged { block } => {
                write!(f, "block {block} is not what was written there (its tag is wrong)")
            }
            Self::Missing { block } => write!(f, "the object that holds block {block} is gone"),
            Self::Map { block } => write!(f, "the part of the map with block {block} is gone or was changed"),
            Self::Fenced { number } => write!(
                f,
                "another writer has opened the volume, or something else stands where object {number} belongs: nothing more is acknowledged"
            ),
            Self::EarlierFlushFailed => f.write_str("an earlier flush failed; earlier writes may be lost"),
            Self::Unreachable(error) => error.fmt(f),
            Self::Trusted(error) => error.fmt(f),
            Self::Random => RandomError.fmt(f),
            Self::Limit(error) => error.fmt(f),
            Self::NoSuchSnapshot => f.write_str("the volume has no such snapshot"),
            Self::Cloned { clones } => {
                write!(f, "{clones} other volumes are clones of the snapshot, and need it")
            }
            Self::WrongKey => f.write_str("that is not the key of the volume"),
            Self::Header(cause) => write!(
                f,
                "the header with the new key was not stored, or nobody knows whether it was ({cause}): open the volume again"
            ),
            Self::NotFoundHere => {
                f.write_str("the garbage was found before the volume was opened again: look for it anew")
            }
            Self::Snapshot { id } => write!(f, "the checkpoint of snapshot {id} is gone or was changed"),
            Self::Journal(cause) => write!(f, "the journal can't be written: {cause}"),
            Self::JournalInUse => f.write_str("that can't be done while a journal is in use"),
            Self::Broken => f.write_str("the volume failed while it was changed"),
        }
    }
}

impl core::error::Error for OpenError {}
impl core::error::Error for VolumeError {}
