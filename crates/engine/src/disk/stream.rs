//! Notices sequential reading, to have the media read ahead while what was read before is decrypted.
//!
//! The system reads ahead by itself, but only some 128 KiB, and not at all once several threads take turns. A reader
//! counts as sequential if it goes on within [`WINDOW`] bytes of where the last read ended, whichever thread that was.

use crate::sync::atomic::{AtomicU64, Ordering};

/// Bytes to be read ahead.
const WINDOW: u64 = 4 << 20;

/// Where the last read ended, and how far ahead was asked for.
pub struct Stream {
    end: AtomicU64,
    asked: AtomicU64,
}

impl Stream {
    pub fn new() -> Self {
        // No read goes on from here, so the first is not sequential.
        Self { end: AtomicU64::new(u64::MAX), asked: AtomicU64::new(0) }
    }

    /// Notes a read and returns the range to be read ahead, if it is time to ask for more. Races between threads cost
    /// a hint too many or too few.
    pub fn ahead(&self, offset: u64, len: u64, size: u64) -> Option<(u64, u64)> {
        let end = offset + len;
        let previous = self.end.swap(end, Ordering::Relaxed);
        if offset.abs_diff(previous) > WINDOW {
            self.asked.store(end, Ordering::Relaxed);
            return None;
        }
        let asked = self.asked.load(Ordering::Relaxed);
        if asked > end + WINDOW / 2 || end >= size {
            return None;
        }
        let from = asked.max(end);
        let to = (end + WINDOW).min(size);
        if to <= from {
            return None;
        }
        self.asked.store(to, Ordering::Relaxed);
        Some((from, to - from))
    }
}
