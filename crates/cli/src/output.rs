//! Where a command's answer goes: text or JSON on standard output, notes and questions elsewhere.

use std::fs::OpenOptions;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};
use serde_json::Value;

use atrest_filetree::DisplayName;

use crate::args::GlobalArgs;
use crate::colour::{self, Meaning};
use crate::failure::{Code, Failure, numberless};
use crate::meter::Lines;

/// How this run talks.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
    quiet: bool,
    yes: bool,
    questions: Questions,
    lines: Option<Lines>,
}

/// What [`Output::report_by`] prints.
pub enum Line<'a> {
    /// For people.
    Heading(&'a str),
    /// A row, as JSON and as text.
    Row(&'a dyn Fn() -> Value, &'a dyn Fn() -> String),
}

/// How passphrases are asked for.
#[derive(Clone, Copy, Debug)]
pub struct Questions {
    /// Where standard input is no terminal, each answer is a line of it, as with cryptsetup.
    pub from_stdin: bool,
    /// Bytes of standard input in front of the first answer.
    pub skip: u64,
    /// An answer from standard input is so many bytes of a line; 0 is all of it.
    pub bytes: Option<u64>,
    /// How often a passphrase is asked for that may be wrong.
    pub tries: u32,
    /// How long somebody at a terminal may take.
    pub timeout: Option<Duration>,
    /// Tokens are tried before a passphrase is asked for, also where it is only tested.
    pub tokens_first: bool,
}

impl Default for Questions {
    fn default() -> Self {
        Self { from_stdin: false, skip: 0, bytes: None, tries: 3, timeout: None, tokens_first: false }
    }
}

impl Output {
    /// As the global options say.
    pub fn new(args: &GlobalArgs) -> Self {
        Self {
            json: args.json,
            quiet: args.quiet,
            yes: args.yes,
            questions: Questions::default(),
            lines: None,
        }
    }

    /// Asks in another way.
    pub fn asking(self, questions: Questions) -> Self {
        Self { questions, ..self }
    }

    /// Tells how far it is in lines, and not by a bar.
    pub fn telling(self, lines: Option<Lines>) -> Self {
        Self { lines, ..self }
    }

    /// The lines that tell how far it is, if there are some.
    pub fn lines(&self) -> Option<Lines> {
        self.lines
    }

    /// Whether answers are lines of standard input.
    pub fn reads_lines(&self) -> bool {
        self.questions.from_stdin && !io::stdin().is_terminal()
    }

    /// How passphrases are asked for.
    pub fn questions(&self) -> Questions {
        self.questions
    }

    /// How often a passphrase is asked for. Lines are read once: who wrote them does not see that one was wrong.
    pub fn tries(&self) -> u32 {
        if self.reads_lines() { 1 } else { self.questions.tries }
    }

    /// Whether answers are JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Whether only what was asked for is printed.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether questions are answered in advance.
    pub fn says_yes(&self) -> bool {
        self.yes
    }

    /// The answer of a command that was asked for information: printed always.
    pub fn report(&self, data: &impl Serialize, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        if self.json {
            serde_json::to_writer_pretty(&mut out, data).map_err(io::Error::from)?;
            writeln!(out)?;
        } else {
            // Lines are the command's own; what else steers a terminal came from outside.
            for line in text.split_inclusive('\n') {
                match line.strip_suffix('\n') {
                    Some(line) => writeln!(out, "{}", plain(line))?,
                    None => write!(out, "{}", plain(line))?,
                }
            }
            if !text.is_empty() && !text.ends_with('\n') {
                writeln!(out)?;
            }
        }
        out.flush()?;
        Ok(())
    }

    /// A list that `fill` hands over line by line, so that no more of it is in memory than one.
    pub fn report_by(
        &self,
        fill: impl FnOnce(&mut dyn FnMut(Line<'_>) -> Result<(), Failure>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut out = io::BufWriter::new(io::stdout().lock());
        if self.json {
            let mut printer = serde_json::Serializer::pretty(&mut out);
            let mut list = printer.serialize_seq(None).map_err(io::Error::from)?;
            fill(&mut |line| {
                if let Line::Row(json, _) = line {
                    list.serialize_element(&json()).map_err(io::Error::from)?;
                }
                Ok(())
            })?;
            list.end().map_err(io::Error::from)?;
            writeln!(out)?;
        } else {
            fill(&mut |line| {
                let text = match line {
                    Line::Heading(text) => text.to_owned(),
                    Line::Row(_, text) => text(),
                };
                writeln!(out, "{}", plain(text.strip_suffix('\n').unwrap_or(&text)))?;
                Ok(())
            })?;
        }
        out.flush()?;
        Ok(())
    }

    /// What a command that changes something did: one line of text only without --quiet.
    pub fn done(&self, data: &impl Serialize, text: &str) -> Result<(), Failure> {
        if self.quiet && !self.json {
            return Ok(());
        }
        self.report(data, &plain(text).to_string())
    }

    /// One line of JSON of a longer conversation (progress, readiness).
    pub fn json_line(&self, data: &impl Serialize) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        serde_json::to_writer(&mut out, data).map_err(io::Error::from)?;
        writeln!(out)?;
        out.flush()?;
        Ok(())
    }

    /// Something worth knowing, on standard error: one line, of JSON if answers are.
    pub fn warn(&self, text: impl std::fmt::Display) {
        if !self.quiet {
            let (text, _) = numberless(&text.to_string());
            let line = match self.json {
                true => serde_json::json!({ "warning": text }).to_string(),
                false => format!("{} {}", colour::marked("atrest: warning:", Meaning::Warning), plain(&text)),
            };
            // Nobody is left to tell if standard error is gone.
            let _ = writeln!(io::stderr(), "{line}");
        }
    }

    /// Something about what standard output gets, on standard error; only text.
    pub fn note(&self, text: impl std::fmt::Display) {
        if !self.quiet && !self.json {
            let _ = writeln!(io::stderr(), "atrest: {text}");
        }
    }

    /// Says once that secrets could not be locked in memory, if that happened.
    pub fn warn_if_unlocked(&self) {
        static SAID: AtomicBool = AtomicBool::new(false);
        if atrest_secret::unlocked_allocations() > 0 && !SAID.swap(true, Ordering::Relaxed) {
            self.warn("keys could not be locked in memory and may reach the swap (raise `ulimit -l`)");
        }
    }

    /// Goes on only if the user types YES, or said so in advance.
    pub fn confirm(&self, warning: &str) -> Result<(), Failure> {
        // cryptsetup's -q answers all questions.
        let quiet = if self.quiet { "; -q is --quiet here, and answers no question" } else { "" };
        self.confirm_or(warning, || format!("pass --yes if that is meant{quiet}"))
    }

    /// [`confirm`](Self::confirm), with what to do where there is no terminal to ask on.
    pub fn confirm_or(&self, warning: &str, instead: impl FnOnce() -> String) -> Result<(), Failure> {
        // cryptsetup asks only people; its scripts count on that.
        if self.yes || self.reads_lines() {
            return Ok(());
        }
        let warning = plain(warning);
        let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").map_err(|_| {
            Failure::parameters(format!("{warning}; there is no terminal to ask on")).hint(instead())
        })?;
        let mut answer = String::new();
        write!(&terminal, "WARNING: {warning}.\nType YES in capital letters to go on: ")?;
        io::BufReader::new(&terminal).read_line(&mut answer)?;
        if answer.trim_end() == "YES" {
            Ok(())
        } else {
            Err(Failure::new(Code::Parameters, "not confirmed; nothing was changed"))
        }
    }
}

/// `text` on one line, with control characters escaped: headers, file names and paths may be hostile, and must neither
/// steer a terminal nor forge a line of ours.
pub fn plain(text: &str) -> DisplayName<'_> {
    DisplayName(text.as_bytes())
}

/// A path as JSON text. A name that is not UTF-8 is shown with replacement characters, as `ls` does.
pub fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
