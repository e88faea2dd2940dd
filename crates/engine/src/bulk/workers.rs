//! The workers of a bulk run, and the one thread that reports, makes checkpoints and cleans up after them.

#[cfg(all(test, shuttle))]
mod schedules;
#[cfg(all(test, not(shuttle)))]
mod tests;

// The caller's, who takes no part in a schedule.
use std::sync::atomic::AtomicBool as CancelFlag;
use std::time::{Duration, Instant};

use atrest_device::DeviceError;

use super::checkpoint::Checkpoint;
use super::{BulkError, BulkOptions, CHUNK, MAX_WORKERS, Progress};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::mpsc::{self, RecvTimeoutError};
use crate::sync::{Mutex, PoisonError, thread};

/// Time between two reports.
const REPORT: Duration = Duration::from_millis(100);
/// A chunk that takes longer to read and decrypt than this comes from the media rather than from memory, so that reading
/// ahead pays. From memory it would cost about a tenth of the copy itself.
const SLOW_CHUNK: Duration = Duration::from_nanos(CHUNK as u64);

type Read<'a> = &'a (dyn Fn(u64, &mut [u8]) -> Result<(), DeviceError> + Sync);

/// What a run does with its chunks.
pub struct Job<'a> {
    /// Bytes to be done.
    pub total: u64,
    /// Reads plaintext from the source.
    pub read: Read<'a>,
    /// Writes plaintext to the output; may change the buffer.
    pub write: Read<'a>,
    /// Announces a read.
    pub prefetch: &'a (dyn Fn(u64, u64) + Sync),
    /// Makes the output durable.
    pub flush: &'a (dyn Fn() -> Result<(), DeviceError> + Sync),
    /// Reads plaintext back from the output.
    pub written: Read<'a>,
}

/// What the workers share.
struct Shared<'a> {
    job: &'a Job<'a>,
    cancel: Option<&'a CancelFlag>,
    /// Start of the first chunk that nobody has taken.
    next: AtomicU64,
    done: AtomicU64,
    failed: AtomicBool,
    error: Mutex<Option<BulkError>>,
    /// For each worker: everything of its own below this is written.
    bounds: Vec<AtomicU64>,
}

/// Does the chunks from `start` on, and makes them durable. Returns when the last was written.
pub fn run(
    job: &Job<'_>,
    start: u64,
    checkpoint: Option<&Checkpoint<'_>>,
    options: &BulkOptions<'_>,
    progress: &mut dyn Progress,
) -> Result<Instant, BulkError> {
    let chunks = (job.total - start).div_ceil(CHUNK as u64);
    let workers = match options.threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    // intended: more chunks than workers.
    let workers = workers.min(MAX_WORKERS).min(usize::try_from(chunks).unwrap_or(usize::MAX));
    let shared = Shared::new(job, start, vec![start; workers], options.cancel);
    progress.update(start, job.total);
    let mut noted = start;
    let mut report = || {
        progress.update(shared.done.load(Ordering::Relaxed), job.total);
        let prefix = shared.prefix();
        if let Some(checkpoint) = checkpoint
            && prefix - noted >= options.checkpoint_every
        {
            noted = prefix;
            let made = (job.flush)().map_err(BulkError::Flush).and_then(|()| checkpoint.save(prefix));
            made.unwrap_or_else(|error| shared.fail(error));
        }
    };
    thread::scope(|scope| {
        let (alive, ended) = mpsc::channel::<()>();
        let start_worker = |bound| {
            let (shared, alive) = (&shared, alive.clone());
            let worker = move || {
                shared.work(bound, workers, &mut || {});
                drop(alive);
            };
            thread::Builder::new().spawn_scoped(scope, worker).is_ok()
        };
        let started = shared.bounds.iter().take_while(|bound| start_worker(*bound)).count();
        drop(alive);
        // The system may refuse further threads. Those that are there do the work, if need be this one.
        for bound in shared.bounds.iter().skip(started.max(1)) {
            bound.store(u64::MAX, Ordering::Release);
        }
        if started == 0 {
            let mut reported = Instant::now();
            let mut between_chunks = || {
                if reported.elapsed() >= REPORT {
                    report();
                    reported = Instant::now();
                }
            };
            if let Some(bound) = shared.bounds.first() {
                shared.work(bound, 1, &mut between_chunks);
            }
        }
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(REPORT) {
            report();
        }
    });
    let written = Instant::now();
    let prefix = shared.prefix();
    let error = shared.error.lock().unwrap_or_else(PoisonError::into_inner).take();
    if error.is_none() && prefix == job.total {
        (job.flush)().map_err(BulkError::Flush)?;
        progress.update(job.total, job.total);
        return Ok(written);
    }
    if let Some(checkpoint) = checkpoint
        && (job.flush)().is_ok()
    {
        // What ended the run is what is reported, also if this fails: the last good checkpoint stays.
        let _ = checkpoint.save(prefix);
    }
    Err(error.unwrap_or(BulkError::Cancelled { done: prefix, total: job.total }))
}

impl<'a> Shared<'a> {
    /// Before the first chunk: everything below `start` is done, and each worker's bound is where `bounds` says.
    fn new(job: &'a Job<'a>, start: u64, bounds: Vec<u64>, cancel: Option<&'a CancelFlag>) -> Self {
        Self {
            job,
            cancel,
            next: AtomicU64::new(start),
            done: AtomicU64::new(start),
            failed: AtomicBool::new(false),
            error: Mutex::new(None),
            bounds: bounds.into_iter().map(AtomicU64::new).collect(),
        }
    }
}

impl Shared<'_> {
    /// Takes chunks until there are no more.
    fn work(&self, bound: &AtomicU64, workers: usize, after_each: &mut dyn FnMut()) {
        let mut buf = vec![0; CHUNK];
        let mut slow_media = true;
        while !self.is_over() {
            let offset = self.next.fetch_add(CHUNK as u64, Ordering::AcqRel);
            if offset >= self.job.total {
                break;
            }
            bound.store(offset, Ordering::Release);
            let len = (self.job.total - offset).min(CHUNK as u64);
            let ahead = offset + (workers * CHUNK) as u64;
            if slow_media && ahead < self.job.total {
                (self.job.prefetch)(ahead, (self.job.total - ahead).min(CHUNK as u64));
            }
            let Some(chunk) = buf.get_mut(..len as usize) else { break };
            let begun = Instant::now();
            let read = (self.job.read)(offset, chunk).map_err(BulkError::Read);
            slow_media = begun.elapsed() > SLOW_CHUNK;
            let result = read.and_then(|()| (self.job.write)(offset, chunk).map_err(BulkError::Write));
            if let Err(error) = result {
                // The bound stays where it is: this chunk is not written.
                self.fail(error);
                return;
            }
            bound.store(offset + len, Ordering::Release);
            self.done.fetch_add(len, Ordering::Relaxed);
            after_each();
        }
        bound.store(u64::MAX, Ordering::Release);
    }

    /// Everything below this is written. A worker takes chunks in ascending order, so what it finished last bounds
    /// from below what it does now; what nobody has taken bounds it from above.
    fn prefix(&self) -> u64 {
        let untaken = self.next.load(Ordering::Acquire).min(self.job.total);
        self.bounds.iter().map(|bound| bound.load(Ordering::Acquire)).fold(untaken, u64::min)
    }

    fn is_over(&self) -> bool {
        self.failed.load(Ordering::Acquire)
            || self.cancel.is_some_and(|cancel| cancel.load(Ordering::Acquire))
    }

    /// Ends the run. Of several errors the first is reported.
    fn fail(&self, error: BulkError) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.failed.store(true, Ordering::Release);
    }
}
