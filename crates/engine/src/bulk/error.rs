//! Why a bulk run did not finish.

use core::fmt;

use atrest_device::{Cause, DeviceError};

use super::Mismatch;

/// A bulk run that did not finish. Nothing is written in the cases that concern sizes and checkpoints.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkError {
    /// The source does not fit in the volume.
    SourceTooLarge {
        /// Bytes in the source.
        source: u64,
        /// Bytes of plaintext that the volume holds.
        volume: u64,
    },
    /// The volume's plaintext does not fit in the destination.
    DestinationTooSmall {
        /// Bytes of plaintext.
        needs: u64,
        /// Bytes in the destination.
        has: u64,
    },
    /// The destination can't be created or overwritten.
    Destination(DeviceError),
    /// The source would reach the hidden volume that is protected.
    Protected {
        /// Bytes in the source.
        source: u64,
        /// Bytes of the outer volume that lie in front of the hidden one.
        free: u64,
    },
    /// The output is open for reading only.
    ReadOnly,
    /// Reading the source failed, at an offset in the source.
    Read(DeviceError),
    /// Writing the output failed, at an offset in the output.
    Write(DeviceError),
    /// The output could not be made durable.
    Flush(DeviceError),
    /// The copy could not be read again, at an offset in it.
    ReadBack(DeviceError),
    /// The copy is not what it was made of.
    Differs {
        /// The first byte that differs.
        offset: u64,
    },
    /// The run was cancelled.
    Cancelled {
        /// Bytes from the beginning that are written.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// There is no checkpoint to resume from.
    NoCheckpoint,
    /// The checkpoint can't be understood.
    CheckpointDamaged,
    /// The checkpoint belongs to something else.
    CheckpointMismatch(Mismatch),
    /// The checkpoint file could not be read, written or removed.
    CheckpointFile(Cause),
}

impl fmt::Display for BulkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SourceTooLarge { source, volume } => {
                write!(f, "the source of {source} bytes does not fit in the volume, which holds {volume}")
            }
            Self::DestinationTooSmall { needs, has } => {
                write!(f, "the volume's {needs} bytes do not fit in the destination of {has} bytes")
            }
            Self::Protected { source, free } => {
                write!(
                    f,
                    "the source of {source} bytes would reach the hidden volume, which is protected: {free} bytes lie in front of it"
                )
            }
            Self::Destination(error) => write!(f, "the destination: {error}"),
            Self::ReadOnly => f.write_str("the output is open for reading only"),
            Self::Read(error) => write!(f, "reading the source: {error}"),
            Self::Write(error) => write!(f, "writing the output: {error}"),
            Self::Flush(error) => write!(f, "the output: {error}"),
            Self::ReadBack(error) => write!(f, "reading the copy: {error}"),
            Self::Differs { offset } => write!(f, "the copy differs from its source at byte {offset}"),
            Self::Cancelled { done, total } => write!(f, "cancelled after {done} of {total} bytes"),
            Self::NoCheckpoint => f.write_str("there is no checkpoint to resume from"),
            Self::CheckpointDamaged => f.write_str("the checkpoint is damaged"),
            Self::CheckpointMismatch(mismatch) => write!(f, "the checkpoint does not fit: {mismatch}"),
            Self::CheckpointFile(cause) => write!(f, "the checkpoint file: {cause}"),
        }
    }
}

impl core::error::Error for BulkError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Destination(error)
            | Self::Read(error)
            | Self::ReadBack(error)
            | Self::Write(error)
            | Self::Flush(error) => Some(error),
            _ => None,
        }
    }
}
