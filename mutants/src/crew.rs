//! Threads that do the same work until there is no more.

use std::thread;

/// Runs `work` on `count` threads, each with its number. Returns the first error.
pub fn work(count: usize, work: impl Fn(usize) -> Result<(), String> + Sync) -> Result<(), String> {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || work(number))).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err("a worker panicked".into())))
    })
}
