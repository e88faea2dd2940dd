//! How fast something is, and how long the rest of it will take.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How far back the speed is measured: the beginning, out of a cache, says little about the rest.
const WINDOW: Duration = Duration::from_secs(20);
/// Places that are remembered lie at least so far apart.
const APART: Duration = Duration::from_millis(250);
/// Before this, and before anything has moved, nothing is said.
const FIRST: Duration = Duration::from_millis(700);
/// Without a move for so long, it is slower than it was.
const STALL: Duration = Duration::from_secs(5);

/// Where something was, and when.
#[derive(Clone, Debug, Default)]
pub struct Gauge {
    places: VecDeque<(Instant, u64)>,
}

impl Gauge {
    /// It is at `done` now. The first place is where it began: what was done before says nothing about the speed.
    pub fn see(&mut self, done: u64, now: Instant) {
        let Some((when, last)) = self.places.back().copied() else {
            self.places.push_back((now, done));
            return;
        };
        if done <= last {
            return;
        }
        // The first place stays, or the speed of a short run would have nothing to be measured from.
        // intended: a clock that went back has passed no time.
        if self.places.len() > 1 && now.saturating_duration_since(when) < APART {
            self.places.pop_back();
        }
        self.places.push_back((now, done));
        while self.places.len() > 2
            // intended: a clock that went back has passed no time.
            && self.places.get(1).is_some_and(|(second, _)| now.saturating_duration_since(*second) > WINDOW)
        {
            self.places.pop_front();
        }
    }

    /// Bytes in a second, as soon as that can be said.
    pub fn speed(&self, now: Instant) -> Option<f64> {
        let (&(begun, first), &(when, last)) = (self.places.front()?, self.places.back()?);
        // intended: a clock that went back has passed no time.
        if last <= first || now.saturating_duration_since(begun) < FIRST {
            return None;
        }
        // intended: a clock that stands still shows no stall.
        let idle = now.saturating_duration_since(when).saturating_sub(STALL);
        let passed = when.saturating_duration_since(begun) + idle;
        Some((last - first) as f64 / passed.as_secs_f64().max(1e-3))
    }

    /// How long the rest up to `total` takes, as soon as that can be said.
    pub fn left(&self, total: u64, now: Instant) -> Option<Duration> {
        let speed = self.speed(now)?;
        let &(when, last) = self.places.back()?;
        // intended: nothing is left of what is done, and more.
        let rest = total.saturating_sub(last) as f64 / speed.max(1e-3);
        let since = now.saturating_duration_since(when).min(STALL).as_secs_f64();
        // intended: what takes longer takes for ever.
        Some(Duration::try_from_secs_f64((rest - since).max(0.0)).unwrap_or(Duration::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn nothing_is_said_before_anything_has_moved() {
        let begun = Instant::now();
        let mut gauge = Gauge::default();
        gauge.see(512 * MIB, begun);
        for seconds in [0, 1, 60] {
            assert_eq!(gauge.left(1024 * MIB, begun + Duration::from_secs(seconds)), None, "{seconds} s");
        }
    }

    #[test]
    fn the_rest_is_estimated_from_what_this_run_did() {
        let begun = Instant::now();
        let mut gauge = Gauge::default();
        gauge.see(500 * MIB, begun);
        let now = begun + Duration::from_secs(2);
        gauge.see(600 * MIB, now);
        assert_eq!(gauge.speed(now), Some((50 * MIB) as f64));
        assert_eq!(gauge.left(1000 * MIB, now), Some(Duration::from_secs(8)));
        // It counts down between two moves.
        assert_eq!(gauge.left(1000 * MIB, now + Duration::from_secs(3)), Some(Duration::from_secs(5)));
        assert_eq!(gauge.left(600 * MIB, now), Some(Duration::ZERO));
    }

    #[test]
    fn what_is_stuck_becomes_slower() {
        let begun = Instant::now();
        let mut gauge = Gauge::default();
        gauge.see(0, begun);
        gauge.see(100 * MIB, begun + Duration::from_secs(10));
        let before = gauge.speed(begun + Duration::from_secs(10)).expect("a speed");
        let after = gauge.speed(begun + Duration::from_secs(110)).expect("a speed");
        assert!(after < before / 5.0, "{after} of {before}");
    }

    #[test]
    fn the_beginning_is_forgotten() {
        let begun = Instant::now();
        let mut gauge = Gauge::default();
        gauge.see(0, begun);
        // A second out of a cache, and then a slow disk.
        let mut done = 1000 * MIB;
        for second in 1..=60 {
            gauge.see(done, begun + Duration::from_secs(second));
            done += 10 * MIB;
        }
        let speed = gauge.speed(begun + Duration::from_secs(60)).expect("a speed");
        assert!((speed - (10 * MIB) as f64).abs() < MIB as f64, "{speed}");
        assert!(gauge.places.len() < 30, "{}", gauge.places.len());
    }
}
