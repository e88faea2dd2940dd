//! What a failed command says and how it exits. Exit codes are cryptsetup's, see its manual page.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use crate::output::plain;

/// cryptsetup's exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// The arguments are wrong or don't fit together.
    Parameters = 1,
    /// No permission, or no such passphrase.
    Refused = 2,
    /// Out of memory.
    Memory = 3,
    /// The device is not what it should be: missing, not a volume, damaged, failing.
    Device = 4,
    /// It exists already or is in use.
    Busy = 5,
}

/// A failed command: what happened and what it means, and what to try.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    what: String,
    hint: Option<String>,
}

impl Failure {
    /// Something failed that `what` names in one sentence.
    pub fn new(code: Code, what: impl fmt::Display) -> Self {
        Self { code: code as u8, what: what.to_string(), hint: None }
    }

    /// Wrong arguments.
    pub fn parameters(what: impl fmt::Display) -> Self {
        Self::new(Code::Parameters, what)
    }

    /// Ends with this code and says nothing: the reason is known to whoever reads the code.
    pub fn silent(code: u8) -> Self {
        Self { code, what: String::new(), hint: None }
    }

    /// Adds what to try next.
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// What happened.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Names the file that the failure is about.
    pub fn at(mut self, path: &Path) -> Self {
        if !self.what.is_empty() {
            self.what = format!("{}: {}", path.display(), self.what);
        }
        self
    }

    /// The same code and hint with other words.
    pub fn saying(mut self, what: impl fmt::Display) -> Self {
        self.what = what.to_string();
        self
    }

    /// Says something more of what happened.
    pub fn adding(mut self, more: impl fmt::Display) -> Self {
        self.what = format!("{}; {more}", self.what);
        self
    }

    /// Another exit code, if there is one.
    pub fn with_code(mut self, code: Option<u8>) -> Self {
        self.code = code.unwrap_or(self.code);
        self
    }

    /// Says what was being done.
    pub fn within(mut self, doing: &str) -> Self {
        self.what = format!("{doing}: {}", self.what);
        self
    }

    /// The process's exit code.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// A failed system call on a file.
    pub fn io(error: &io::Error) -> Self {
        use io::ErrorKind as Kind;
        let failure = |code, what: &str| Self::new(code, what);
        match error.kind() {
            Kind::NotFound => failure(Code::Device, "there is no such file"),
            Kind::PermissionDenied => failure(Code::Refused, "permission denied")
                .hint("check its owner and mode, or run as a user who may access it"),
            Kind::AlreadyExists => {
                failure(Code::Busy, "it exists already").hint("choose another name, or remove it first")
            }
            Kind::NotADirectory => failure(Code::Device, "it is not a directory"),
            Kind::IsADirectory => failure(Code::Device, "it is a directory"),
            Kind::OutOfMemory => failure(Code::Memory, "out of memory"),
            Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => {
                failure(Code::Device, &format!("no space is left ({error})"))
            }
            Kind::ResourceBusy => failure(Code::Busy, "it is in use"),
            // The reader of a pipe went away: what SIGPIPE would have said, had Rust not blocked it.
            Kind::BrokenPipe => Self::silent(141),
            _ => failure(Code::Device, &error.to_string()),
        }
    }

    /// Prints to standard error, as text or as one line of JSON.
    pub fn print(&self, json: bool) {
        if self.what.is_empty() {
            return;
        }
        let text = if json {
            let error = serde_json::json!({ "code": self.code, "message": self.what, "hint": self.hint });
            format!("{}\n", serde_json::json!({ "error": error }))
        } else {
            let hint = self.hint.as_ref().map(|hint| format!("  {}\n", plain(hint))).unwrap_or_default();
            format!("atrest: {}\n{hint}", plain(&self.what))
        };
        // Nobody is left to tell if standard error is gone.
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::io(&error)
    }
}
