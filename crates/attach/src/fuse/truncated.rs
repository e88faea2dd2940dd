//! Files that were opened with `O_TRUNC`, as `cp` and a shell's `>` do.
//!
//! The volume keeps its size and its contents, as a disk would. But a program that has truncated a regular file takes
//! for zero what it then skips: `cp` skips the holes of its source. So what lies between the writes of such a program is
//! filled with zeros when it flushes or closes the file; what lies behind its last write stays.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The open files that can write.
#[derive(Default)]
pub(super) struct Writers {
    open: Mutex<Open>,
    /// How many of them were truncated. As long as there is none, writing costs nothing here.
    truncated: AtomicUsize,
}

#[derive(Default)]
struct Open {
    last: u64,
    /// In the order of opening.
    files: Vec<Writer>,
}

struct Writer {
    handle: u64,
    /// The thread that opened it.
    opener: u32,
    /// From truncation on: what anybody wrote since, and how far this file's own writes reach.
    since: Option<(Ranges, u64)>,
}

impl Writers {
    fn open_files(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new file; its handle is never 0.
    pub fn open(&self, opener: u32) -> u64 {
        let mut open = self.open_files();
        open.last += 1;
        let handle = open.last;
        open.files.push(Writer { handle, opener, since: None });
        handle
    }

    pub fn close(&self, handle: u64) {
        let mut open = self.open_files();
        if let Some(at) = open.files.iter().position(|file| file.handle == handle)
            && open.files.remove(at).since.is_some()
        {
            self.truncated.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// The kernel truncates right after opening, in the same thread, and does not say which file it means. False if
    /// that thread has none.
    pub fn truncate(&self, opener: u32) -> bool {
        let mut open = self.open_files();
        let Some(file) = open.files.iter_mut().rfind(|file| file.opener == opener) else { return false };
        if file.since.replace((Ranges::default(), 0)).is_none() {
            self.truncated.fetch_add(1, Ordering::SeqCst);
        }
        true
    }

    /// To be called before a write of `start..end` through `handle` begins.
    pub fn will_write(&self, handle: u64, start: u64, end: u64) {
        if self.truncated.load(Ordering::SeqCst) == 0 {
            return;
        }
        for file in &mut self.open_files().files {
            if let Some((written, reach)) = &mut file.since {
                written.insert(start, end);
                if file.handle == handle {
                    *reach = end.max(*reach);
                }
            }
        }
    }

    /// Whether the file was truncated; if so, it reaches up to `size` now.
    pub fn extend(&self, handle: u64, size: u64) -> bool {
        let mut open = self.open_files();
        let file = open.files.iter_mut().find(|file| file.handle == handle);
        let since = file.and_then(|file| file.since.as_mut());
        since.map(|(_, reach)| *reach = size.max(*reach)).is_some()
    }

    /// Has everything filled by `zero(start, end)` that the file's program takes for zero. Writes wait meanwhile.
    pub fn fill<E>(&self, handle: u64, mut zero: impl FnMut(u64, u64) -> Result<(), E>) -> Result<(), E> {
        if self.truncated.load(Ordering::SeqCst) == 0 {
            return Ok(());
        }
        let mut open = self.open_files();
        let file = open.files.iter_mut().find(|file| file.handle == handle);
        if let Some((written, reach)) = file.and_then(|file| file.since.as_mut()) {
            for (start, end) in written.gaps(*reach) {
                zero(start, end)?;
                written.insert(start, end);
            }
        }
        Ok(())
    }
}

/// Disjoint ranges of bytes, start to end, that do not touch.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn insert(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let (mut start, mut end) = (start, end);
        // Those that overlap or touch begin at `end` at the latest; the last of them reach furthest.
        while let Some((&from, &to)) = self.0.range(..=end).next_back().filter(|&(_, &to)| to >= start) {
            self.0.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.0.insert(start, end);
    }

    /// What is missing below `limit`.
    fn gaps(&self, limit: u64) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        let mut at = 0;
        for (&start, &end) in self.0.range(..limit) {
            if at < start {
                gaps.push((at, start));
            }
            at = end;
        }
        if at < limit {
            gaps.push((at, limit));
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use atrest_testkit::Random;

    use super::*;

    #[test]
    fn ranges_agree_with_a_bitmap() {
        let mut random = Random::new(1);
        for _ in 0..300 {
            let (mut ranges, mut bits) = (Ranges::default(), [false; 64]);
            for _ in 0..random.below(12) {
                let start = random.below(64);
                let end = start + random.below(65 - start);
                ranges.insert(start, end);
                bits[start as usize..end as usize].fill(true);
            }
            let limit = random.below(65);
            let mut missing = [false; 64];
            for (start, end) in ranges.gaps(limit) {
                assert!(start < end && (start == 0 || bits[start as usize - 1]));
                missing[start as usize..end as usize].fill(true);
            }
            for at in 0..64 {
                assert_eq!(missing[at], (at as u64) < limit && !bits[at], "{at} {ranges:?}");
            }
        }
    }

    #[test]
    fn only_what_the_truncating_file_skipped_is_filled() {
        let writers = Writers::default();
        let (a, b) = (writers.open(7), writers.open(8));
        let filled = |handle| {
            let mut list = Vec::new();
            let filled = writers.fill(handle, |start, end| {
                list.push((start, end));
                Ok::<_, ()>(())
            });
            filled.unwrap();
            list
        };
        writers.will_write(a, 0, 10);
        assert!(!writers.truncate(9));
        assert!(writers.truncate(7));
        assert_eq!(filled(a), []);
        writers.will_write(b, 50, 60);
        writers.will_write(b, 900, 910);
        assert_eq!(filled(a), [], "another file's writes do not count as its own");
        writers.will_write(a, 20, 30);
        writers.will_write(a, 80, 100);
        assert_eq!(filled(b), []);
        assert_eq!(filled(a), [(0, 20), (30, 50), (60, 80)]);
        assert_eq!(filled(a), []);
        assert!(!writers.extend(b, 1000));
        assert!(writers.extend(a, 1000));
        assert_eq!(filled(a), [(100, 900), (910, 1000)]);
        writers.close(a);
        writers.will_write(b, 2000, 2010);
        assert_eq!(writers.truncated.load(Ordering::SeqCst), 0);
        assert!(!writers.truncate(7));
    }
}
