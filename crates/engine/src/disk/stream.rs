//! Notices sequential reading, to have the media read ahead while what was read before is decrypted.
//!
//! The system reads ahead by itself, but only some 128 KiB, and not at all once several threads take turns. A read goes
//! on from the last one if it begins within [`NEAR`] times its own length of where that one ended, whichever thread that
//! was: requests that are in flight together overtake each other. [`IN_ORDER`] such reads in a row are a sequential reader.
//! Random reads, however close to each other, are not: of those in 4 MiB, one in 100,000 would be taken for one.

use crate::sync::atomic::{AtomicU64, Ordering};

/// Bytes to be read ahead.
const WINDOW: u64 = 4 << 20;
/// How many lengths of a read may lie between it and the end of the last one.
const NEAR: u64 = 16;
/// How many reads in a row go on from the one before, until more is read ahead.
const IN_ORDER: u64 = 4;

/// Where the last read ended, how many before it were in order, and how far ahead was asked for.
pub struct Stream {
    end: AtomicU64,
    in_order: AtomicU64,
    asked: AtomicU64,
}

impl Stream {
    pub fn new() -> Self {
        // No read goes on from here, so the first is not sequential.
        Self { end: AtomicU64::new(u64::MAX), in_order: AtomicU64::new(0), asked: AtomicU64::new(0) }
    }

    /// Notes a read and returns the range to be read ahead, if it is time to ask for more. Races between threads cost
    /// a hint too many or too few.
    pub fn ahead(&self, offset: u64, len: u64, size: u64) -> Option<(u64, u64)> {
        let end = offset + len;
        let previous = self.end.swap(end, Ordering::Relaxed);
        // intended: a length that has no such multiple is near to everything.
        if offset.abs_diff(previous) > len.saturating_mul(NEAR).min(WINDOW) {
            self.in_order.store(0, Ordering::Relaxed);
            self.asked.store(end, Ordering::Relaxed);
            return None;
        }
        let in_order = self.in_order.load(Ordering::Relaxed);
        if in_order < IN_ORDER {
            self.in_order.store(in_order + 1, Ordering::Relaxed);
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

#[cfg(all(test, not(shuttle)))]
mod tests {
    use atrest_testkit::Random;

    use super::*;

    const SIZE: u64 = 1 << 30;

    #[test]
    fn reads_in_order_are_read_ahead_of_also_where_they_overtake_each_other() {
        for len in [4096, 128 << 10, 1 << 20] {
            let stream = Stream::new();
            let mut asked = 0;
            // In flight together: 1 0 3 2 5 4 …
            for index in 0..64_u64 {
                let offset = (index ^ 1) * len;
                if let Some((from, ahead)) = stream.ahead(offset, len, SIZE) {
                    assert!(index >= IN_ORDER, "{len}: after {index} reads");
                    assert!(from + ahead <= offset + len + WINDOW && from >= asked, "{len}: twice");
                    asked = from + ahead;
                }
            }
            assert!(asked >= 64 * len, "{len}: {asked}");
        }
    }

    #[test]
    fn random_reads_are_not_read_ahead_of_however_close_they_are() {
        let mut random = Random::new(21);
        let stream = Stream::new();
        let mut asked = 0;
        for _ in 0..10_000 {
            let offset = random.below((4 << 20) / 4096) * 4096;
            asked += stream.ahead(offset, 4096, SIZE).map_or(0, |(_, len)| len);
        }
        assert!(asked <= WINDOW, "{asked} bytes for 10,000 reads of 4 KiB");
    }

    #[test]
    fn nothing_is_read_ahead_behind_the_end() {
        let stream = Stream::new();
        let size = 100 << 12;
        for index in 0..100 {
            if let Some((from, len)) = stream.ahead(index << 12, 1 << 12, size) {
                assert!(from + len <= size && len > 0);
            }
        }
        assert_eq!(stream.ahead(99 << 12, 1 << 12, size), None);
    }
}
