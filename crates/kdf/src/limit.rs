//! How long a derivation may take. The costs in a header come from whoever wrote it: 2^32 iterations keep a machine busy
//! for hours.
//!
//! A caller states a [`WorkLimit`] around its work. Each derivation measures its own speed while it runs, says how long it
//! will take, and fails as soon as that is known to be too long. What a caller does not limit has [`WorkLimit::DEFAULT`] for each
//! derivation. Time is the processor's, so a busy or suspended machine refuses nothing that an idle one accepts.

use core::cell::RefCell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, RwLock};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

use crate::{KdfError, Progress};

/// Work after which the speed is known well enough.
const MEASURED: Duration = Duration::from_millis(100);
/// Iterations or nodes before the clock is looked at for the first time.
const FIRST_STEP: u32 = 1 << 10;
/// Time between two looks at the clock and the flag, about.
const STEP_TIME: Duration = Duration::from_millis(20);
/// A derivation that takes as long is announced.
const LONG: Duration = Duration::from_secs(5);

/// What all derivations inside of [`WorkLimit::during`] may take together, and how their caller hears of them and ends them.
#[derive(Clone, Debug)]
pub struct WorkLimit {
    /// Time for all of them.
    pub time: Duration,
    /// Ends a derivation with [`KdfError::Cancelled`] once it is set. It is looked at some fifty times a second; Argon2, which comes
    /// from a library, looks at it only before it begins.
    pub cancel: Option<Arc<AtomicBool>>,
    /// Called with the time that a derivation will take, if that is some seconds.
    pub announce: Option<fn(Duration)>,
}

/// What a derivation outside of any [`WorkLimit::during`] has: milliseconds, and whom to tell.
static DEFAULT_MILLIS: AtomicU64 = AtomicU64::new(WorkLimit::DEFAULT.as_millis() as u64);
static DEFAULT_ANNOUNCE: RwLock<Option<fn(Duration)>> = RwLock::new(None);

std::thread_local! {
    static STATED: RefCell<Option<Stated>> = const { RefCell::new(None) };
}

/// A limit, and what derivations under it have taken so far.
#[derive(Clone)]
struct Stated {
    limit: WorkLimit,
    spent: Duration,
}

impl Default for WorkLimit {
    /// What [`WorkLimit::set_default`] said, or [`WorkLimit::DEFAULT`] and nobody to tell.
    fn default() -> Self {
        let time = Duration::from_millis(DEFAULT_MILLIS.load(Ordering::Relaxed));
        let announce = *DEFAULT_ANNOUNCE.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        Self { time, cancel: None, announce }
    }
}

impl WorkLimit {
    /// Ten minutes: several times what anybody waits for a passphrase, also one that a faster machine was calibrated for.
    pub const DEFAULT: Duration = Duration::from_secs(600);

    /// Sets what callers have who state no limit, in all threads.
    pub fn set_default(time: Duration, announce: Option<fn(Duration)>) {
        // intended: longer than anybody waits.
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        DEFAULT_MILLIS.store(millis, Ordering::Relaxed);
        *DEFAULT_ANNOUNCE.write().unwrap_or_else(std::sync::PoisonError::into_inner) = announce;
    }

    /// What derivations of this thread may still take, here: for threads that derive on its behalf.
    pub fn current() -> Self {
        let Stated { limit, spent } = Stated::current();
        // intended: nothing is left of what was spent.
        Self { time: limit.time.saturating_sub(spent), ..limit }
    }

    /// Does `work` with this limit on all derivations of this thread together. Inside another limit, this one counts alone.
    pub fn during<R>(self, work: impl FnOnce() -> R) -> R {
        struct Restore(Option<Stated>);

        impl Drop for Restore {
            fn drop(&mut self) {
                STATED.set(self.0.take());
            }
        }

        let _restore = Restore(STATED.replace(Some(Stated { limit: self, spent: Duration::ZERO })));
        work()
    }
}

impl Stated {
    /// What counts in this thread now.
    fn current() -> Self {
        let stated = STATED.with_borrow(Clone::clone);
        stated.unwrap_or_else(|| Self { limit: WorkLimit::default(), spent: Duration::ZERO })
    }

    /// Takes what a derivation took off what the rest may take.
    fn spend(took: Duration) {
        STATED.with_borrow_mut(|stated| {
            if let Some(stated) = stated {
                // intended: more than any limit.
                stated.spent = stated.spent.saturating_add(took);
            }
        });
    }

    fn check_cancelled(&self) -> Result<(), KdfError> {
        let cancelled = self.limit.cancel.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed));
        if cancelled { Err(KdfError::Cancelled) } else { Ok(()) }
    }

    /// Whether a derivation that will take so long still fits.
    fn check(&self, expected: Duration) -> Result<(), KdfError> {
        // intended: more than any limit, unless there is none.
        let whole = self.spent.saturating_add(expected);
        if whole <= self.limit.time {
            return Ok(());
        }
        // Rounded up and down, so that the two never look equal.
        // intended: for people.
        let seconds = whole.as_secs().saturating_add(1);
        Err(KdfError::TooMuchWork { seconds, limit: self.limit.time.as_secs() })
    }

    fn announce(&self, expected: Duration) {
        if let Some(announce) = self.limit.announce.filter(|_| expected >= LONG) {
            announce(expected);
        }
    }
}

/// Does a derivation in steps, of which `step` does so many units, until it is done, takes too long or is cancelled.
pub(crate) fn in_steps(mut step: impl FnMut(u32) -> Progress) -> Result<(), KdfError> {
    let stated = Stated::current();
    let begun = processor_time();
    let mut units = FIRST_STEP;
    let mut done = 0_u64;
    let mut announced = false;
    let result = loop {
        if let Err(cancelled) = stated.check_cancelled() {
            break Err(cancelled);
        }
        let Progress::Unfinished { left } = step(units) else { break Ok(()) };
        done += u64::from(units);
        // cannot be less: the clock only goes up.
        let took = processor_time().saturating_sub(begun);
        if took >= MEASURED {
            let expected = scaled(took, done + left, done);
            if let Err(too_much) = stated.check(expected) {
                break Err(too_much);
            }
            if !announced {
                stated.announce(expected);
                announced = true;
            }
        }
        units = scaled_units(done, took);
    };
    // cannot be less: the clock only goes up.
    Stated::spend(processor_time().saturating_sub(begun));
    result
}

/// Does a derivation that can't be done in steps, if it fits the limit: `work` is its cost, and `sample` a cheaper derivation with
/// its own cost. The sample is left out where no machine needs a second for `work`.
pub(crate) fn at_once<R>(
    work: u64,
    quick: u64,
    sample: impl FnOnce() -> Result<u64, KdfError>,
    derive: impl FnOnce() -> Result<R, KdfError>,
) -> Result<R, KdfError> {
    let stated = Stated::current();
    stated.check_cancelled()?;
    let begun = Instant::now();
    let allowed = if work <= quick && stated.limit.time >= LONG {
        Ok(())
    } else {
        sample().and_then(|sampled| {
            let expected = scaled(begun.elapsed(), work, sampled);
            stated.check(expected)?;
            stated.announce(expected);
            Ok(())
        })
    };
    let result = allowed.and_then(|()| derive());
    Stated::spend(begun.elapsed());
    result
}

/// What `whole` units of work take if `part` of them took so long.
fn scaled(took: Duration, whole: u64, part: u64) -> Duration {
    // intended: more than any limit.
    let nanos = took.as_nanos().saturating_mul(whole.into()) / u128::from(part.max(1));
    // intended: 584 years, more than any limit.
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Units that take [`STEP_TIME`] at the speed at which `done` of them took so long.
fn scaled_units(done: u64, took: Duration) -> u32 {
    let units = u128::from(done) * STEP_TIME.as_nanos() / took.as_nanos().max(1);
    // Grows by doubling at first: the clock may not have moved yet.
    // intended: the range at the end of the line bounds it.
    u32::try_from(units).unwrap_or(u32::MAX).clamp(1, u32::try_from(done).unwrap_or(u32::MAX).max(1))
}

/// Processor time of this thread.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // cannot fail: the clock begins at 0.
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    // cannot fail: less than 10^9.
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
