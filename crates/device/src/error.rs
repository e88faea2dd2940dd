//! What can go wrong between us and the media, with the position at which it did.

use core::fmt;

/// A failed device operation: what was tried, where, and why it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceError {
    /// What was tried.
    pub operation: Operation,
    /// First byte of the range that failed (0 for operations on the whole device).
    pub offset: u64,
    /// Bytes in the range (0 for operations on the whole device).
    pub len: u64,
    /// Why it failed.
    pub cause: Cause,
}

/// The operation that failed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Opening, or asking for the size.
    Open,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Making writes durable.
    Flush,
    /// Telling the media that a range is no longer used.
    Discard,
    /// Taking or releasing the metadata lock.
    Lock,
}

/// Why an operation failed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The operating system's error number (`errno`).
    Os(i32),
    /// The range does not lie inside the device, whose size in bytes is given.
    OutOfBounds {
        /// Size of the device in bytes.
        size: u64,
    },
    /// The media ended before the range was transferred: it was truncated or it shrank.
    UnexpectedEnd,
    /// No room is left on the media.
    NoSpace,
    /// The device was opened for reading only.
    ReadOnly,
    /// A hidden volume that is protected lies there, or a write to it was refused before: from then on every write is.
    Protected,
    /// Another process holds the lock.
    Busy,
    /// What holds the bytes can't be opened, so it can't be locked: a loop device's file was deleted, moved out of
    /// sight or belongs to somebody else.
    OutOfReach,
    /// The operation is not supported by this device.
    Unsupported,
    /// An earlier flush failed, so nothing can be acknowledged any more.
    EarlierFlushFailed,
    /// The offset or length is not a multiple of the device's block size.
    Misaligned {
        /// The required multiple in bytes.
        multiple: u32,
    },
    /// The device is gone (a test's simulated power loss, a closed connection).
    Gone,
    /// The volume was closed while it was suspended: nobody had its key.
    Suspended,
    /// What holds the bytes did not answer in time.
    Silent,
    /// The server that holds the bytes does not follow its protocol.
    BrokenProtocol,
    /// What is stored there is not what was written there: an authentication tag is wrong.
    Tampered,
    /// A data unit is not what was written there: its tag is wrong. Others beside it may be readable.
    Tag {
        /// The data unit, counted from the start of the volume's segment.
        unit: u64,
    },
    /// A block that a tree of hashes protects does not have the hash that the tree has for it (dm-verity).
    WrongHash {
        /// 0 for a block of the data; higher levels are of the tree.
        level: u8,
        /// Which block of the level, from 0.
        block: u64,
    },
    /// The server that holds the bytes refused, with this status of its protocol (such as HTTP's).
    Refused {
        /// The status.
        status: u16,
    },
}

impl DeviceError {
    /// An error at a byte range.
    pub const fn new(operation: Operation, offset: u64, len: u64, cause: Cause) -> Self {
        Self { operation, offset, len, cause }
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.operation, self.len) {
            (Operation::Open, _) => write!(f, "cannot open the device: {}", self.cause),
            (Operation::Lock, _) => write!(f, "cannot lock the device: {}", self.cause),
            (Operation::Flush, _) => write!(f, "cannot make writes durable: {}", self.cause),
            (op, len) => write!(f, "{op} of {len} bytes at offset {} failed: {}", self.offset, self.cause),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Open => "open",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush => "flush",
            Operation::Discard => "discard",
            Operation::Lock => "lock",
        })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Os(errno) => write!(f, "operating system error {errno}"),
            Cause::OutOfBounds { size } => write!(f, "the range lies outside the device of {size} bytes"),
            Cause::UnexpectedEnd => f.write_str("the media ended early (truncated, or it shrank)"),
            Cause::NoSpace => f.write_str("no space is left on the media"),
            Cause::ReadOnly => f.write_str("the device is open for reading only"),
            Cause::Protected => f.write_str(
                "a write reached the hidden volume that is protected, and since then nothing is written",
            ),
            Cause::Busy => f.write_str("another process is using it"),
            Cause::OutOfReach => f.write_str("the file behind it can't be opened, so it can't be locked"),
            Cause::Unsupported => f.write_str("the device does not support it"),
            Cause::EarlierFlushFailed => f.write_str("an earlier flush failed; earlier writes may be lost"),
            Cause::Misaligned { multiple } => write!(f, "the range is not a multiple of {multiple} bytes"),
            Cause::Gone => f.write_str("the device is gone"),
            Cause::Suspended => f.write_str("the volume was closed while it was suspended"),
            Cause::Silent => f.write_str("it did not answer in time"),
            Cause::BrokenProtocol => f.write_str("the server does not follow its protocol"),
            Cause::Tampered => f.write_str("it is not what was written there (its tag is wrong)"),
            Cause::Tag { unit } => {
                write!(f, "data unit {unit} is not what was written there (its tag is wrong)")
            }
            Cause::WrongHash { level: 0, block } => {
                write!(f, "block {block} of the data was changed (its hash is wrong)")
            }
            Cause::WrongHash { level, block } => {
                write!(f, "block {block} in level {level} of the hash tree was changed (its hash is wrong)")
            }
            Cause::Refused { status } => write!(f, "the server refused it (status {status})"),
        }
    }
}

impl core::error::Error for DeviceError {}
