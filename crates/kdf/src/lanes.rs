//! The threads of one Argon2 derivation. The library computes lanes in whatever rayon pool its caller is in; it gets
//! one that lives as long as the derivation, so that no thread keeps what it computed on its stack, and that does with
//! fewer threads where the system refuses them, down to none but the caller's.

use std::io;
use std::mem;
use std::thread;

use atrest_secret::with_wiped_stack;
use rayon_core::ThreadPoolBuilder;

/// Runs `derive` with one thread for each lane, but no more than there are processors. The stacks are wiped.
pub fn on_own_threads<R: Send>(lanes: u32, derive: impl FnOnce() -> R + Send) -> R {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    // intended: more lanes than processors.
    let lanes = usize::try_from(lanes).unwrap_or(usize::MAX);
    on_at_most(lanes.min(processors).max(1), &|| Ok(()), derive)
}

/// Runs `derive` with this many threads, or with half as many whenever one is refused, down to the caller's own. `may_start`
/// refuses threads as the system might. The stacks are wiped.
fn on_at_most<R: Send>(
    threads: usize,
    may_start: &dyn Fn() -> io::Result<()>,
    mut derive: impl FnOnce() -> R + Send,
) -> R {
    let mut threads = threads;
    while threads > 0 {
        match on_exactly(threads, may_start, derive) {
            Ok(done) => return done,
            Err(refused) => derive = refused,
        }
        threads /= 2;
    }
    // This thread joins a pool of its own alone, which it can never leave: a pool costs some hundred bytes, and a
    // thread joins only one. An error says that it has joined one already.
    mem::forget(ThreadPoolBuilder::new().num_threads(1).use_current_thread().build());
    with_wiped_stack(derive)
}

/// Gives `derive` back if not all threads could be started.
fn on_exactly<R: Send, F: FnOnce() -> R + Send>(
    threads: usize,
    may_start: &dyn Fn() -> io::Result<()>,
    derive: F,
) -> Result<R, F> {
    thread::scope(|scope| {
        let start = |worker: rayon_core::ThreadBuilder| {
            may_start()?;
            let work = || with_wiped_stack(|| worker.run());
            thread::Builder::new().spawn_scoped(scope, work).map(drop)
        };
        match ThreadPoolBuilder::new().num_threads(threads).spawn_handler(start).build() {
            Ok(pool) => Ok(pool.install(derive)),
            Err(_) => Err(derive),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// How many threads work where the system gives `limit` of them at a time, and whether this one is among them.
    fn workers(wanted: usize, limit: usize) -> (usize, bool) {
        let caller = thread::current().id();
        let left = Cell::new(0);
        let may_start = || {
            // A new attempt begins after a refusal.
            if left.get() == 0 {
                left.set(limit + 1);
            }
            left.set(left.get() - 1);
            if left.get() == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        };
        on_at_most(wanted, &may_start, || {
            (rayon_core::current_num_threads(), thread::current().id() == caller)
        })
    }

    #[test]
    fn fewer_threads_are_used_where_the_system_refuses_more() {
        assert_eq!(workers(4, 4), (4, false));
        assert_eq!(workers(4, 3), (2, false));
        assert_eq!(workers(4, 1), (1, false));
        // Again and again: this thread can't leave the pool that it joined.
        for _ in 0..3 {
            assert_eq!(workers(4, 0), (1, true));
        }
        assert_eq!(workers(4, 4), (4, false));
    }
}
