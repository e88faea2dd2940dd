//! BENCHMARKS.md: tables of ratios, and where they come from.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::machine;

/// The longest line of the document.
const LINE: usize = 120;

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
        let about = wrapped(
            "After this page you know how fast atrest is, beside its peers and beside limits that nobody can beat. It is for \
             users who compare, and for developers. Only the ratios count, because absolute figures hold for this machine \
             alone. Losses are printed like wins.",
        );
        let how = wrapped(
            "Contenders run in turns (A B C … C B A) in one process on one core, and the tables have medians. Ciphers are \
             measured in GB/s of thread CPU time, in place. Every data unit has its own tweak. The data is 128 KiB in the \
             cache or 256 MiB of memory. Before a measurement all contenders must make the same of random data. Limits are \
             measured in the same turns.",
        );
        let head = format!(
            "# Benchmarks\n\n{about}\n\n{how}\n\n\
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
        let _ = writeln!(self.head, "* {}", wrapped(fact).replace('\n', "\n  "));
    }

    /// Notes what was to be reached, and what was: a speed of ours divided by that of `against`.
    pub fn target(&mut self, what: &str, against: &str, ratio: f64, target: f64) {
        let verdict = verdict(ratio, target);
        self.targets.push(vec![what.to_owned(), against.to_owned(), format!("{ratio:.2}"), verdict]);
    }

    pub fn line(&mut self, line: &str) {
        let line = wrapped(line);
        let _ = writeln!(self.text, "\n{line}");
        println!("\n{line}");
    }

    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut targets = String::new();
        if !self.targets.is_empty() {
            targets = table(
                "Targets of ciphers and key derivations",
                "The ratio is the speed of atrest by that of the one named. Only the targets of a CPU like this one are listed.",
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
    let note = if note.is_empty() { String::new() } else { format!("{}\n\n", wrapped(note)) };
    let tables: Vec<String> = columns(head, rows).iter().map(|chosen| part(head, rows, chosen)).collect();
    format!("\n## {title}\n\n{note}{}", tables.join("\n"))
}

/// Some columns of a table.
fn part(head: &[&str], rows: &[Vec<String>], chosen: &[usize]) -> String {
    let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(chosen.iter().map(|&at| head[at]).collect());
    text += &format!("|{}\n", "---|".repeat(chosen.len()));
    for row in rows {
        text += &line(chosen.iter().map(|&at| row[at].as_str()).collect());
    }
    text
}

/// Which columns go into which table, so that no line is longer than `LINE`. Each table begins with the first column.
fn columns(head: &[&str], rows: &[Vec<String>]) -> Vec<Vec<usize>> {
    let mut tables = vec![vec![0]];
    for column in 1..head.len() {
        let last = tables.len() - 1;
        let wider = [&tables[last][..], &[column]].concat();
        let fits = part(head, rows, &wider).lines().all(|line| line.chars().count() <= LINE);
        if fits || tables[last].len() == 1 {
            tables[last] = wider;
        } else {
            tables.push(vec![0, column]);
        }
    }
    tables
}

/// A paragraph in lines of at most `LINE` characters. Only a longer word makes a longer line.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        if lines[last].is_empty() {
            lines[last] = word.to_owned();
        } else if lines[last].chars().count() + 1 + word.chars().count() <= LINE - 2 {
            lines[last] = format!("{} {word}", lines[last]);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

/// A target, and whether it was reached.
pub fn verdict(ratio: f64, target: f64) -> String {
    format!("≥ {target:.2} {}", if ratio >= target { "reached" } else { "**missed**" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_table_becomes_several_with_the_same_first_column() {
        let (wide, rows) = ("w".repeat(60), vec![vec!["a".to_owned(), "1".into(), "2".into(), "3".into()]]);
        let text = table("Title", "A note.", &["what", &wide, &wide, "short"], &rows);
        let heads: Vec<&str> = text.lines().filter(|line| line.starts_with("| what")).collect();
        assert_eq!(heads, [format!("| what | {wide} |"), format!("| what | {wide} | short |")]);
        assert!(text.contains("| a | 1 |\n") && text.contains("| a | 2 | 3 |\n"), "{text}");
    }

    #[test]
    fn a_paragraph_is_cut_between_words() {
        let text = wrapped(&"word ".repeat(60));
        assert!(text.lines().all(|line| line.len() <= LINE) && text.lines().count() == 3, "{text}");
        assert_eq!(text.split_whitespace().count(), 60);
    }
}
