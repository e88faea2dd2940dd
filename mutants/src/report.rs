//! What is printed at the end, and what is written for programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::cover::{Rig, Test};
use crate::judge::Verdict;
use crate::mutant::{Class, Mutant};
use crate::process::Ended;
use crate::rooms::ROOMS;

/// What became of all mutants.
pub struct Report<'m> {
    /// Every mutant that was asked for, before the sample was drawn.
    pub all: Vec<&'m Mutant>,
    /// Those of them that do not compile.
    pub unviable: Vec<&'m Mutant>,
    /// Those that no test can notice.
    pub equivalent: Vec<&'m Mutant>,
    /// Those that were judged, and how.
    pub judged: Vec<(&'m Mutant, Verdict)>,
}

/// The columns of a line of the table.
const COLUMNS: [&str; 10] = [
    "mutants",
    "unviable",
    "equivalent",
    "run",
    "killed",
    "timed out",
    "survived",
    "unreached",
    "not run",
    "rate",
];

impl Report<'_> {
    /// Returns the table and the names of the mutants that no test noticed.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (mutant, verdict) in &self.judged {
            let _ = match verdict {
                Verdict::Survived { ran, reach } if ran == reach => {
                    writeln!(text, "survived: {} ({reach} tests passed)", mutant.name())
                }
                Verdict::Survived { ran, reach } => {
                    writeln!(
                        text,
                        "survived: {} ({ran} of {reach} tests passed, no other ran)",
                        mutant.name()
                    )
                }
                Verdict::Unreached => writeln!(text, "unreached: {}", mutant.name()),
                _ => Ok(()),
            };
        }
        let _ = writeln!(text, "\n{:28}{}", "", COLUMNS.map(|column| format!("{column:>11}")).concat());
        for room in ROOMS {
            let classes = [("", true), (" (all classes)", false)];
            for (suffix, only_classic) in classes {
                let line = self.line(|mutant| room.has(&mutant.file) && (mutant.classic || !only_classic));
                self.push(&mut text, &format!("{}{suffix}", short(room.path)), line);
            }
        }
        for class in Class::ALL {
            self.push(&mut text, class.name(), self.line(|mutant| mutant.class == class));
        }
        self.push(&mut text, "cargo-mutants' classes", self.line(|mutant| mutant.classic));
        self.push(&mut text, "all classes", self.line(|_| true));
        text
    }

    /// Returns the numbers of a line: as in the head of the table.
    fn line(&self, wanted: impl Fn(&Mutant) -> bool) -> [usize; 9] {
        let count = |mutants: &[&Mutant]| mutants.iter().filter(|mutant| wanted(mutant)).count();
        let verdicts = |words: &[&str]| {
            self.judged
                .iter()
                .filter(|(mutant, verdict)| wanted(mutant) && words.contains(&word_for(verdict)))
                .count()
        };
        [
            count(&self.all),
            count(&self.unviable),
            count(&self.equivalent),
            verdicts(&["killed", "timed out", "survived", "unreached"]),
            verdicts(&["killed"]),
            verdicts(&["timed out"]),
            verdicts(&["survived"]),
            verdicts(&["unreached"]),
            verdicts(&["not run"]),
        ]
    }

    fn push(&self, text: &mut String, name: &str, line: [usize; 9]) {
        let [all, _, _, run, killed, timed_out, ..] = line;
        if all > 0 {
            let numbers = line.map(|number| format!("{number:>11}")).concat();
            let rate = match run {
                0 => "–".into(),
                run => format!("{:.1} %", 100.0 * (killed + timed_out) as f64 / run as f64),
            };
            let _ = writeln!(text, "{name:28}{numbers}{rate:>11}");
        }
    }

    /// Returns every mutant with what became of it.
    pub fn json(&self, seed: u64) -> Value {
        let value = |mutant: &Mutant, verdict: &str, by: &str| {
            json!({
                "name": mutant.name(),
                "file": mutant.file,
                "line": mutant.line,
                "column": mutant.column,
                "description": mutant.description(),
                "source": mutant.source,
                "class": mutant.class.name(),
                "classic": mutant.classic,
                "verdict": verdict,
                "by": by,
            })
        };
        let unviable = self.unviable.iter().map(|mutant| value(mutant, "unviable", ""));
        let equivalent = self.equivalent.iter().map(|mutant| value(mutant, "equivalent", ""));
        let judged = self.judged.iter().map(|(mutant, verdict)| {
            let by = match verdict {
                Verdict::Killed(test) | Verdict::TimedOut(test) => test.as_str(),
                _ => "",
            };
            let mut value = value(mutant, word_for(verdict), by);
            if let Verdict::Survived { ran, reach } = verdict {
                value["ran"] = json!(ran);
                value["reach"] = json!(reach);
            }
            value
        });
        json!({ "seed": seed, "mutants": unviable.chain(equivalent).chain(judged).collect::<Vec<_>>() })
    }
}

/// Returns what is to be said of the tests themselves.
pub fn tests(rig: &Rig, tests: &[Test]) -> String {
    let mut text = String::new();
    for (ended, word) in [(Ended::Failed, "fail without a mutant"), (Ended::TimedOut, "take too long")] {
        let left_out: Vec<_> = tests.iter().filter(|test| test.ended == ended).collect();
        let _ = writeln!(text, "{} tests {word} and are left out", left_out.len());
        for test in left_out {
            let _ = writeln!(text, "    {}", rig.programs[test.program].full_name(&test.name));
        }
    }
    let passed = tests.iter().filter(|test| test.ended == Ended::Passed);
    let seconds: f64 = passed.clone().map(|test| test.took.as_secs_f64()).sum();
    let _ = writeln!(text, "{} tests take {seconds:.0} s one after the other", passed.count());
    text
}

fn word_for(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Killed(_) => "killed",
        Verdict::TimedOut(_) => "timed out",
        Verdict::Survived { .. } => "survived",
        Verdict::Unreached => "unreached",
        Verdict::NotRun => "not run",
    }
}

fn short(path: &str) -> String {
    path.trim_start_matches("crates/").replace("/src/", "/")
}
