//! Why a store did not do what it was asked.

use core::fmt;

/// Why a store failed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The operating system's error number.
    Os(i32),
    /// It did not answer in time.
    Silent,
    /// It refused, with this status of its protocol.
    Refused {
        /// The status.
        status: u16,
    },
    /// The object is longer than any that the format allows.
    TooLong,
    /// The name is none that a sealed volume gives.
    Name,
    /// Another process of this machine writes to it.
    Held,
    /// Another process of this machine reads it.
    Read,
    /// What was stored earlier may not have survived, so nothing more is acknowledged.
    EarlierFailure,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Os(errno) => write!(f, "operating system error {errno}"),
            Self::Silent => f.write_str("the store did not answer in time"),
            Self::Refused { status } => write!(f, "the store refused it (status {status})"),
            Self::TooLong => f.write_str("the object is longer than the format allows"),
            Self::Name => f.write_str("the name is none of a sealed volume's"),
            Self::Held => f.write_str("another process of this machine has it open for writing"),
            Self::Read => f.write_str("another process of this machine has it open for reading"),
            Self::EarlierFailure => f.write_str("the store could not keep what it was given earlier"),
        }
    }
}

impl core::error::Error for StoreError {}
