//! Long campaigns of seeded cases: a sample in `make test`, another one at each commit, and all of them in `make test-full`.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::Random;
use crate::oracle::workspace;

/// A set of cases, each of which is determined by a number and independent of the others.
///
/// The sample is chosen by a rotation, which follows from the commit, so that each commit tries other cases; every
/// campaign prints it. Outside a git repository it is 1. In the environment:
///
/// * `ATREST_CAMPAIGN=full` runs all cases.
/// * `ATREST_SEED=N` runs the case with that number only.
/// * `ATREST_ROTATION=N` runs the sample of that rotation.
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

/// How many cases a campaign has that ends by the clock: more than any runs.
const WITHOUT_END: u64 = 1 << 32;

impl Campaign {
    /// A campaign of `whole` cases, numbered from 1, of which `sample` neighbours run in `make test`.
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

    /// Whether a sample runs: neither all cases nor one that somebody asks for.
    pub fn is_sample() -> bool {
        matches!(Choice::made(), Choice::Sample { .. })
    }

    /// The numbers of the cases to run, one after the other.
    pub fn seeds(&self) -> impl Iterator<Item = u64> + use<> {
        self.numbers(Choice::made())
    }

    fn numbers(&self, choice: Choice) -> impl Iterator<Item = u64> + use<> {
        let sample = self.sample as u64;
        let (of, all, limit) = match self.whole {
            Whole::Cases(whole) => (whole as u64, whole as u64, Duration::ZERO),
            Whole::Lasting(limit) => (WITHOUT_END, sample, limit),
        };
        let somewhere = |rotation| self.random(rotation).below(of);
        let (first, count, limit) = match choice {
            Choice::One(number) => (number - 1, 1, Duration::ZERO),
            Choice::All { rotation } => (if all < of { somewhere(rotation) } else { 0 }, all, limit),
            Choice::Sample { rotation } if sample < of => (somewhere(rotation), sample, Duration::ZERO),
            Choice::Sample { .. } => (0, of, Duration::ZERO),
        };
        let started = Instant::now();
        (0..)
            .take_while(move |n| *n < count || started.elapsed() < limit)
            .map(move |n| (first + n) % of.max(first + 1) + 1)
    }

    /// Runs a case per seed, with a generator made from it. All cases run; then the campaign fails if one did.
    ///
    /// # Panics
    /// When a case failed. The failed seeds are printed with the command that replays them.
    pub fn run(&self, mut case: impl FnMut(u64, &mut Random)) {
        self.each(self.seeds(), |&seed| case(seed, &mut Random::new(seed)), |&seed| seed);
    }

    /// Runs a case per cell of a [`matrix`](Self::matrix). The sample is a random choice.
    ///
    /// # Panics
    /// When a case failed, as [`run`](Self::run) does.
    pub fn over<T: Clone>(&self, items: &[T], mut case: impl FnMut(&T)) {
        let chosen = self.cells(items, Choice::made());
        println!("campaign {}: {} of {} cells", self.name, chosen.len(), items.len());
        self.each(chosen, |(_, item)| case(item), |(number, _)| *number);
    }

    /// The cells to run, in their order, for a test that runs them together.
    pub fn chosen<T: Clone>(&self, items: &[T]) -> Vec<T> {
        let mut chosen = self.cells(items, Choice::made());
        chosen.sort_by_key(|(number, _)| *number);
        let numbers: Vec<u64> = chosen.iter().map(|(number, _)| *number).collect();
        println!("campaign {}: cells {numbers:?} by {:?}", self.name, Choice::made());
        chosen.into_iter().map(|(_, item)| item).collect()
    }

    /// The cells to run, with their numbers.
    fn cells<T: Clone>(&self, items: &[T], choice: Choice) -> Vec<(u64, T)> {
        let mut chosen: Vec<(u64, T)> = (1..).zip(items.iter().cloned()).collect();
        match choice {
            Choice::One(wanted) => chosen.retain(|(number, _)| *number == wanted),
            Choice::All { .. } => {}
            Choice::Sample { rotation } => {
                self.random(rotation).shuffle(&mut chosen);
                chosen.truncate(self.sample);
            }
        }
        chosen
    }

    /// What chooses the sample of a rotation: another generator for each campaign, as many have the same cells.
    fn random(&self, rotation: u64) -> Random {
        let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Random::new(self.name.bytes().fold(rotation ^ 0xcbf2_9ce4_8422_2325, fnv))
    }

    fn each<T>(
        &self,
        cases: impl IntoIterator<Item = T>,
        mut case: impl FnMut(&T),
        number: impl Fn(&T) -> u64,
    ) {
        if let Choice::Sample { rotation } | Choice::All { rotation } = Choice::made() {
            println!("campaign {}: ATREST_ROTATION={rotation}", self.name);
        }
        let started = Instant::now();
        let (mut ran, mut failed) = (0_usize, Vec::new());
        for item in cases {
            ran += 1;
            if catch_unwind(AssertUnwindSafe(|| case(&item))).is_err() {
                let seed = number(&item);
                println!("campaign {}: case {seed} failed; it alone: {}", self.name, replay(seed));
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
        if let [first, ..] = failed[..] {
            panic!("campaign {}: cases {failed:?} failed; the first alone: {}", self.name, replay(first));
        }
        assert!(ran > 0, "campaign {} ran no case", self.name);
    }
}

/// Which cases run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    One(u64),
    All { rotation: u64 },
    Sample { rotation: u64 },
}

impl Choice {
    /// What the environment asks for.
    fn made() -> Self {
        match asked("ATREST_SEED") {
            Some(0) => panic!("cases are numbered from 1"),
            Some(number) => Self::One(number),
            None if Campaign::is_full() => Self::All { rotation: rotation() },
            None => Self::Sample { rotation: rotation() },
        }
    }
}

/// What the samples are chosen by: `$ATREST_ROTATION`, or the commit.
pub fn rotation() -> u64 {
    static ROTATION: OnceLock<u64> = OnceLock::new();
    *ROTATION.get_or_init(|| asked("ATREST_ROTATION").or_else(|| of_commit(&workspace())).unwrap_or(1))
}

/// The first digits of the commit.
fn of_commit(directory: &Path) -> Option<u64> {
    let git = Command::new("git").current_dir(directory).args(["rev-parse", "HEAD"]).output().ok()?;
    u64::from_str_radix(std::str::from_utf8(&git.stdout).ok()?.get(..8)?, 16).ok()
}

/// A number in the environment.
fn asked(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")))
}

/// The command that runs one case of the test that is running. Tests run in the directory of their package.
fn replay(seed: u64) -> String {
    let package = env::current_dir().ok().and_then(|place| place.file_name()?.to_str().map(str::to_owned));
    let program = env::current_exe().ok().and_then(|path| path.file_stem()?.to_str().map(str::to_owned));
    let thread = std::thread::current();
    let (Some(package), Some(program)) = (package, program) else { return format!("ATREST_SEED={seed}") };
    // Behind the last hyphen cargo puts a hash.
    let program = program.rsplit_once('-').map_or(program.as_str(), |(name, _)| name);
    let program = match program.strip_prefix("atrest_") {
        Some(_) => "--lib".to_owned(),
        None => format!("--test {program}"),
    };
    let test = thread.name().unwrap_or("");
    format!("ATREST_SEED={seed} cargo test --locked -p atrest-{package} {program} -- --exact {test}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_case_runs_even_after_a_failure_and_the_campaign_then_fails() {
        let mut seen = Vec::new();
        let result = catch_unwind(AssertUnwindSafe(|| {
            Campaign::new("test", 3, 3).each(
                1..=3_u64,
                |seed| {
                    seen.push(*seed);
                    assert_ne!(*seed, 2, "this case fails on purpose");
                },
                |seed| *seed,
            );
        }));
        assert_eq!(seen, [1, 2, 3]);
        let message = *result.expect_err("a case failed").downcast::<String>().expect("a text");
        let test = "campaign::tests::every_case_runs_even_after_a_failure_and_the_campaign_then_fails";
        let command = format!("ATREST_SEED=2 cargo test --locked -p atrest-testkit --lib -- --exact {test}");
        assert_eq!(message, format!("campaign test: cases [2] failed; the first alone: {command}"));
    }

    fn numbers(campaign: &Campaign, choice: Choice) -> Vec<u64> {
        campaign.numbers(choice).collect()
    }

    #[test]
    fn a_sample_is_as_many_neighbours_and_every_case_is_in_some() {
        let campaign = Campaign::new("test", 3, 20);
        let mut tried = BTreeSet::new();
        for rotation in 0..200 {
            let sample = numbers(&campaign, Choice::Sample { rotation });
            assert_eq!(sample.len(), 3);
            assert!(sample.windows(2).all(|pair| pair[1] == pair[0] % 20 + 1), "{sample:?}");
            tried.extend(sample);
        }
        assert!(tried.into_iter().eq(1..=20));
        let other = Campaign::new("another", 3, 20);
        let differ = |rotation| {
            let choice = Choice::Sample { rotation };
            numbers(&campaign, choice) != numbers(&other, choice)
        };
        assert!((0..50).filter(|rotation| differ(*rotation)).count() > 30, "all campaigns rotate alike");
    }

    #[test]
    fn the_whole_is_every_case_once_and_one_is_one() {
        let campaign = Campaign::new("test", 3, 20);
        assert!(campaign.numbers(Choice::All { rotation: 5 }).eq(1..=20));
        assert_eq!(numbers(&campaign, Choice::One(7)), [7]);
        assert_eq!(numbers(&campaign, Choice::One(70)), [70]);
        assert_eq!(numbers(&Campaign::new("test", 5, 3), Choice::Sample { rotation: 9 }), [1, 2, 3]);
    }

    #[test]
    fn a_sample_of_what_lasts_is_as_many_cases_however_long_they_take() {
        let campaign = Campaign::lasting("test", 3, Duration::ZERO);
        for choice in [Choice::Sample { rotation: 1 }, Choice::All { rotation: 1 }] {
            let sample = numbers(&campaign, choice);
            assert_eq!(sample, [sample[0], sample[0] + 1, sample[0] + 2]);
        }
    }

    #[test]
    fn the_sample_of_a_matrix_is_another_one_for_another_rotation() {
        let (campaign, cells) = (Campaign::matrix("test", 12), Vec::from_iter(1001..=1700_u64));
        let sample = |rotation| campaign.cells(&cells, Choice::Sample { rotation });
        assert!(sample(1) == sample(1) && sample(1) != sample(2) && sample(1).len() == 12);
        assert!(sample(3).iter().all(|(number, cell)| number + 1000 == *cell), "a number names its cell");
        assert_eq!(campaign.cells(&cells, Choice::One(9)), [(9, 1009)]);
        assert_eq!(campaign.cells(&cells, Choice::All { rotation: 1 }).len(), 700);
    }

    #[test]
    fn the_rotation_follows_from_the_commit() {
        let scratch = crate::Scratch::new();
        assert_eq!(of_commit(scratch.as_path()), None);
        let git = |words: &str| scratch.tool("git").env("HOME", scratch.as_path()).words(words).ok().text();
        git("init --quiet");
        git("-c user.name=a -c user.email=b commit --quiet --allow-empty --message first");
        let commit = git("rev-parse --short=8 HEAD");
        assert_eq!(of_commit(scratch.as_path()), u64::from_str_radix(commit.trim(), 16).ok());
    }

    #[test]
    #[should_panic(expected = "ran no case")]
    fn a_campaign_without_cases_fails() {
        Campaign::matrix("empty", 0).over::<u8>(&[], |_| {});
    }
}
