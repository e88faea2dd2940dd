//! When a file was last seen to be as long as it was when it was opened.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// For so long nobody asks again.
const PATIENCE: Duration = Duration::from_millis(1);

/// When a file was last seen whole.
#[derive(Debug)]
pub struct Wholeness {
    opened: Instant,
    /// Microseconds from then on until the question is asked again.
    until: AtomicU64,
}

impl Wholeness {
    pub fn new() -> Self {
        Self { opened: Instant::now(), until: AtomicU64::new(0) }
    }

    /// Whether it was seen whole a moment ago.
    pub fn was_seen(&self) -> bool {
        self.opened.elapsed().as_micros() < u128::from(self.until.load(Ordering::Relaxed))
    }

    /// It is whole now.
    pub fn saw(&self) {
        // cannot miss: no program runs for half a million years.
        let until = u64::try_from((self.opened.elapsed() + PATIENCE).as_micros()).unwrap_or(0);
        self.until.store(until, Ordering::Relaxed);
    }
}
