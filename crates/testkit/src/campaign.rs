//! Long campaigns of seeded cases: a stable sample in `make test`, all of them in `make test-full`.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::Random;

/// A set of cases, each of which is determined by a number.
///
/// `ATREST_CAMPAIGN=full` runs all cases, `ATREST_SEED=N` runs the case with that number only.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    name: &'static str,
    sample: usize,
    whole: Whole,
}

/// When a campaign has run all its cases.
#[derive(Clone, Copy, Debug)]
enum Whole {
    Cases(usize),
    /// No case begins later than this.
    Lasting(Duration),
}

impl Campaign {
    /// A campaign of `whole` cases, of which `sample` run in `make test`.
    pub const fn new(name: &'static str, sample: usize, whole: usize) -> Self {
        Self { name, sample, whole: Whole::Cases(whole) }
    }

    /// A campaign that begins cases until so much time has passed, and at least `sample`, of which as many run in `make test`.
    pub const fn lasting(name: &'static str, sample: usize, time: Duration) -> Self {
        Self { name, sample, whole: Whole::Lasting(time) }
    }

    /// A campaign over a matrix, of which `sample` cells run in `make test`.
    pub const fn matrix(name: &'static str, sample: usize) -> Self {
        Self::new(name, sample, usize::MAX)
    }

    /// Whether all cases run.
    pub fn is_full() -> bool {
        env::var("ATREST_CAMPAIGN").is_ok_and(|value| value == "full")
    }

    /// The numbers of the cases to run, one after the other.
    pub fn seeds(&self) -> impl Iterator<Item = u64> + use<> {
        let Self { sample, whole, .. } = *self;
        let (first, count, time) = match (replayed(), whole) {
            (Some(seed), _) => (seed, 1, Duration::ZERO),
            (None, Whole::Cases(whole)) if Self::is_full() => (1, whole, Duration::ZERO),
            (None, Whole::Lasting(time)) if Self::is_full() => (1, sample, time),
            _ => (1, sample, Duration::ZERO),
        };
        let started = Instant::now();
        (first..).take_while(move |seed| seed - first < count as u64 || started.elapsed() < time)
    }

    /// Runs a case per seed, with a generator made from it. All cases run; then the campaign fails if one did.
    ///
    /// # Panics
    /// When a case failed. The failed seeds are printed with the command that replays them.
    pub fn run(&self, mut case: impl FnMut(u64, &mut Random)) {
        self.each(self.seeds(), |&seed| case(seed, &mut Random::new(seed)), |&seed| seed);
    }

    /// Runs a case per cell of a [`matrix`](Self::matrix). The sample is a stable random choice.
    ///
    /// # Panics
    /// When a case failed, as [`run`](Self::run) does.
    pub fn over<T: Clone>(&self, items: &[T], mut case: impl FnMut(&T)) {
        let numbered: Vec<(u64, T)> = (1..).zip(items.iter().cloned()).collect();
        let mut chosen = numbered.clone();
        if let Some(seed) = replayed() {
            chosen.retain(|(number, _)| *number == seed);
        } else if !Self::is_full() {
            Random::new(0x0a74_5e57).shuffle(&mut chosen);
            chosen.truncate(self.sample);
        }
        println!("campaign {}: {} of {} cells", self.name, chosen.len(), numbered.len());
        self.each(chosen, |(_, item)| case(item), |(number, _)| *number);
    }

    fn each<T>(
        &self,
        cases: impl IntoIterator<Item = T>,
        mut case: impl FnMut(&T),
        number: impl Fn(&T) -> u64,
    ) {
        let started = Instant::now();
        let (mut ran, mut failed) = (0_usize, Vec::new());
        for item in cases {
            ran += 1;
            if catch_unwind(AssertUnwindSafe(|| case(&item))).is_err() {
                let seed = number(&item);
                println!(
                    "campaign {}: case {seed} failed; replay it alone with ATREST_SEED={seed}",
                    self.name
                );
                failed.push(seed);
            }
        }
        println!(
            "campaign {}: {} cases passed, {} failed, {:.1} s",
            self.name,
            ran - failed.len(),
            failed.len(),
            started.elapsed().as_secs_f64()
        );
        assert!(
            failed.is_empty(),
            "campaign {}: cases {failed:?} failed (ATREST_SEED=N replays one)",
            self.name
        );
        assert!(ran > 0, "campaign {} ran no case", self.name);
    }
}

fn replayed() -> Option<u64> {
    let text = env::var("ATREST_SEED").ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("ATREST_SEED must be a number, not {text:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_runs_even_after_a_failure_and_the_campaign_then_fails() {
        let mut seen = Vec::new();
        let result = catch_unwind(AssertUnwindSafe(|| {
            Campaign::new("test", 3, 3).run(|seed, _| {
                seen.push(seed);
                assert_ne!(seed, 2, "this case fails on purpose");
            });
        }));
        assert!(result.is_err());
        assert_eq!(seen, [1, 2, 3]);
    }

    #[test]
    fn a_sample_of_what_lasts_is_as_many_cases_however_long_they_take() {
        if !Campaign::is_full() && replayed().is_none() {
            assert!(Campaign::lasting("test", 3, Duration::ZERO).seeds().eq([1, 2, 3]));
        }
    }

    #[test]
    #[should_panic(expected = "ran no case")]
    fn a_campaign_without_cases_fails() {
        Campaign::matrix("empty", 0).over::<u8>(&[], |_| {});
    }
}
