//! Why a key could not be derived.

use core::fmt;

/// A derivation that was refused or failed. No passphrase makes it succeed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KdfError {
    /// PBKDF2 needs at least one iteration.
    NoIterations,
    /// The function can't yield that many bytes.
    OutputLen {
        /// Bytes that were asked for.
        len: usize,
    },
    /// The salt is too short for the function.
    SaltTooShort {
        /// Bytes in the salt.
        len: usize,
        /// Bytes it must have at least.
        min: usize,
    },
    /// An input has more bytes than the function can take.
    InputTooLong {
        /// Bytes in the input.
        len: usize,
    },
    /// A cost parameter lies outside the range that is accepted.
    CostOutOfRange {
        /// Which parameter.
        parameter: CostParameter,
        /// Its value.
        value: u64,
        /// The smallest accepted value.
        min: u64,
        /// The largest accepted value.
        max: u64,
    },
    /// The work area does not fit into the memory that the system can give to this process now, or that was given.
    NotEnoughMemory {
        /// Bytes that the derivation needs.
        needs: u64,
        /// Bytes that are available.
        has: u64,
    },
    /// The allocator refused the work area.
    AllocationFailed {
        /// Bytes that the derivation needs.
        needs: u64,
    },
    /// The derivation would take longer than its caller permits.
    TooMuchWork {
        /// Seconds of processor time that it would take here, about.
        seconds: u64,
        /// Seconds that it may take.
        limit: u64,
    },
    /// The caller ended the derivation.
    Cancelled,
}

/// The cost parameters of the memory-hard functions.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostParameter {
    /// Argon2: passes over the memory.
    Time,
    /// Argon2: KiB of memory.
    MemoryKib,
    /// Argon2: lanes.
    Lanes,
    /// Argon2: passes times KiB of memory, the whole work.
    Work,
    /// scrypt: log2 of N.
    LogN,
    /// scrypt: block size r.
    BlockSize,
    /// scrypt: parallelization p.
    Parallelization,
    /// scrypt: bytes of the work area, which follow from the other three.
    MemoryBytes,
    /// Catena: depth of the graph.
    Lambda,
    /// Catena: log2 of the nodes.
    Garlic,
    /// Catena: log2 of the nodes at the first level.
    MinGarlic,
}

impl fmt::Display for CostParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CostParameter::Time => "time cost (passes)",
            CostParameter::MemoryKib => "memory cost (KiB)",
            CostParameter::Lanes => "number of lanes",
            CostParameter::Work => "work (passes times KiB)",
            CostParameter::LogN => "scrypt cost (log2 N)",
            CostParameter::BlockSize => "scrypt block size r",
            CostParameter::Parallelization => "scrypt parallelization p",
            CostParameter::MemoryBytes => "scrypt memory (bytes)",
            CostParameter::Lambda => "Catena depth lambda",
            CostParameter::Garlic => "Catena garlic (log2 of the nodes)",
            CostParameter::MinGarlic => "Catena garlic of the first level",
        })
    }
}

impl fmt::Display for KdfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KdfError::NoIterations => f.write_str("key derivation with 0 iterations is not defined"),
            KdfError::OutputLen { len } => write!(f, "key derivation cannot yield {len} bytes"),
            KdfError::SaltTooShort { len, min } => {
                write!(f, "the salt has {len} bytes, but key derivation needs at least {min}")
            }
            KdfError::InputTooLong { len } => {
                write!(f, "an input of {len} bytes is too long for key derivation")
            }
            KdfError::CostOutOfRange { parameter, value, min, max } => {
                write!(f, "the {parameter} is {value}, but must lie between {min} and {max}")
            }
            KdfError::NotEnoughMemory { needs, has } => {
                write!(f, "key derivation needs {needs} bytes of memory, but only {has} bytes are available")
            }
            KdfError::AllocationFailed { needs } => {
                write!(f, "the {needs} bytes of memory for key derivation could not be allocated")
            }
            KdfError::TooMuchWork { seconds, limit } => {
                write!(
                    f,
                    "key derivation would take about {seconds} s here, more than the {limit} s that it may take"
                )
            }
            KdfError::Cancelled => f.write_str("key derivation was cancelled"),
        }
    }
}

impl core::error::Error for KdfError {}
