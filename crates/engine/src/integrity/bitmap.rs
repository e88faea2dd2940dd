//! Bitmap mode while it is written: a region is marked, durably, before anything in it is written, and the marks go once everything
//! written is durable. A crash leaves marked regions, whose tags are computed again by whoever opens next.

use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use atrest_device::DeviceError;
use atrest_format::integrity::{Bitmap, SUPERBLOCK_LEN};

use super::Shared;
use super::places::Places;

/// How long a mark stays, as with the kernel.
pub const FLUSH_TIME: Duration = Duration::from_secs(10);

/// The bitmap on the media.
pub struct Marks {
    state: Mutex<State>,
    changed: Condvar,
    /// Writing shares, clearing marks excludes.
    writing: RwLock<()>,
    flush_time: Duration,
}

struct State {
    /// What is durable on the media.
    marked: Bitmap,
    /// When the first mark was set that can be cleared.
    since: Option<Instant>,
    failed: Option<DeviceError>,
    stopping: bool,
}

impl Marks {
    pub fn new(marked: Bitmap, flush_time: Duration) -> Self {
        let state = State { marked, since: None, failed: None, stopping: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), writing: RwLock::new(()), flush_time }
    }

    /// Marks the regions of a run, and puts it in its places.
    pub fn write(&self, shared: &Shared, first: u64, run: &[u8], tags: &[u8]) -> Result<(), DeviceError> {
        let _writing = self.writing.read().unwrap_or_else(PoisonError::into_inner);
        self.mark(&shared.places, first..first + (run.len() / shared.unit()) as u64)?;
        let _alone = shared.home.exclude(first * shared.unit() as u64, run.len());
        shared.places.write(first, run, tags)
    }

    fn mark(&self, places: &Places, units: Range<u64>) -> Result<(), DeviceError> {
        let mut state = self.lock();
        if let Some(error) = state.failed {
            return Err(error);
        }
        if state.since.is_none() {
            state.since = Some(Instant::now());
            self.changed.notify_all();
        }
        if state.marked.has_all(units.clone()) {
            return Ok(());
        }
        state.marked.set(units.clone());
        let blocks = state.marked.blocks(units);
        let outcome = write(places, &state.marked, blocks).and_then(|()| places.flush());
        // What is marked in memory is not on the media then: nothing more is written.
        outcome.inspect_err(|error| state.failed = Some(*error))
    }

    /// Makes everything durable, and clears the marks of regions whose tags are right.
    pub fn settle(&self, shared: &Shared) -> Result<(), DeviceError> {
        let _alone = self.writing.write().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.lock();
        if let Some(error) = state.failed {
            return Err(error);
        }
        state.since = None;
        let mut kept = state.marked.clone();
        shared.missing.keep_marks(&mut kept);
        let outcome =
            shared.places.flush().and_then(|()| write(&shared.places, &kept, 0..kept.bytes().len()));
        match outcome {
            Ok(()) => state.marked = kept,
            Err(error) => state.failed = Some(error),
        }
        outcome
    }

    /// Settles what has been marked for a while, until [`stop`](Self::stop).
    pub fn settle_in_time(&self, shared: &Shared) {
        let mut state = self.lock();
        while !state.stopping && state.failed.is_none() {
            state = match state.since {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(since) => match self.flush_time.checked_sub(since.elapsed()) {
                    Some(left) if !left.is_zero() => {
                        self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                    }
                    _ => {
                        drop(state);
                        // An error is kept, and told to whoever writes next.
                        let _ = self.settle(shared);
                        self.lock()
                    }
                },
            };
        }
    }

    pub fn stop(&self) {
        self.lock().stopping = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes blocks of the bitmap.
pub fn write(places: &Places, bitmap: &Bitmap, blocks: Range<usize>) -> Result<(), DeviceError> {
    let at = places.at + SUPERBLOCK_LEN as u64 + blocks.start as u64;
    places.media.write_at(at, &bitmap.bytes()[blocks])
}

/// Reads the bitmap that the superblock speaks of. `None` if a bit for so few units can't be.
pub fn read(places: &Places, log2_units: u8) -> Result<Option<Bitmap>, DeviceError> {
    let Some(mut bitmap) = Bitmap::clear(&places.layout, log2_units) else { return Ok(None) };
    places.media.read_at(places.at + SUPERBLOCK_LEN as u64, bitmap.bytes_mut())?;
    Ok(Some(bitmap))
}
