//! What can go wrong between us and a flash medium, with the address at which it did.

use core::fmt;

use crate::{Cause, DeviceError, TrustedStoreError};

/// A failed flash operation: what was tried, where, and why it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashError {
    /// What was tried.
    pub operation: FlashOperation,
    /// First byte of the range that failed (0 for [`FlashOperation::Sync`]).
    pub address: u64,
    /// Bytes in the range (0 for [`FlashOperation::Sync`]).
    pub len: u64,
    /// Why it failed.
    pub cause: FlashCause,
}

/// The operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashOperation {
    /// Reading.
    Read,
    /// Programming.
    Prog,
    /// Erasing.
    Erase,
    /// Making programs and erases durable.
    Sync,
    /// Asking whether a prog unit is blank.
    BlankQuery,
}

/// Why a flash operation failed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashCause {
    /// The range does not lie inside the medium, whose size in bytes is given.
    OutOfBounds {
        /// Size of the medium in bytes.
        size: u64,
    },
    /// Address or length is not a multiple of the operation's unit.
    Misaligned {
        /// The required multiple in bytes.
        multiple: u32,
    },
    /// The medium reports that the program or erase failed: the block has gone bad.
    BadBlock {
        /// Index of the erase block.
        block: u64,
    },
    /// What is stored can't be read back: more bits are wrong than the medium's code corrects.
    Uncorrectable,
    /// A unit was to be programmed again before an erase.
    AlreadyProgrammed {
        /// Address of the unit.
        unit: u64,
    },
    /// The medium is write-protected.
    ReadOnly,
    /// The caller's buffer is too small.
    BufferTooSmall {
        /// Bytes that are needed.
        needs: u32,
        /// Bytes that there are.
        has: u64,
    },
    /// An encrypting layer's cipher refused.
    Cipher,
    /// What is stored is not what was stored: it was changed, moved, put back, or damaged. Only an authenticating layer says so.
    Tampered {
        /// Index of the erase block.
        block: u64,
        /// Index of the unit in it.
        unit: u32,
    },
    /// An authenticating layer found tampering before, and writes nothing since then.
    Stopped,
    /// The block holds nothing, and has to be erased before it can hold anything.
    Void {
        /// Index of the erase block.
        block: u64,
    },
    /// Nothing is added to this block before it is erased.
    Closed {
        /// Index of the erase block.
        block: u64,
    },
    /// Units of a block are programmed from the first on, and this one is not next.
    OutOfOrder {
        /// Index of the unit that is next.
        next: u32,
    },
    /// The trusted store failed.
    TrustedStore(TrustedStoreError),
    /// All numbers for sealing under this key are used up.
    WornOut,
    /// The medium does not support the operation.
    Unsupported,
    /// The medium is a file or a block device, and that failed.
    Device(Cause),
    /// The driver's own code: a bus error, a timeout.
    Driver(i32),
}

impl FlashError {
    /// An error at a byte range.
    pub const fn new(operation: FlashOperation, address: u64, len: u64, cause: FlashCause) -> Self {
        Self { operation, address, len, cause }
    }

    /// What the block device below a medium says of an operation on the medium.
    pub const fn of_device(operation: FlashOperation, error: DeviceError) -> Self {
        let cause = match error.cause {
            Cause::ReadOnly => FlashCause::ReadOnly,
            Cause::OutOfBounds { size } => FlashCause::OutOfBounds { size },
            cause => FlashCause::Device(cause),
        };
        Self::new(operation, error.offset, error.len, cause)
    }
}

impl fmt::Display for FlashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, address, len, cause } = self;
        match operation {
            FlashOperation::Sync => write!(f, "cannot make programs and erases durable: {cause}"),
            _ => write!(f, "{operation} of {len} bytes at address {address:#x} failed: {cause}"),
        }
    }
}

impl fmt::Display for FlashOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Prog => "program",
            Self::Erase => "erase",
            Self::Sync => "sync",
            Self::BlankQuery => "blank query",
        })
    }
}

impl fmt::Display for FlashCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfBounds { size } => write!(f, "the range lies outside the medium of {size} bytes"),
            Self::Misaligned { multiple } => write!(f, "the range is not a multiple of {multiple} bytes"),
            Self::BadBlock { block } => write!(f, "erase block {block} has gone bad"),
            Self::Uncorrectable => f.write_str("more bits are wrong than can be corrected"),
            Self::AlreadyProgrammed { unit } => {
                write!(f, "the unit at {unit:#x} was programmed already and not erased since")
            }
            Self::ReadOnly => f.write_str("the medium is write-protected"),
            Self::BufferTooSmall { needs, has } => {
                write!(f, "the buffer has {has} bytes, {needs} are needed")
            }
            Self::Cipher => f.write_str("the cipher refused"),
            Self::Tampered { block, unit } => {
                write!(f, "unit {unit} of erase block {block} is not what was stored there")
            }
            Self::Stopped => f.write_str("tampering was detected, and nothing is written since then"),
            Self::Void { block } => write!(f, "erase block {block} holds nothing: erase it first"),
            Self::Closed { block } => {
                write!(f, "erase block {block} takes no more units before it is erased")
            }
            Self::OutOfOrder { next } => write!(f, "unit {next} of the block is to be programmed first"),
            Self::TrustedStore(error) => error.fmt(f),
            Self::WornOut => {
                f.write_str("the numbers for sealing are used up: copy the files to a new volume")
            }
            Self::Unsupported => f.write_str("the medium does not support it"),
            Self::Device(cause) => cause.fmt(f),
            Self::Driver(code) => write!(f, "driver error {code}"),
        }
    }
}

impl core::error::Error for FlashError {}

#[cfg(test)]
mod tests {
    extern crate alloc;

    use super::*;
    use crate::Operation;
    use alloc::string::ToString;

    #[test]
    fn what_a_device_says_is_kept_and_said() {
        let of = |cause| {
            FlashError::of_device(FlashOperation::Prog, DeviceError::new(Operation::Write, 512, 16, cause))
        };
        assert_eq!(of(Cause::ReadOnly).cause, FlashCause::ReadOnly);
        assert_eq!(of(Cause::OutOfBounds { size: 9 }).cause, FlashCause::OutOfBounds { size: 9 });
        assert_eq!(
            of(Cause::NoSpace).to_string(),
            "program of 16 bytes at address 0x200 failed: no space is left on the media"
        );
    }
}
