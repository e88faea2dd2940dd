//! BENCHMARKS.md: tables of ratios, and where they come from.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::machine;

/// The document as it grows. What is added is printed at once.
pub struct Report {
    text: String,
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
        let text = format!(
            "# Benchmarks\n\n\
             Ratios are what counts: contenders ran in turns (A B C … C B A) in one process, medians are given, and \
             losses are printed like wins. Absolute figures hold for this machine only.\n\n\
             * Machine: {}; {kernel}\n\
             * Load average before the run: {load}; scheduling: {}\n\
             * Date: {date}\n\
             * Commit: {commit}\n\
             * Command: `{command}`\n",
            machine::name(),
            machine::scheduling()
        );
        Self { text }
    }

    pub fn table(&mut self, title: &str, note: &str, head: &[&str], rows: Vec<Vec<String>>) {
        let start = self.text.len();
        // Writing to a string can't fail.
        let _ = writeln!(self.text, "\n## {title}\n\n{note}\n\n| {} |", head.join(" | "));
        let _ = writeln!(self.text, "|{}", "---|".repeat(head.len()));
        for row in rows {
            let _ = writeln!(self.text, "| {} |", row.join(" | "));
        }
        print!("{}", &self.text[start..]);
    }

    pub fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "\n{line}");
        println!("\n{line}");
    }

    pub fn write(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, &self.text)
    }
}
