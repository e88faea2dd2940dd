//! Runs the tests against one mutant after the other.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::cover::{Rig, Test};
use crate::crew;
use crate::mutant::Mutant;
use crate::process::{Ended, Place};
use crate::rooms;

/// What became of a mutant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// A test failed.
    Killed(String),
    /// A test did not end.
    TimedOut(String),
    /// Of the tests that reach it, so many ran, and all passed.
    Survived {
        /// The tests that ran.
        ran: usize,
        /// Those that reach it.
        reach: usize,
    },
    /// No test reaches it.
    Unreached,
    /// There was no time left.
    NotRun,
}

/// When to stop.
pub struct Limits {
    /// After this, no mutant is begun.
    pub deadline: Option<Instant>,
    /// After so long, no further test runs against a mutant.
    pub patience: Duration,
}

/// Judges mutants.
pub fn judge(
    rig: &Rig,
    tests: &[Test],
    mutants: &[&Mutant],
    limits: &Limits,
) -> Result<Vec<Verdict>, String> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let verdicts = Mutex::new(vec![Verdict::NotRun; mutants.len()]);
    let begin = Instant::now();
    crew::work(rig.jobs, |worker| {
        let place = Place::new(worker)?;
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(mutant) = mutants.get(index) else { return Ok(()) };
            if limits.deadline.is_some_and(|deadline| Instant::now() > deadline) {
                return Ok(());
            }
            let verdict = judge_one(rig, &reaching(rig, tests, mutant), mutant, (&place, limits.patience))?;
            if let Verdict::Survived { .. } = verdict {
                eprintln!("survived: {}", mutant.name());
            }
            verdicts.lock().map_err(|_| "a worker panicked")?[index] = verdict;
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            if done.is_multiple_of(100) {
                eprintln!("{done} of {} mutants after {} s", mutants.len(), begin.elapsed().as_secs());
            }
        }
    })?;
    verdicts.into_inner().map_err(|_| "a worker panicked".into())
}

fn judge_one(
    rig: &Rig,
    reaching: &[&Test],
    mutant: &Mutant,
    (place, patience): (&Place, Duration),
) -> Result<Verdict, String> {
    let begin = Instant::now();
    for (ran, test) in reaching.iter().enumerate() {
        if begin.elapsed() > patience {
            return Ok(Verdict::Survived { ran, reach: reaching.len() });
        }
        let name = || rig.programs[test.program].full_name(&test.name);
        match against(rig, test, mutant, place)? {
            Ended::Passed => {}
            Ended::Failed => return Ok(Verdict::Killed(name())),
            Ended::TimedOut => return Ok(Verdict::TimedOut(name())),
        }
    }
    match reaching.len() {
        0 => Ok(Verdict::Unreached),
        count => Ok(Verdict::Survived { ran: count, reach: count }),
    }
}

/// Runs a test against a mutant.
fn against(rig: &Rig, test: &Test, mutant: &Mutant, place: &Place) -> Result<Ended, String> {
    let program = &rig.programs[test.program];
    let limit = limit(test.took);
    let run = |id: u32, limit: Duration| {
        let mut command = program.command(&test.name, &rig.atrest);
        command.env("ATREST_MUTANT", id.to_string()).env_remove("ATREST_MUTANT_HITS");
        place.run(command, limit)
    };
    match run(mutant.id, limit)?.0 {
        Ended::TimedOut => {}
        ended => return Ok(ended),
    }
    // The machine may have more to do now than when the test was measured.
    let now = self::limit(run(0, limit * 10)?.1);
    if now <= limit { Ok(Ended::TimedOut) } else { Ok(run(mutant.id, now)?.0) }
}

/// Returns how long a test may take with a mutant.
fn limit(took: Duration) -> Duration {
    took * 3 + Duration::from_secs(5)
}

/// Returns the tests that reach a mutant: those of its own package first, and of those the quickest.
fn reaching<'t>(rig: &Rig, tests: &'t [Test], mutant: &Mutant) -> Vec<&'t Test> {
    let order = rooms::room_of(&mutant.file).map(|room| room.tests).unwrap_or_default();
    let turn = |test: &Test| {
        let package = &rig.programs[test.program].package;
        order.iter().position(|one| one == package).or(rig.all_packages.then_some(order.len()))
    };
    let reach = tests
        .iter()
        .filter(|test| test.ended == Ended::Passed && test.reached.binary_search(&mutant.id).is_ok());
    let mut reach: Vec<_> = reach.filter(|test| turn(test).is_some()).collect();
    reach.sort_by_key(|test| (turn(test), test.took));
    reach
}
