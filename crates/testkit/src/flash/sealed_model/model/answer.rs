//! What comes of operations.

use super::super::world::{Fault, Unstepped};

/// Why an operation ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The power is off.
    PowerLoss,
    /// The block takes no more units.
    Closed,
    /// What was programmed does not read back.
    Bad,
    /// The medium reports an error.
    Medium,
    /// Tampering was found before.
    Tampered,
    /// The record could not be stored.
    Store,
    /// Opening was refused.
    Refused(Refusal),
}

/// Why a medium was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Serials that can't be there.
    Future,
    /// Serials are missing.
    Gap,
    /// Not the anchored state.
    NotAnchored,
    /// There is no record.
    NoRecord,
}

/// What a read gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What was stored.
    Data(u64),
    /// Not programmed, but can be.
    Open,
    /// Not programmed, and can't be.
    Closed,
    /// The block holds nothing.
    Void,
    /// Not what was stored.
    Tampered,
}

impl From<Unstepped> for Stop {
    fn from(why: Unstepped) -> Self {
        match why {
            Unstepped::PowerLoss => Self::PowerLoss,
            Unstepped::Failed => Self::Store,
        }
    }
}

impl From<Fault> for Stop {
    fn from(why: Fault) -> Self {
        match why {
            Fault::PowerLoss => Self::PowerLoss,
            Fault::Refused => Self::Medium,
        }
    }
}
