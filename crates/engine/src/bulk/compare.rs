//! Whether a copy is what it was made of: both are read again, and every byte is compared.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use atrest_device::BlockDevice;

use super::{BulkError, Progress};

/// Bytes of each that are read at once: both disks decrypt a piece of this length on all cores.
const PIECE: usize = 4 << 20;

/// Compares all of `source` with the beginning of `copy`.
///
/// What was just written may come from the system's cache, so this finds what was encrypted or placed wrongly, and not every
/// fault of a medium.
///
/// # Errors
/// [`BulkError::Differs`] at the first byte that differs, [`BulkError::DestinationTooSmall`] if `copy` is shorter,
/// [`BulkError::Read`] or [`BulkError::ReadBack`] if one of them can't be read, [`BulkError::Cancelled`].
pub fn compare(
    source: &dyn BlockDevice,
    copy: &dyn BlockDevice,
    cancel: Option<&AtomicBool>,
    progress: &mut dyn Progress,
) -> Result<(), BulkError> {
    let (total, has) = (source.size(), copy.size());
    if total > has {
        return Err(BulkError::DestinationTooSmall { needs: total, has });
    }
    let (mut left, mut right) = (vec![0; PIECE], vec![0; PIECE]);
    let mut done = 0;
    while done < total {
        if cancel.is_some_and(|cancel| cancel.load(Ordering::Acquire)) {
            return Err(BulkError::Cancelled { done, total });
        }
        let len = usize::try_from(total - done).map_or(PIECE, |rest| rest.min(PIECE));
        let (left, right) = (&mut left[..len], &mut right[..len]);
        let read = |buf: &mut [u8]| source.read_at(done, buf).map_err(BulkError::Read);
        let read_back = |buf: &mut [u8]| copy.read_at(done, buf).map_err(BulkError::ReadBack);
        thread::scope(|scope| {
            let other = scope.spawn(|| read_back(right));
            let here = read(left);
            let there = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            here.and(there)
        })?;
        if let Some(at) = left.iter().zip(&*right).position(|(left, right)| left != right) {
            return Err(BulkError::Differs { offset: done + at as u64 });
        }
        done += len as u64;
        progress.update(done, total);
    }
    Ok(())
}
