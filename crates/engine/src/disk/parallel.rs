//! One request cut into contiguous pieces, one for each core, that share nothing.
//!
//! The caller works too; helpers are threads that live as long as the request. How many there may be at a time is
//! limited for the whole disk, so that many large requests do not multiply. Helpers that the system refuses to start
//! only make the request slower: whoever is there does all pieces.

use atrest_device::DeviceError;

use super::SPLIT_MIN;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, PoisonError, thread};

/// The threads that large requests may start.
pub struct Helpers {
    threads: usize,
    free: AtomicUsize,
}

/// Helpers taken for one request, given back when dropped.
struct Taken<'a> {
    count: usize,
    from: &'a AtomicUsize,
}

type Outcome = Result<(), DeviceError>;

impl Helpers {
    /// `threads` in all, the caller's included; 0 stands for all cores.
    pub fn new(threads: usize) -> Self {
        let threads = match threads {
            0 => thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        Self { threads, free: AtomicUsize::new(threads - 1) }
    }

    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `work(skip, piece)` for pieces of `data`, each a multiple of `unit`.
    pub fn split(&self, data: &[u8], unit: usize, work: impl Fn(usize, &[u8]) -> Outcome + Sync) -> Outcome {
        let taken = self.take(data.len());
        let len = piece_len(data.len(), unit, taken.count + 1);
        run(data.chunks(len).enumerate().map(|(index, piece)| (index * len, piece)), &|(skip, piece)| {
            work(skip, piece)
        })
    }

    /// Runs `work(skip, piece)` for pieces of `data` that `work` may change, each a multiple of `unit`.
    pub fn split_mut(
        &self,
        data: &mut [u8],
        unit: usize,
        work: impl Fn(usize, &mut [u8]) -> Outcome + Sync,
    ) -> Outcome {
        let total = data.len();
        self.split_mut_as(data, unit, total, work)
    }

    /// Runs `work(skip, piece)` for pieces of `data` that `work` may change, each a multiple of `unit`. As many
    /// helpers are taken as `cost` bytes are worth, whatever the length of `data`.
    pub fn split_mut_as(
        &self,
        data: &mut [u8],
        unit: usize,
        cost: usize,
        work: impl Fn(usize, &mut [u8]) -> Outcome + Sync,
    ) -> Outcome {
        let taken = self.take(cost);
        let len = piece_len(data.len(), unit, taken.count + 1);
        run(data.chunks_mut(len).enumerate().map(|(index, piece)| (index * len, piece)), &|(skip, piece)| {
            work(skip, piece)
        })
    }

    /// Runs `work(skip, len)` for pieces of `total` bytes that need no buffer, each a multiple of `unit`.
    pub fn split_len(
        &self,
        total: usize,
        unit: usize,
        work: impl Fn(usize, usize) -> Outcome + Sync,
    ) -> Outcome {
        let taken = self.take(total);
        let len = piece_len(total, unit, taken.count + 1);
        run((0..total).step_by(len).map(|skip| (skip, len.min(total - skip))), &|(skip, len)| work(skip, len))
    }

    /// As many helpers as are free and worth starting for `len` bytes.
    fn take(&self, len: usize) -> Taken<'_> {
        let want = if len < SPLIT_MIN { 0 } else { len / (SPLIT_MIN / 2) - 1 };
        let mut count = 0;
        if want > 0 && self.threads > 1 {
            let take = |free: usize| {
                count = free.min(want);
                Some(free - count)
            };
            // `take` always answers, so this cannot fail.
            let _ = self.free.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        }
        Taken { count, from: &self.free }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.from.fetch_add(self.count, Ordering::AcqRel);
    }
}

fn piece_len(total: usize, unit: usize, pieces: usize) -> usize {
    total.div_ceil(pieces).next_multiple_of(unit).max(unit)
}

/// Does all pieces, here and on a helper for each but one. The error with the lowest offset is returned.
fn run<P>(
    mut pieces: impl ExactSizeIterator<Item = P> + Send,
    work: &(impl Fn(P) -> Outcome + Sync),
) -> Outcome {
    // intended: nothing to do needs no helper.
    let helpers = pieces.len().saturating_sub(1);
    if helpers == 0 {
        return pieces.next().map_or(Ok(()), work);
    }
    let pieces = Mutex::new(pieces);
    let work_off = || {
        let mut outcome = Ok(());
        loop {
            let next = pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(piece) = next else { return outcome };
            outcome = first_error(outcome, work(piece));
        }
    };
    thread::scope(|scope| {
        let start = |_| thread::Builder::new().spawn_scoped(scope, work_off).ok();
        let helpers: Vec<_> = (0..helpers).map_while(start).collect();
        let mut outcome = work_off();
        for helper in helpers {
            let other = helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            outcome = first_error(outcome, other);
        }
        outcome
    })
}

fn first_error(a: Outcome, b: Outcome) -> Outcome {
    match (a, b) {
        (Err(a), Err(b)) if b.offset < a.offset => Err(b),
        (Ok(()), b) => b,
        (a, _) => a,
    }
}
