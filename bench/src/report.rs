//! BENCHMARKS.md: tables of ratios, and where they come from.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::machine;

/// The document as it grows. What is added is printed at once.
pub struct Report {
    head: String,
    text: String,
    targets: Vec<Vec<String>>,
}

impl Report {
    pub fn new(root: &Path, args: &[String]) -> Self {
        let output = |program: &str, args: &[&str]| {
            Command::new(program)
                .args(args)
                .current_dir(root)
                .output()
                .ok()
                .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
                .filter(|text| !text.is_empty())
                .unwrap_or_else(|| "unknown".into())
        };
        let commit = output("git", &["describe", "--always", "--dirty", "--abbrev=12"]);
        let (date, kernel) = (output("date", &["-u", "+%Y-%m-%d"]), output("uname", &["-sr"]));
        let mut command = "make bench".to_owned();
        if !args.is_empty() {
            command = format!("cargo run --release --manifest-path bench/Cargo.toml -- {}", args.join(" "));
        }
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().unwrap_or("unknown").to_owned();
        let head = format!(
            "# Benchmarks\n\n\
             Ratios are what counts: contenders ran in turns (A B C … C B A) in one process on one core, medians are \
             given, and losses are printed like wins. Absolute figures hold for this machine only. Ciphers: GB/s of \
             thread CPU time, in place, every data unit with its own tweak, on 128 KiB in the cache or 256 MiB of \
             memory; before they were timed all made the same of random data. Limits are what nobody can beat, in the same \
             turns.\n\n\
             * Machine: {}; {kernel}\n\
             * Load average before the run: {load}; scheduling: {}\n\
             * Date: {date}\n\
             * Commit: {commit}\n\
             * Command: `{command}`\n",
            machine::name(),
            machine::scheduling()
        );
        Self { head, text: String::new(), targets: Vec::new() }
    }

    pub fn table(&mut self, title: &str, note: &str, head: &[&str], rows: Vec<Vec<String>>) {
        let table = table(title, note, head, &rows);
        print!("{table}");
        self.text += &table;
    }

    /// One more fact about where all this comes from.
    pub fn fact(&mut self, fact: &str) {
        let _ = writeln!(self.head, "* {fact}");
    }

    /// Notes what was to be reached, and what was: a speed of ours divided by that of `against`.
    pub fn target(&mut self, what: &str, against: &str, ratio: f64, target: f64) {
        let verdict = verdict(ratio, target);
        self.targets.push(vec![what.to_owned(), against.to_owned(), format!("{ratio:.2}"), verdict]);
    }

    pub fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "\n{line}");
        println!("\n{line}");
    }

    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut targets = String::new();
        if !self.targets.is_empty() {
            targets = table(
                "Targets of ciphers and key derivations",
                "Speed of ours divided by that of the one named. Only the targets of a CPU like this one are listed.",
                &["what", "against", "ratio", "target"],
                &self.targets,
            );
        }
        let kept = match std::fs::read_to_string(path) {
            Ok(old) => kept(&old).to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        std::fs::write(path, format!("{}{targets}{}{kept}", self.head, self.text))
    }
}

/// What no benchmark measures, and people wrote: the end of the document, from its heading on.
fn kept(old: &str) -> &str {
    old.find("\n## Campaigns\n").map_or("", |at| &old[at..])
}

fn table(title: &str, note: &str, head: &[&str], rows: &[Vec<String>]) -> String {
    let note = if note.is_empty() { String::new() } else { format!("{note}\n\n") };
    let mut text =
        format!("\n## {title}\n\n{note}| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
    for row in rows {
        // Writing to a string can't fail.
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
}

/// A target, and whether it was reached.
pub fn verdict(ratio: f64, target: f64) -> String {
    format!("≥ {target:.2} {}", if ratio >= target { "reached" } else { "**missed**" })
}
