//! On which processor a ring's thread runs.
//!
//! One request at a time is answered fastest where its caller runs: the processor goes from one to the other, and no other is
//! woken. Several at once are shared out better by the system. So a thread is bound to its queue's processor, and let go while other
//! threads have requests of that queue, too: one request at a time always comes to the same thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// So many requests in a row to the same thread, and it is bound.
const CALM: u32 = 32;

/// Which thread of one processor had the last request.
pub type Last = Arc<AtomicUsize>;

/// Where one thread runs.
pub struct Seat {
    processor: usize,
    /// Where it may run otherwise. None if that can't be told: then it is left where it is.
    anywhere: Option<CpuSet>,
    last: Last,
    /// The number of this thread, as [`Last`] has it.
    number: usize,
    is_bound: bool,
    /// Requests in a row that came to this thread.
    in_a_row: u32,
}

impl Seat {
    /// Binds the thread that calls.
    pub fn take(processor: usize, number: usize, last: Last) -> Self {
        let anywhere = sched_getaffinity(None).ok();
        let mut seat = Self { processor, anywhere, last, number, is_bound: false, in_a_row: 0 };
        seat.bind();
        seat
    }

    /// A request came.
    pub fn on_request(&mut self) {
        if self.last.swap(self.number, Ordering::Relaxed) != self.number {
            self.in_a_row = 0;
            self.let_go();
        } else if !self.is_bound {
            self.in_a_row += 1;
            if self.in_a_row >= CALM {
                self.bind();
            }
        }
    }

    // Where the system refuses either, requests only take longer.

    fn bind(&mut self) {
        if self.anywhere.is_some() && self.processor < CpuSet::MAX_CPU {
            let mut one = CpuSet::new();
            one.set(self.processor);
            let _ = sched_setaffinity(None, &one);
            self.is_bound = true;
        }
    }

    fn let_go(&mut self) {
        if let Some(anywhere) = self.anywhere.as_ref().filter(|_| self.is_bound) {
            let _ = sched_setaffinity(None, anywhere);
            self.is_bound = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_let_go_while_others_have_requests_and_bound_again_later() {
        let here = || sched_getaffinity(None).unwrap();
        let before = here();
        let mut one = CpuSet::new();
        one.set(0);
        let last = Last::default();
        let mut seat = Seat::take(0, 7, last.clone());
        assert!(seat.is_bound && here() == one);
        seat.on_request();
        assert!(!seat.is_bound && here() == before, "the one before came to thread 0");
        for request in 1..=CALM {
            assert!(!seat.is_bound, "after {request}");
            seat.on_request();
        }
        assert!(seat.is_bound && here() == one);
        seat.on_request();
        assert!(seat.is_bound);
        last.store(8, Ordering::Relaxed);
        seat.on_request();
        assert!(!seat.is_bound && here() == before);
        sched_setaffinity(None, &before).unwrap();
    }
}
