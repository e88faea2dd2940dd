//! What a failed command says and how it exits. Exit codes are cryptsetup's, see its manual page.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use crate::colour::{self, Meaning};
use crate::output::plain;

/// What every error begins with.
const NAME: &str = "atrest:";

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
    /// Hints of which the one counts that goes with the beginning of the URL that the failure is about.
    hints: &'static [(&'static str, &'static str)],
    /// A file was not found, or one of the directories that lead to it.
    missing: bool,
}

impl Failure {
    /// Something failed that `what` names in one sentence.
    pub fn new(code: Code, what: impl fmt::Display) -> Self {
        Self { code: code as u8, what: what.to_string(), hint: None, hints: &[], missing: false }
    }

    /// Wrong arguments.
    pub fn parameters(what: impl fmt::Display) -> Self {
        Self::new(Code::Parameters, what)
    }

    /// Ends with this code and says nothing: the reason is known to whoever reads the code.
    pub fn silent(code: u8) -> Self {
        Self { code, what: String::new(), hint: None, hints: &[], missing: false }
    }

    /// Adds what to try next.
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// Adds what to try next where the URL that the failure is about begins so. Which it is, [`at`](Self::at) says.
    pub fn hint_by_url(mut self, hints: &'static [(&'static str, &'static str)]) -> Self {
        self.hints = hints;
        self
    }

    /// What happened.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Names the file that the failure is about.
    pub fn at(mut self, path: &Path) -> Self {
        let url = path.as_os_str().as_encoded_bytes();
        if let Some((_, hint)) = self.hints.iter().find(|(begin, _)| url.starts_with(begin.as_bytes())) {
            self.hints = &[];
            self = self.hint(hint);
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(parent) = parent.filter(|parent| self.missing && !parent.exists()) {
            self.missing = false;
            self.what = format!("{}: there is no such directory", parent.display());
            // Whether something was to be read there or made, nobody has told us.
            return self.hint(format!(
                "is the path right? For a new file make it first: mkdir -p {}",
                parent.display()
            ));
        }
        self.missing = false;
        if !self.what.is_empty() {
            self.what = format!("{}: {}", path.display(), self.what);
        }
        self
    }

    /// Replaces the words of what happened. The exit code and the hint stay.
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
            Kind::NotFound => Self { missing: true, ..failure(Code::Device, "there is no such file") },
            Kind::PermissionDenied => failure(Code::Refused, "permission denied")
                .hint("check its owner and mode, or run as a user who may access it"),
            Kind::AlreadyExists => {
                failure(Code::Busy, "it exists already").hint("choose another name, or remove it first")
            }
            Kind::NotADirectory => failure(Code::Device, "it is not a directory"),
            Kind::IsADirectory => failure(Code::Device, "it is a directory"),
            Kind::OutOfMemory => failure(Code::Memory, "out of memory"),
            Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => {
                failure(Code::Device, &format!("no space is left ({})", numberless(&error.to_string()).0))
                    .hint("free some space, or choose a place with more")
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
        // Nobody is left to tell if standard error is gone.
        let text = self.text(json);
        let text = match text.strip_prefix(NAME) {
            Some(rest) if !json => colour::marked(NAME, Meaning::Error) + rest,
            _ => text,
        };
        let _ = io::stderr().write_all(text.as_bytes());
    }

    /// What is printed: never the number of a system's error without a word on what to do.
    pub(crate) fn text(&self, json: bool) -> String {
        let (what, number) = numberless(&self.what);
        let hint = self.hint.clone().or_else(|| number.map(|number| advice(number).to_owned()));
        if json {
            let error = serde_json::json!({ "code": self.code, "message": what, "hint": hint });
            return format!("{}\n", serde_json::json!({ "error": error }));
        }
        // intended: there need not be a hint.
        let hint = hint.map(|hint| format!("  {}\n", plain(&hint))).unwrap_or_default();
        format!("{NAME} {}\n{hint}", plain(&what))
    }
}

/// `text` without the numbers that the standard library adds to the system's errors, and the last of them.
pub fn numberless(text: &str) -> (String, Option<i32>) {
    let (mut rest, mut left, mut number) = (text, String::new(), None);
    while let Some((before, behind)) = rest.split_once(" (os error ") {
        let Some((digits, after)) = behind.split_once(')') else { break };
        let Ok(found) = digits.parse() else { break };
        left.push_str(before);
        (rest, number) = (after, Some(found));
    }
    left.push_str(rest);
    (left, number)
}

/// What a person can do about an error of the system.
fn advice(number: i32) -> &'static str {
    use rustix::io::Errno;
    match Errno::from_raw_os_error(number) {
        Errno::NOENT | Errno::NOTDIR => "check the path; the directory that it names must be there",
        Errno::PERM | Errno::ACCESS => "check its owner and mode, or run as a user who may access it",
        Errno::EXIST | Errno::NOTEMPTY => "choose another name, or remove it first",
        Errno::ISDIR => "name a file, not a directory",
        Errno::IO | Errno::REMOTEIO | Errno::TIMEDOUT => {
            "the device or filesystem failed, and `dmesg` says more; copy what can still be read before anything else"
        }
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => "free some space, or choose a place with more",
        Errno::ROFS => "the filesystem there is read-only: mount it to be written, or choose another place",
        Errno::BUSY | Errno::TXTBSY => "end what uses it (`fuser -v` lists that) and try again",
        Errno::MFILE | Errno::NFILE => "raise the limit of open files: `ulimit -n`",
        Errno::NOMEM | Errno::AGAIN | Errno::NOBUFS => {
            "close other programs, or raise the limits of this one (`ulimit -a`)"
        }
        Errno::NAMETOOLONG => "choose a shorter name",
        Errno::LOOP => "the path leads through too many links, or a link where none may be",
        Errno::NODEV | Errno::NXIO => "the device is gone, or its driver is not loaded",
        Errno::NOTCONN | Errno::CONNREFUSED | Errno::PIPE => {
            "the process that served it has ended: `atrest status` shows it, and `atrest close` removes what it left"
        }
        Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY => {
            "this kernel or filesystem can't do that: choose another place"
        }
        Errno::ADDRINUSE | Errno::ADDRNOTAVAIL => "choose another address or port",
        Errno::STALE => "the file was replaced meanwhile: try again",
        _ => "the system refused that; `dmesg` may say more, and `strace` shows the call",
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::io(&error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_the_system_says_what_to_do() {
        for number in 1..=133 {
            let error = io::Error::from_raw_os_error(number);
            let direct = Failure::io(&error);
            let wrapped = Failure::new(Code::Device, format!("cannot use it: {error}; {error}"));
            if error.kind() == io::ErrorKind::BrokenPipe {
                continue;
            }
            for (failure, json) in [(&direct, false), (&direct, true), (&wrapped, false), (&wrapped, true)] {
                let text = failure.text(json);
                assert!(!text.contains("os error"), "{text}");
            }
            assert_eq!(wrapped.text(false).lines().count(), 2, "{}", wrapped.text(false));
            let name = error.to_string();
            let name = name.split(" (os").next().expect("a name");
            if direct.text(false).contains(&format!("atrest: {name}\n")) {
                assert_eq!(direct.text(false).lines().count(), 2, "{}", direct.text(false));
            }
        }
    }

    #[test]
    fn other_numbers_stay() {
        for text in ["", "no number", "a (os error x)", "a (os error 5", "16 bytes (5)"] {
            assert_eq!(numberless(text), (text.to_owned(), None));
        }
        assert_eq!(numberless("a (os error 5) b (os error 7)"), ("a b".to_owned(), Some(7)));
    }

    #[test]
    fn a_hint_that_is_there_stays() {
        let failure = Failure::new(Code::Device, "a (os error 5)").hint("do this");
        assert_eq!(failure.text(false), "atrest: a\n  do this\n");
    }
}
