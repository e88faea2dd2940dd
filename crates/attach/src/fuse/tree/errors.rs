//! What a program is told of a tree's failure.

use atrest_device::{Cause, FlashCause};
use atrest_filetree::{EncryptionFault, LowerError, TreeError};
use rustix::io::Errno;

/// The error number that says it best.
pub(super) fn errno_of(error: &TreeError) -> Errno {
    match error {
        TreeError::NotFound => Errno::NOENT,
        TreeError::NotADirectory => Errno::NOTDIR,
        TreeError::IsADirectory => Errno::ISDIR,
        TreeError::Exists => Errno::EXIST,
        TreeError::NotEmpty => Errno::NOTEMPTY,
        TreeError::ReadOnly => Errno::ROFS,
        TreeError::NoSpace => Errno::NOSPC,
        TreeError::TooLarge { .. } => Errno::FBIG,
        TreeError::UnsupportedName { .. } | TreeError::Path(_) => Errno::NAMETOOLONG,
        TreeError::NotALink | TreeError::NotAFile | TreeError::BeyondEnd { .. } | TreeError::IntoItself => {
            Errno::INVAL
        }
        TreeError::TooManyLinks { .. } => Errno::LOOP,
        TreeError::Encrypted { .. } | TreeError::Lower(LowerError::NoKey { .. }) => Errno::ACCESS,
        // As the kernel says it.
        TreeError::Locked { .. } => Errno::NOKEY,
        TreeError::Encryption { fault: EncryptionFault::KeyTooShort { .. }, .. } => Errno::NOKEY,
        TreeError::Encryption {
            fault: EncryptionFault::MixedPolicy { .. } | EncryptionFault::Unencrypted { .. },
            ..
        } => Errno::PERM,
        // What moves files then copies them.
        TreeError::Unsupported => Errno::XDEV,
        TreeError::Device(error) => errno_of_cause(error.cause),
        TreeError::Flash(error) => match error.cause {
            FlashCause::Device(cause) => errno_of_cause(cause),
            FlashCause::Driver(number) if number > 0 => Errno::from_raw_os_error(number),
            FlashCause::ReadOnly => Errno::ROFS,
            _ => Errno::IO,
        },
        _ => Errno::IO,
    }
}

fn errno_of_cause(cause: Cause) -> Errno {
    match cause {
        Cause::Os(number) => Errno::from_raw_os_error(number),
        Cause::NoSpace => Errno::NOSPC,
        Cause::ReadOnly | Cause::Protected => Errno::ROFS,
        _ => Errno::IO,
    }
}
