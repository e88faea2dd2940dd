//! How long a store is waited for. Here, and nowhere else, it is asked again.

use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::store::StoreError;

/// Longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// For so long nobody asks a store that was waited for in vain. Those who waited behind that request get its answer.
const REST: Duration = Duration::from_secs(1);

/// How often the store is asked, and how long is waited in between.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Tries.
    pub tries: NonZeroU32,
    /// Before the second try. It doubles with each, up to 5 seconds.
    pub first_pause: Duration,
    /// No try begins later than this after the first one. With the time that the store itself gives to a request, it bounds how
    /// long anybody waits.
    pub deadline: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let tries = NonZeroU32::MIN.saturating_add(15); // cannot overflow: 1 and 15 are 16.
        Self { tries, first_pause: Duration::from_millis(20), deadline: Duration::from_secs(60) }
    }
}

impl Patience {
    pub(crate) fn pause(&self, tries: u32) -> Duration {
        let doubled = self.first_pause.checked_mul(1 << tries.saturating_sub(1).min(16)); // intended: the first pause is not doubled.
        doubled.map_or(LONGEST_PAUSE, |pause| pause.min(LONGEST_PAUSE))
    }

    /// Asks until there is an answer, an error that no other try mends, or no patience is left.
    ///
    /// # Errors
    /// The last one.
    pub fn again<T>(&self, ask: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.again_if(ask, |_| true, || ())
    }

    /// Asks until there is an answer, or an error that is not `worth` another try. `retried` is told of each further try.
    pub(crate) fn again_if<T>(
        &self,
        mut ask: impl FnMut() -> Result<T, StoreError>,
        worth: impl Fn(&StoreError) -> bool,
        retried: impl Fn(),
    ) -> Result<T, StoreError> {
        let begun = Instant::now();
        let mut tries = 1;
        loop {
            let pause = self.pause(tries);
            match ask() {
                Err(error)
                    if tries < self.tries.get()
                        && error.may_pass()
                        && worth(&error)
                        && begun.elapsed() + pause < self.deadline =>
                {
                    thread::sleep(pause);
                    retried();
                    tries += 1;
                }
                answer => return answer,
            }
        }
    }
}

/// Whether a store was just waited for in vain.
#[derive(Debug, Default)]
pub(crate) struct Health(Mutex<Option<(Instant, StoreError)>>);

impl Health {
    /// Asks, unless somebody has just given up: many readers that wait for one another would else wait one after the other.
    pub(crate) fn ask<T>(&self, ask: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        if let Some((since, error)) = *self.last()
            && since.elapsed() < REST
        {
            return Err(error);
        }
        let begun = Instant::now();
        let answer = ask();
        if let Err(error) = &answer
            && error.may_pass()
            && begun.elapsed() >= REST
        {
            *self.last() = Some((Instant::now(), *error));
        }
        answer
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Option<(Instant, StoreError)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner) // intended: it is one value.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patience(tries: u32, pause: u64, deadline: u64) -> Patience {
        let tries = NonZeroU32::new(tries).expect("not 0");
        let [first_pause, deadline] = [pause, deadline].map(Duration::from_millis);
        Patience { tries, first_pause, deadline }
    }

    #[test]
    fn nobody_waits_longer_than_the_deadline_and_one_request() {
        let slow = || -> Result<(), StoreError> {
            thread::sleep(Duration::from_millis(30));
            Err(StoreError::Silent)
        };
        let begun = Instant::now();
        assert_eq!(patience(1000, 1, 100).again(slow), Err(StoreError::Silent));
        let took = begun.elapsed();
        assert!(took >= Duration::from_millis(60) && took < Duration::from_secs(20), "{took:?}");
    }

    #[test]
    fn each_further_try_is_told_and_what_is_not_worth_one_gets_none() {
        let told = std::cell::Cell::new(0);
        let ask = |worth: bool| {
            let tell = || told.set(told.get() + 1);
            patience(4, 0, 10_000).again_if(|| Err::<(), _>(StoreError::Silent), |_| worth, tell)
        };
        assert_eq!((ask(true), told.get()), (Err(StoreError::Silent), 3));
        assert_eq!((ask(false), told.get()), (Err(StoreError::Silent), 3));
    }

    #[test]
    fn who_waited_behind_a_request_that_was_given_up_gets_its_answer_and_a_later_one_is_asked() {
        let health = Health::default();
        let hang = || -> Result<(), StoreError> {
            thread::sleep(REST);
            Err(StoreError::Os(5))
        };
        assert_eq!(health.ask(hang), Err(StoreError::Os(5)));
        assert_eq!(health.ask(|| -> Result<(), StoreError> { panic!("asked") }), Err(StoreError::Os(5)));
        thread::sleep(REST);
        assert_eq!(health.ask(|| Ok(7)), Ok(7));
        // What fails at once makes nobody wait.
        assert_eq!(health.ask(|| Err::<(), _>(StoreError::Silent)), Err(StoreError::Silent));
        assert_eq!(health.ask(|| Ok(7)), Ok(7));
    }
}
