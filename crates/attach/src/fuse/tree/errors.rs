//! What a program is told of a tree's failure.

use atrest_device::{Cause, FlashCause};
use atrest_filetree::{EncryptionFault, LowerError, TreeError};
use fuser::Errno;

/// The error number that says it best.
pub(super) fn errno_of(error: &TreeError) -> Errno {
    match error {
        TreeError::NotFound => Errno::ENOENT,
        TreeError::NotADirectory => Errno::ENOTDIR,
        TreeError::IsADirectory => Errno::EISDIR,
        TreeError::Exists => Errno::EEXIST,
        TreeError::NotEmpty => Errno::ENOTEMPTY,
        TreeError::ReadOnly => Errno::EROFS,
        TreeError::NoSpace => Errno::ENOSPC,
        TreeError::TooLarge { .. } => Errno::EFBIG,
        TreeError::UnsupportedName { .. } | TreeError::Path(_) => Errno::ENAMETOOLONG,
        TreeError::NotALink | TreeError::NotAFile | TreeError::BeyondEnd { .. } | TreeError::IntoItself => {
            Errno::EINVAL
        }
        TreeError::TooManyLinks { .. } => Errno::ELOOP,
        TreeError::Encrypted { .. } | TreeError::Lower(LowerError::NoKey { .. }) => Errno::EACCES,
        // As the kernel says it.
        TreeError::Locked { .. } => Errno::from_i32(rustix::io::Errno::NOKEY.raw_os_error()),
        TreeError::Encryption { fault: EncryptionFault::KeyTooShort { .. }, .. } => {
            Errno::from_i32(rustix::io::Errno::NOKEY.raw_os_error())
        }
        TreeError::Encryption {
            fault: EncryptionFault::MixedPolicy { .. } | EncryptionFault::Unencrypted { .. },
            ..
        } => Errno::EPERM,
        // What moves files then copies them.
        TreeError::Unsupported => Errno::EXDEV,
        TreeError::Device(error) => errno_of_cause(error.cause),
        TreeError::Flash(error) => match error.cause {
            FlashCause::Device(cause) => errno_of_cause(cause),
            FlashCause::Driver(number) if number > 0 => Errno::from_i32(number),
            FlashCause::ReadOnly => Errno::EROFS,
            _ => Errno::EIO,
        },
        _ => Errno::EIO,
    }
}

fn errno_of_cause(cause: Cause) -> Errno {
    match cause {
        Cause::Os(number) => Errno::from_i32(number),
        Cause::NoSpace => Errno::ENOSPC,
        Cause::ReadOnly => Errno::EROFS,
        _ => Errno::EIO,
    }
}
