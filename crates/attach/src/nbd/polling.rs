//! Whether it pays to look for the next small request again and again, instead of sleeping until it comes.
//!
//! A client that waits for each reply makes the server sleep between its requests. Where cores are idle, being woken takes
//! longer than such a request. Where others want the cores, looking keeps them from working. Nobody knows beforehand, so
//! both ways are tried, and the faster one is kept for a while. A thread looks for no longer than [`PATIENCE`] at a time,
//! gives it up if nothing comes so, and one core is always left to others.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long one look lasts at most.
pub(super) const PATIENCE: Duration = Duration::from_micros(50);
/// Waits in each of the two trials.
const TRIAL: u32 = 64;
/// Waits until both ways are tried again.
const SETTLED: u32 = 1 << 12;
/// What a look in vain counts, of which one that was not takes 1 away.
const IN_VAIN: u32 = 4;
/// So much of that ends the looking.
const TOO_MUCH: u32 = 64;

/// What is done now, and what the trials came to.
#[derive(Debug)]
pub(super) struct Polling {
    stage: Stage,
    looks: bool,
    /// Waits that are left in the stage.
    left: u32,
    since: Instant,
    in_vain: u32,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Sleeping is tried.
    Sleeping,
    /// Looking is tried, and sleeping took so long.
    Looking(Duration),
    Settled,
}

impl Polling {
    pub fn new(now: Instant) -> Self {
        Self { stage: Stage::Sleeping, looks: false, left: TRIAL, since: now, in_vain: 0 }
    }

    /// Whether this thread looks, before the next wait for a small request.
    pub fn looks(&mut self, now: Instant) -> bool {
        if self.left == 0 {
            let took = now.duration_since(self.since);
            match self.stage {
                Stage::Sleeping => self.enter(Stage::Looking(took), true, TRIAL, now),
                // It has to be faster by a tenth.
                Stage::Looking(slept) => self.enter(Stage::Settled, took * 10 < slept * 9, SETTLED, now),
                Stage::Settled => self.enter(Stage::Sleeping, false, TRIAL, now),
            }
        }
        self.left -= 1;
        self.looks
    }

    /// What a look came to.
    pub fn note(&mut self, came: bool, now: Instant) {
        // intended: what was not in vain is forgotten.
        self.in_vain = if came { self.in_vain.saturating_sub(1) } else { self.in_vain + IN_VAIN };
        if self.in_vain > TOO_MUCH {
            self.enter(Stage::Settled, false, SETTLED, now);
        }
    }

    fn enter(&mut self, stage: Stage, looks: bool, left: u32, now: Instant) {
        *self = Self { stage, looks, left, since: now, in_vain: 0 };
    }
}

/// Leave to look, which one thread less than there are cores has at the same time.
pub(super) struct Leave(());

static LOOKING: AtomicUsize = AtomicUsize::new(0);

impl Leave {
    pub fn ask() -> Option<Self> {
        static CORES: OnceLock<usize> = OnceLock::new();
        let cores = *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from));
        let leave = Self(());
        (LOOKING.fetch_add(1, Ordering::Relaxed) + 1 < cores).then_some(leave)
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        LOOKING.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    /// Lets `waits` waits pass that take so long; how often a look came before them.
    fn pass(polling: &mut Polling, now: &mut Instant, waits: u32, sleeping: u64, looking: u64) -> u32 {
        let mut looks = 0;
        for _ in 0..waits {
            let looked = polling.looks(*now);
            *now += Duration::from_micros(if looked { looking } else { sleeping });
            if looked {
                polling.note(looking < 50, *now);
                looks += 1;
            }
        }
        looks
    }

    #[test]
    fn the_faster_way_is_kept_and_both_are_tried_again() {
        let cycle = TRIAL + TRIAL + SETTLED;
        for (sleeping, looking, expected) in [(40, 20, TRIAL + SETTLED), (20, 40, TRIAL), (20, 19, TRIAL)] {
            let mut now = Instant::now();
            let mut polling = Polling::new(now);
            for round in 0..3 {
                let looks = pass(&mut polling, &mut now, cycle, sleeping, looking);
                assert_eq!(looks, expected, "{sleeping} or {looking} µs, round {round}");
            }
        }
    }

    #[test]
    fn a_client_that_takes_its_time_is_not_looked_for() {
        let mut now = Instant::now();
        let mut polling = Polling::new(now);
        assert_eq!(pass(&mut polling, &mut now, TRIAL + TRIAL, 40, 20), TRIAL);
        // It was worth it, and from now on the client thinks.
        let looks = pass(&mut polling, &mut now, SETTLED, 1000, 1000);
        assert!(looks <= TOO_MUCH / IN_VAIN + 1, "{looks} looks in vain");
    }

    #[test]
    fn one_core_is_left_to_others() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let leaves: Vec<_> = (0..2 * cores).map_while(|_| Leave::ask()).collect();
        assert!(leaves.len() < cores, "{} of {cores}", leaves.len());
        drop(leaves);
        if cores > 1 {
            atrest_testkit::wait_until("leave is given again", || Leave::ask().is_some());
        }
    }
}
