//! What a device remembers of its flushes.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::{Cause, DeviceError, Operation};

/// Whether a flush of a device has failed. Its first failure is the last word: the kernel drops the pages that it could not
/// write, so a second attempt would succeed without them.
///
/// A [`BlockDevice`](crate::BlockDevice) whose media doesn't remember asks this before each write, and once more before it
/// says that one is done.
#[derive(Debug, Default)]
pub struct Durability {
    failed: AtomicBool,
}

impl Durability {
    /// No flush has failed.
    pub const fn new() -> Self {
        Self { failed: AtomicBool::new(false) }
    }

    /// Fails if a flush has failed.
    ///
    /// # Errors
    /// [`Cause::EarlierFlushFailed`], with what was to be done.
    pub fn check(&self, operation: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        if self.failed.load(Ordering::Acquire) {
            return Err(DeviceError::new(operation, offset, len, Cause::EarlierFlushFailed));
        }
        Ok(())
    }

    /// Flushes by `flush`.
    ///
    /// # Errors
    /// Its error, and [`Cause::EarlierFlushFailed`] if another has failed before or meanwhile.
    pub fn flush(&self, flush: impl FnOnce() -> Result<(), DeviceError>) -> Result<(), DeviceError> {
        self.check(Operation::Flush, 0, 0)?;
        flush().inspect_err(|_| self.failed.store(true, Ordering::Release))?;
        self.check(Operation::Flush, 0, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ERROR: DeviceError = DeviceError::new(Operation::Flush, 0, 0, Cause::Os(5));

    #[test]
    fn the_first_failure_is_the_last_word() {
        let state = Durability::new();
        assert_eq!(state.flush(|| Ok(())), Ok(()));
        assert_eq!(state.check(Operation::Write, 1, 2), Ok(()));
        assert_eq!(state.flush(|| Err(ERROR)), Err(ERROR));
        let earlier =
            |operation, offset, len| Err(DeviceError::new(operation, offset, len, Cause::EarlierFlushFailed));
        assert_eq!(state.check(Operation::Write, 1, 2), earlier(Operation::Write, 1, 2));
        assert_eq!(state.flush(|| panic!("nothing is flushed any more")), earlier(Operation::Flush, 0, 0));
    }

    #[test]
    fn a_flush_beside_one_that_fails_has_not_succeeded() {
        let state = Durability::new();
        let beside = state.flush(|| {
            assert_eq!(state.flush(|| Err(ERROR)), Err(ERROR));
            Ok(())
        });
        assert_eq!(beside, Err(DeviceError::new(Operation::Flush, 0, 0, Cause::EarlierFlushFailed)));
    }
}
