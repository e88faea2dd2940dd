//! A part of the plaintext that nobody may write, because a hidden volume lies there. Whoever writes the outer volume does not know of it, and
//! a file system of which one write was refused is in no state to be written any more: so the first such write ends all writing.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use atrest_device::{Cause, DeviceError, Operation};

#[derive(Debug)]
pub struct Guard {
    range: Range<u64>,
    tripped: AtomicBool,
}

impl Guard {
    pub fn new(range: Range<u64>) -> Self {
        Self { range, tripped: AtomicBool::new(false) }
    }

    /// Where nobody may write.
    pub fn range(&self) -> &Range<u64> {
        &self.range
    }

    /// What differs with another range.
    pub fn likeness(&self) -> [u8; 16] {
        (u128::from(self.range.start) | u128::from(self.range.end) << 64).to_le_bytes()
    }

    /// Permits a write unless it touches a data unit of the range, or one that did was refused before.
    ///
    /// # Errors
    /// [`Cause::Protected`], from then on for every write.
    pub fn permit(&self, operation: Operation, offset: u64, len: u64, unit: u64) -> Result<(), DeviceError> {
        // cannot overflow: the write lies on the disk, and a disk ends with a whole data unit.
        let (first, end) = (offset / unit * unit, (offset + len).next_multiple_of(unit));
        if len > 0 && first < self.range.end && end > self.range.start {
            self.tripped.store(true, Ordering::Release);
        }
        match self.tripped.load(Ordering::Acquire) {
            true => Err(DeviceError::new(operation, offset, len, Cause::Protected)),
            false => Ok(()),
        }
    }
}
