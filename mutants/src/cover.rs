//! Which tests reach which mutants. Each test runs once, alone; what it reached is kept until the programs change.

use std::collections::{BTreeMap, hash_map::DefaultHasher};
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::crew;
use crate::numbers;
use crate::process::{Ended, Place};
use crate::suite::Program;

/// A test, and what it does without a mutant.
#[derive(Clone, Debug)]
pub struct Test {
    /// The number of its program.
    pub program: usize,
    /// The name, without that of the program.
    pub name: String,
    /// How it ends.
    pub ended: Ended,
    /// How long it takes.
    pub took: Duration,
    /// The mutants that it reaches, in order.
    pub reached: Vec<u32>,
}

/// What is needed to run tests.
pub struct Rig {
    /// The test programs.
    pub programs: Vec<Program>,
    /// The program that tests of the command line start.
    pub atrest: PathBuf,
    /// Whether tests of packages run against a mutant that the table of rooms does not name for it.
    pub all_packages: bool,
    /// Where results are kept.
    pub store: PathBuf,
    /// How many tests run side by side.
    pub jobs: usize,
}

impl Rig {
    /// Runs every test that `wanted` accepts by its full name, for at most `limit`. `mutants` is the largest number of a
    /// mutant. Tests that are left out by name are not among the results.
    pub fn cover(
        &self,
        mutants: u32,
        limit: Duration,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<Test>, String> {
        fs::create_dir_all(&self.store).map_err(|error| format!("{}: {error}", self.store.display()))?;
        let mut tests = Vec::new();
        for (number, program) in self.programs.iter().enumerate() {
            let path = self.store.join(format!("{:016x}.json", self.fingerprint(program)?));
            let mut kept =
                fs::read_to_string(&path).ok().and_then(|text| read(number, &text)).unwrap_or_default();
            // What failed may have failed by chance, and what took too long may have time now.
            kept.retain(|test| {
                test.ended == Ended::Passed || (test.ended == Ended::TimedOut && test.took >= limit)
            });
            let mut names = program.tests()?;
            names.retain(|name| !program.leaves_out(name) && wanted(&program.full_name(name)));
            let (known, unknown): (Vec<_>, Vec<_>) =
                names.into_iter().partition(|name| kept.iter().any(|test| test.name == *name));
            if !unknown.is_empty() {
                eprintln!("{}/{}: {} tests", program.package, program.name, unknown.len());
                kept.extend(self.cover_tests(number, &unknown, mutants, limit)?);
                fs::write(&path, written(&kept)).map_err(|error| format!("{}: {error}", path.display()))?;
            }
            tests.extend(
                kept.into_iter().filter(|test| known.contains(&test.name) || unknown.contains(&test.name)),
            );
        }
        Ok(tests)
    }

    fn cover_tests(
        &self,
        number: usize,
        names: &[String],
        mutants: u32,
        limit: Duration,
    ) -> Result<Vec<Test>, String> {
        let (next, found) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
        crew::work(self.jobs, |worker| {
            let place = Place::new(worker)?;
            let hits = self.store.join(format!("hits-{worker}"));
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(name) = names.get(index) else { return Ok(()) };
                let test = self.cover_test(number, name, (mutants, limit), &place, &hits)?;
                found.lock().map_err(|_| "a worker panicked")?.insert(index, test);
            }
        })?;
        Ok(found.into_inner().map_err(|_| "a worker panicked")?.into_values().collect())
    }

    fn cover_test(
        &self,
        number: usize,
        name: &str,
        (mutants, limit): (u32, Duration),
        place: &Place,
        hits: &Path,
    ) -> Result<Test, String> {
        let failed = |error| format!("{}: {error}", hits.display());
        fs::write(hits, vec![0; mutants as usize + 1]).map_err(failed)?;
        let mut command = self.programs[number].command(name, &self.atrest);
        command.env("ATREST_MUTANT_HITS", hits).env_remove("ATREST_MUTANT");
        let (ended, took) = place.run(command, limit)?;
        let bytes = fs::read(hits).map_err(failed)?;
        let reached = (0..=mutants).filter(|id| bytes.get(*id as usize) == Some(&1)).collect();
        Ok(Test { program: number, name: name.into(), ended, took, reached })
    }

    /// Returns a number that changes when a program or `atrest` changes.
    fn fingerprint(&self, program: &Program) -> Result<u64, String> {
        let mut hasher = DefaultHasher::new();
        fs::read(&program.path)
            .map_err(|error| format!("{}: {error}", program.path.display()))?
            .hash(&mut hasher);
        if ["atrest-cli", "atrest-testkit"].contains(&program.package.as_str()) {
            fs::read(&self.atrest).unwrap_or_default().hash(&mut hasher);
        }
        Ok(hasher.finish())
    }
}

fn written(tests: &[Test]) -> String {
    let tests = tests.iter().map(|test| {
        let ended = match test.ended {
            Ended::Passed => "passed",
            Ended::Failed => "failed",
            Ended::TimedOut => "timed out",
        };
        json!({
            "name": test.name,
            "ended": ended,
            "milliseconds": test.took.as_millis() as u64,
            "reached": numbers::write(&test.reached),
        })
    });
    Value::Array(tests.collect()).to_string()
}

fn read(program: usize, text: &str) -> Option<Vec<Test>> {
    let value: Value = serde_json::from_str(text).ok()?;
    let tests = value.as_array()?.iter().map(|test| {
        let ended = match test["ended"].as_str()? {
            "passed" => Ended::Passed,
            "failed" => Ended::Failed,
            _ => Ended::TimedOut,
        };
        Some(Test {
            program,
            name: test["name"].as_str()?.into(),
            ended,
            took: Duration::from_millis(test["milliseconds"].as_u64()?),
            reached: numbers::read(test["reached"].as_str()?)?,
        })
    });
    tests.collect()
}
