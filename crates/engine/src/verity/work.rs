//! Items of work, done on every core.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::error::VerityError;
use crate::bulk::Progress;

/// How often progress is told.
const REPORT: Duration = Duration::from_millis(100);
/// More threads than this only fight for memory bandwidth.
const MAX_THREADS: usize = 64;

/// How work is done.
pub struct Pace<'a> {
    /// Threads; 0 stands for one on every core.
    pub threads: usize,
    /// Stops the work when it becomes true.
    pub cancel: Option<&'a AtomicBool>,
    /// Hears how many bytes are done.
    pub progress: &'a mut dyn Progress,
    /// Bytes that are done by what came before.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// Does all items. `work` returns how many bytes an item had, and has a buffer that `buffers` makes for each thread. The first error
/// ends it.
pub fn each<B>(
    items: u64,
    pace: &mut Pace<'_>,
    buffers: impl Fn() -> B + Sync,
    work: impl Fn(u64, &mut B) -> Result<u64, VerityError> + Sync,
) -> Result<(), VerityError> {
    let threads = match pace.threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    // intended: more items than threads.
    let threads = threads.min(MAX_THREADS).min(usize::try_from(items).unwrap_or(usize::MAX));
    let shared = Shared {
        items,
        next: AtomicU64::new(0),
        done: AtomicU64::new(0),
        stopped: AtomicBool::new(false),
        error: Mutex::new(None),
        cancel: pace.cancel,
    };
    let before = pace.done;
    thread::scope(|scope| {
        let (alive, ended) = mpsc::channel::<()>();
        let start = |_: usize| {
            let (alive, shared, work, buffers) = (alive.clone(), &shared, &work, &buffers);
            let worker = move || {
                shared.work(&mut buffers(), work, &mut || {});
                drop(alive);
            };
            thread::Builder::new().spawn_scoped(scope, worker).ok()
        };
        let started = if threads > 1 { (0..threads).map_while(start).count() } else { 0 };
        drop(alive);
        let mut report = || pace.progress.update(before + shared.done.load(Ordering::Relaxed), pace.total);
        if started == 0 {
            let mut reported = Instant::now();
            let mut between = || {
                if reported.elapsed() >= REPORT {
                    report();
                    reported = Instant::now();
                }
            };
            shared.work(&mut buffers(), &work, &mut between);
        }
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(REPORT) {
            report();
        }
    });
    if let Some(error) = shared.error.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    pace.done += shared.done.into_inner();
    pace.progress.update(pace.done, pace.total);
    Ok(())
}

struct Shared<'a> {
    items: u64,
    next: AtomicU64,
    done: AtomicU64,
    stopped: AtomicBool,
    error: Mutex<Option<VerityError>>,
    cancel: Option<&'a AtomicBool>,
}

impl Shared<'_> {
    fn work<B>(
        &self,
        buffer: &mut B,
        work: &(impl Fn(u64, &mut B) -> Result<u64, VerityError> + Sync),
        between: &mut dyn FnMut(),
    ) {
        while !self.stopped.load(Ordering::Relaxed) {
            if self.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
                self.fail(VerityError::Cancelled);
            }
            let item = self.next.fetch_add(1, Ordering::Relaxed);
            if item >= self.items || self.stopped.load(Ordering::Relaxed) {
                return;
            }
            match work(item, buffer) {
                Ok(bytes) => self.done.fetch_add(bytes, Ordering::Relaxed),
                Err(error) => return self.fail(error),
            };
            between();
        }
    }

    fn fail(&self, error: VerityError) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.stopped.store(true, Ordering::Relaxed);
    }
}
