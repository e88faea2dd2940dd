//! Long files written in order are brought to the medium while they are written.
//!
//! The system by itself waits for seconds, or until a good part of the memory is to be written; whoever then asks for a sync waits for
//! all of it. Short files and those written here and there are left to the system, which may never have to write them.

use std::fs::File;
use std::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};

use rustix::fs::Advice;

/// Bytes in order after which a file counts as long.
const LONG: u64 = 16 << 20;
/// Bytes that are brought to the medium at once.
const STEP: u64 = 8 << 20;

/// What has been written in order through one handle.
#[derive(Default)]
pub(super) struct WriteBehind(Mutex<Run>);

#[derive(Default)]
struct Run {
    /// Where it began.
    start: u64,
    /// Up to where it is on its way to the medium.
    begun: u64,
    end: u64,
}

impl Run {
    /// Notes a write, and says which range it is time for.
    fn wrote(&mut self, offset: u64, len: u64) -> Option<(u64, NonZeroU64)> {
        if offset != self.end {
            (self.start, self.begun) = (offset, offset);
        }
        // cannot overflow: the system has written it.
        self.end = offset.saturating_add(len);
        // intended: nothing is due before what was begun.
        let due = self.end.saturating_sub(self.begun);
        // cannot be less: a run begins before its end.
        if self.end.saturating_sub(self.start) < LONG || due < STEP {
            return None;
        }
        let from = std::mem::replace(&mut self.begun, self.end);
        NonZeroU64::new(due).map(|due| (from, due))
    }
}

impl WriteBehind {
    /// Notes a write to a lower file whose contents begin at `contents_at`.
    pub fn wrote(&self, lower: Option<(&File, u64)>, offset: u64, len: usize) {
        let due = self.0.lock().unwrap_or_else(PoisonError::into_inner).wrote(offset, len as u64);
        if let (Some((from, len)), Some((file, contents_at))) = (due, lower) {
            // What is clean is forgotten, and what is not is brought to the medium so that it can be: the advice is taken for
            // the latter. Pages on their way stay. Nobody depends on it, so a failure is none.
            // cannot overflow: advice about what was written.
            let _ = rustix::fs::fadvise(file, from.saturating_add(contents_at), Some(len), Advice::DontNeed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn only_long_runs_are_begun_and_each_byte_once() {
        let mut run = Run::default();
        let mut begun = Vec::new();
        for i in 0..40 {
            begun.extend(run.wrote((7 + i) * MIB, MIB).map(|(from, len)| (from / MIB, len.get() / MIB)));
        }
        assert_eq!(begun, [(7, 16), (23, 8), (31, 8), (39, 8)]);
        assert_eq!(run.wrote(0, MIB), None);
        for i in 0..100 {
            assert_eq!(run.wrote(i * 3 * MIB, 2 * MIB), None, "{i}");
        }
        assert_eq!(run.wrote(u64::MAX - 1, MIB), None);
    }
}
