//! What was counted, by board, build, program and what it was: `firmware/figures.tsv`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use atrest_testkit::firmware::{Board, Build};

/// What is counted of each program.
pub const BUILDS: [Build; 2] = [Build::Speed, Build::Size];

type Key = (String, String, String, String);

/// Instructions, or bytes.
#[derive(Default)]
pub struct Figures(pub BTreeMap<Key, u64>);

impl Figures {
    pub fn add(&mut self, board: &Board, build: &str, program: &str, what: &str, figure: u64) {
        self.0.insert(key(board, build, program, what), figure);
    }

    pub fn of(&self, board: &Board, build: &str, program: &str, what: &str) -> u64 {
        let key = key(board, build, program, what);
        *self.0.get(&key).unwrap_or_else(|| panic!("{key:?}: `make bench-embedded` counts anew"))
    }

    pub fn tsv(&self) -> String {
        let mut text = String::new();
        for ((board, build, cipher, what), figure) in &self.0 {
            writeln!(text, "{board}\t{build}\t{cipher}\t{what}\t{figure}").expect("a String");
        }
        text
    }

    pub fn parse(text: &str) -> Self {
        let line = |line: &str| {
            let fields: Vec<&str> = line.split('\t').collect();
            let [board, build, cipher, what, figure] = fields[..] else { panic!("figures.tsv: {line}") };
            let key = (board.into(), build.into(), cipher.into(), what.into());
            (key, figure.parse().unwrap_or_else(|_| panic!("figures.tsv: {line}")))
        };
        Self(text.lines().map(line).collect())
    }
}

fn key(board: &Board, build: &str, program: &str, what: &str) -> Key {
    (board.name.into(), build.into(), program.into(), what.into())
}

/// Runs a program, which prints as many figures as expected: those that are to be kept. The others must be right: the counter's
/// calibration, fingerprints, by what is encrypted here, and bytes that decrypting did not give back.
pub fn counted(
    board: &Board,
    program: &Path,
    count: usize,
    fingerprint: impl Fn(usize) -> u64,
) -> Vec<(String, u64)> {
    let name = program.display();
    let output = board.count(program);
    let mut lines = Vec::new();
    for line in output.lines() {
        let fields: Vec<&str> = line.trim().split(',').collect();
        let [what, size, figure] = fields[..] else { panic!("{name}: {line}") };
        let size: usize = size.parse().unwrap_or_else(|_| panic!("{name}: {line}"));
        let figure: u64 = figure.parse().unwrap_or_else(|_| panic!("{name}: {line}"));
        match what {
            "calibration" => assert!(figure.abs_diff(20_000) <= 10, "the counter counts {figure} for 20,000"),
            "fingerprint" => {
                assert_eq!(figure, fingerprint(size), "{name}: not the ciphertext of this machine");
            }
            "damaged" => assert_eq!(figure, 0, "{name}: decrypting gave other bytes"),
            _ => {
                let what = if size == 0 { what.to_owned() } else { format!("{what} {size}") };
                lines.push((what, figure));
            }
        }
    }
    assert_eq!(output.lines().count(), count, "{name}: an incomplete report:\n{output}");
    lines
}
