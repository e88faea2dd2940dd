//! Counting while requests run: two looks at the clock and five additions for each.
//!
//! Threads count in different shards, so that they do not take cache lines from each other. Only whoever reads adds
//! the shards up. What is read fits together: there are never more errors than requests, and what has begun is in
//! flight or has ended.

use std::array;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use atrest_device::{Cause, DeviceError};

use super::{Bucket, Operation, OperationMetrics};

/// Threads beyond that share them.
const SHARDS: usize = 16;
/// Bounds of the histogram: 1 µs, and twice as much for each further one, up to 8.4 s.
const BOUNDS: usize = 24;

/// The counters of one device.
pub(crate) struct Counters {
    shards: Box<[Shard; SHARDS]>,
}

/// Two cache lines are fetched together on some processors.
#[repr(align(128))]
#[derive(Default)]
struct Shard([Counts; Operation::ALL.len()]);

#[derive(Default)]
struct Counts {
    in_flight: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    nanoseconds: AtomicU64,
    /// Requests that have ended, by what they took. The last holds what is beyond all bounds.
    ended: [AtomicU64; BOUNDS + 1],
}

impl Counters {
    pub fn new() -> Self {
        Self { shards: Box::new(array::from_fn(|_| Shard::default())) }
    }

    /// Carries out a request of so many bytes, and counts it.
    pub fn count<T>(
        &self,
        operation: Operation,
        len: u64,
        request: impl FnOnce() -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let counts = self.counts(operation);
        counts.in_flight.fetch_add(1, Ordering::Relaxed);
        let mut running = Running { counts, begun: Instant::now(), end: Err(()) };
        let outcome = request();
        running.end = end(&outcome, len);
        outcome
    }

    /// Carries out a request that may turn out to be none (`false`), which is not counted. It waits for nothing, so
    /// it is never seen in flight.
    pub fn count_if_done(
        &self,
        operation: Operation,
        len: u64,
        request: impl FnOnce() -> Result<bool, DeviceError>,
    ) -> Result<bool, DeviceError> {
        let begun = Instant::now();
        let outcome = request();
        if outcome != Ok(false) {
            let counts = self.counts(operation);
            counts.in_flight.fetch_add(1, Ordering::Relaxed);
            drop(Running { counts, begun, end: end(&outcome, len) });
        }
        outcome
    }

    fn counts(&self, operation: Operation) -> &Counts {
        &self.shards[shard()].0[operation as usize]
    }

    /// The sum of all shards.
    pub fn of(&self, operation: Operation) -> OperationMetrics {
        let mut sums = [0; BOUNDS + 1];
        let (mut in_flight, mut bytes, mut errors, mut nanoseconds) = (0, 0, 0, 0);
        for shard in &*self.shards {
            let counts = &shard.0[operation as usize];
            // In the opposite order of `Running::drop`.
            in_flight += counts.in_flight.load(Ordering::Acquire);
            errors += counts.errors.load(Ordering::Acquire);
            for (sum, ended) in sums.iter_mut().zip(&counts.ended) {
                *sum += ended.load(Ordering::Acquire);
            }
            bytes += counts.bytes.load(Ordering::Relaxed);
            nanoseconds += counts.nanoseconds.load(Ordering::Relaxed);
        }
        let mut requests = 0;
        let mut cumulative = sums.map(|sum| {
            requests += sum;
            requests
        });
        let latency = cumulative[..BOUNDS]
            .iter_mut()
            .enumerate()
            .map(|(at, count)| Bucket { le: bound(at), count: *count });
        let latency = latency.collect();
        let seconds = Duration::from_nanos(nanoseconds).as_secs_f64();
        OperationMetrics { requests, bytes, errors, in_flight, seconds, latency }
    }
}

/// Bytes that were moved, or that it failed. A discard that the media does not know, or that is not passed on to it,
/// is no failure: whoever asked for it is told that all is well.
fn end<T>(outcome: &Result<T, DeviceError>, len: u64) -> Result<u64, ()> {
    match outcome {
        Ok(_) => Ok(len),
        Err(DeviceError {
            cause: Cause::Unsupported, operation: atrest_device::Operation::Discard, ..
        }) => Ok(0),
        Err(_) => Err(()),
    }
}

/// A request that has not ended. A panic in the device's code ends it, too, as one that failed.
struct Running<'a> {
    counts: &'a Counts,
    begun: Instant,
    end: Result<u64, ()>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let took = self.begun.elapsed().as_nanos() as u64;
        self.counts.nanoseconds.fetch_add(took, Ordering::Relaxed);
        if let Ok(bytes) = self.end {
            self.counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        // Whoever sees that it has ended sees what is above, too, and whoever sees the error sees its end.
        self.counts.ended[bucket(took)].fetch_add(1, Ordering::Release);
        if self.end.is_err() {
            self.counts.errors.fetch_add(1, Ordering::Release);
        }
        self.counts.in_flight.fetch_sub(1, Ordering::Release);
    }
}

/// The first bound that is not exceeded, or what lies behind the last.
fn bucket(nanoseconds: u64) -> usize {
    let microseconds = nanoseconds.div_ceil(1000);
    let at = microseconds.max(1).next_power_of_two().trailing_zeros();
    (at as usize).min(BOUNDS)
}

/// A bound in seconds.
fn bound(at: usize) -> f64 {
    (1u64 << at) as f64 / 1e6
}

/// This thread's.
fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<Option<usize>> = const { Cell::new(None) };
    }
    OWN.with(|own| match own.get() {
        Some(shard) => shard,
        None => {
            let shard = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
            own.set(Some(shard));
            shard
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    const GONE: DeviceError = DeviceError::new(atrest_device::Operation::Read, 0, 512, Cause::Gone);

    #[test]
    fn a_latency_counts_in_the_first_bucket_whose_bound_it_keeps() {
        for (nanoseconds, at) in
            [(0, 0), (1, 0), (1000, 0), (1001, 1), (2000, 1), (2001, 2), (4000, 2), (4001, 3)]
        {
            assert_eq!(bucket(nanoseconds), at, "{nanoseconds} ns");
        }
        for at in 0..BOUNDS {
            let exact = (1 << at) * 1000;
            assert_eq!((bucket(exact), bucket(exact + 1)), (at, at + 1), "{exact} ns");
            assert_eq!(bound(at), exact as f64 / 1e9);
        }
        assert_eq!(bucket(u64::MAX), BOUNDS);
    }

    #[test]
    fn bytes_are_of_what_succeeded_and_errors_are_requests_too() {
        let counters = Counters::new();
        counters.count(Operation::Read, 512, || Ok(())).unwrap();
        counters.count(Operation::Read, 512, || Err::<(), _>(GONE)).unwrap_err();
        assert_eq!(counters.count_if_done(Operation::Read, 4096, || Ok(true)), Ok(true));
        assert_eq!(counters.count_if_done(Operation::Read, 4096, || Ok(false)), Ok(false));
        assert_eq!(counters.count_if_done(Operation::Read, 4096, || Err(GONE)), Err(GONE));
        let read = counters.of(Operation::Read);
        assert_eq!((read.requests, read.bytes, read.errors, read.in_flight), (4, 4608, 2, 0));
        assert_eq!(counters.of(Operation::Write).requests, 0);
    }

    #[test]
    fn a_discard_that_is_not_passed_on_is_no_error_and_another_refusal_is_one() {
        let counters = Counters::new();
        let refused = |cause| DeviceError::new(atrest_device::Operation::Discard, 0, 512, cause);
        let unsupported = refused(Cause::Unsupported);
        counters.count(Operation::Discard, 512, || Err::<(), _>(unsupported)).unwrap_err();
        let discard = counters.of(Operation::Discard);
        assert_eq!((discard.requests, discard.bytes, discard.errors), (1, 0, 0));
        counters.count(Operation::Discard, 512, || Err::<(), _>(refused(Cause::ReadOnly))).unwrap_err();
        assert_eq!(counters.of(Operation::Discard).errors, 1);
    }

    #[test]
    fn a_panic_in_the_device_ends_its_request_as_one_that_failed() {
        let counters = Counters::new();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            counters.count(Operation::Write, 512, || -> Result<(), DeviceError> { panic!("the device") })
        }));
        assert!(panicked.is_err());
        let write = counters.of(Operation::Write);
        assert_eq!((write.requests, write.errors, write.bytes, write.in_flight), (1, 1, 0, 0));
    }

    #[test]
    fn what_runs_is_in_flight_until_it_ends() {
        let (counters, all_run) = (Counters::new(), Barrier::new(4));
        let ends = Barrier::new(4);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    counters.count(Operation::Flush, 0, || {
                        all_run.wait();
                        ends.wait();
                        Ok(())
                    })
                });
            }
            all_run.wait();
            let flush = counters.of(Operation::Flush);
            assert_eq!((flush.in_flight, flush.requests), (3, 0));
            ends.wait();
        });
        let flush = counters.of(Operation::Flush);
        assert_eq!((flush.in_flight, flush.requests), (0, 3));
    }

    #[test]
    fn figures_that_are_read_while_threads_count_fit_each_other_and_none_is_lost() {
        const THREADS: u64 = 20;
        const EACH: u64 = 20_000;
        let (counters, done) = (Counters::new(), AtomicBool::new(false));
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut looks = 0;
                let mut before = 0;
                while !done.load(Ordering::Relaxed) || looks == 0 {
                    let now = counters.of(Operation::Read);
                    assert!(now.errors <= now.requests && now.requests >= before, "{now:?}");
                    assert!(now.in_flight <= THREADS, "{now:?}");
                    assert!(now.latency.is_sorted_by(|a, b| a.count <= b.count && a.le < b.le), "{now:?}");
                    assert!(now.latency.iter().all(|bucket| bucket.count <= now.requests), "{now:?}");
                    before = now.requests;
                    looks += 1;
                }
            });
            let threads: Vec<_> = (0..THREADS)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..EACH {
                            let _ = counters.count(Operation::Read, 512, || Err::<(), _>(GONE));
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            done.store(true, Ordering::Relaxed);
            reader.join().unwrap();
        });
        let read = counters.of(Operation::Read);
        assert_eq!((read.requests, read.errors, read.in_flight), (THREADS * EACH, THREADS * EACH, 0));
    }
}
