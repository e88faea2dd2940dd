//! Data units whose tags are missing: they are read unchecked until their tags have been computed from the data as it is.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use atrest_cipher::DataUnitIndex;
use atrest_device::{Cause, DeviceError, Operation};
use atrest_format::integrity::Bitmap;

use super::{AT_ONCE, Shared};

/// Bytes after which the superblock says how far it is.
const SAVE: u64 = 64 << 20;

/// Which tags are missing, and how far their computation is.
pub struct Missing {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether any is: looked at before the lock is taken.
    any: AtomicBool,
}

struct State {
    /// Units before it have their tags.
    from: u64,
    units: u64,
    /// Of the others, those in marked regions miss them; `None` stands for all.
    marked: Option<Bitmap>,
    stopping: bool,
    ended: Option<Result<(), DeviceError>>,
}

impl State {
    fn next(&self) -> Option<Range<u64>> {
        match &self.marked {
            None => (self.from < self.units).then_some(self.from..self.units),
            Some(marked) => marked.next(self.from),
        }
    }
}

impl Missing {
    /// The tags from a unit on are missing, in marked regions where there is a bitmap.
    pub fn new(from: u64, units: u64, marked: Option<Bitmap>) -> Self {
        let state = State { from, units, marked, stopping: false, ended: None };
        let any = AtomicBool::new(state.next().is_some());
        Self { state: Mutex::new(state), changed: Condvar::new(), any }
    }

    /// Whether any is.
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// The first unit that may have none.
    pub fn first(&self) -> u64 {
        let state = self.lock();
        state.next().map_or(state.units, |units| units.start)
    }

    /// Which of these units have tags, in runs. The caller holds their locks until then, so that no tag comes meanwhile.
    pub fn checked(&self, units: Range<u64>) -> Vec<Range<u64>> {
        if !self.any() {
            return vec![units];
        }
        let state = self.lock();
        let mut checked: Vec<Range<u64>> = Vec::new();
        for unit in units {
            let missing = unit >= state.from && state.marked.as_ref().is_none_or(|marked| marked.has(unit));
            match checked.last_mut() {
                _ if missing => {}
                Some(last) if last.end == unit => last.end += 1,
                _ => checked.push(unit..unit + 1),
            }
        }
        checked
    }

    /// Keeps only those marks that are needed for what is missing.
    pub fn keep_marks(&self, marks: &mut Bitmap) {
        let state = self.lock();
        match &state.marked {
            Some(marked) => marks.keep(marked, state.from),
            None => marks.bytes_mut().fill(0),
        }
    }

    /// Computes all that is missing, until [`stop`](Self::stop).
    pub fn recalculate(&self, shared: &Shared) {
        let outcome = self.all(shared);
        let mut state = self.lock();
        state.ended = Some(outcome);
        self.changed.notify_all();
    }

    fn all(&self, shared: &Shared) -> Result<(), DeviceError> {
        let mut since = 0;
        loop {
            let done = self.step(shared)?;
            since += done;
            if done == 0 || since >= SAVE {
                shared.save_progress()?;
                since = 0;
            }
            if done == 0 {
                return Ok(());
            }
        }
    }

    /// Computes some. Returns how many bytes of data have their tags now; 0 at the end.
    fn step(&self, shared: &Shared) -> Result<u64, DeviceError> {
        let unit = shared.unit();
        let next = {
            let state = self.lock();
            if state.stopping { None } else { state.next() }
        };
        let Some(Range { start, end }) = next else { return Ok(0) };
        let end = end.min(start + (AT_ONCE / unit) as u64);
        let (at, len) = (start * unit as u64, (end - start) as usize * unit);
        let mut run = vec![0; len];
        let mut tags = vec![0; shared.tags_len(len)];
        let _alone = shared.home.exclude(at, len);
        shared.places.read(start, &mut run, &mut tags)?;
        let sealed = shared.tagged.seal(DataUnitIndex(start), &mut run, &mut tags);
        sealed.map_err(|_| DeviceError::new(Operation::Write, at, len as u64, Cause::Unsupported))?;
        shared.places.write_tags(start, len, &tags)?;
        let mut state = self.lock();
        state.from = end;
        self.any.store(state.next().is_some(), Ordering::Release);
        Ok(len as u64)
    }

    /// Waits until nothing is missing.
    pub fn wait(&self) -> Result<(), DeviceError> {
        let mut state = self.lock();
        loop {
            match state.ended {
                Some(outcome) => return outcome,
                None if state.next().is_none() => return Ok(()),
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    pub fn stop(&self) {
        self.lock().stopping = true;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
