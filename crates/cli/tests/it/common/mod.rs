//! Runs the real binary in a scratch directory of its own; see tests/README.md.
#![allow(dead_code)]

pub mod kills;
pub mod luks2;
pub mod sealed;
pub mod terminal;

use std::ffi::OsStr;
use std::ops::Deref;
use std::process::{Command, Stdio};

use atrest_testkit::oracle::{Outcome, Program, tool};

/// The cheapest key derivation that cryptsetup accepts: these tests are not about its cost.
pub const CHEAP: [&str; 4] = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];

/// The program under test.
const ATREST: &str = env!("CARGO_BIN_EXE_atrest");

/// What a run gave, held against what the command line promises of every run.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    pub raw: Vec<u8>,
}

impl From<Outcome> for Ran {
    fn from(outcome: Outcome) -> Self {
        let code = outcome.code.unwrap_or_else(|| panic!("`{}` was killed", outcome.line));
        Self { code, stdout: outcome.text(), stderr: outcome.messages(), raw: outcome.stdout }
    }
}

impl Ran {
    /// Fails unless it ended with code 0.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.fails(0, "")
    }

    /// Fails unless it ended with this code and said this on standard error.
    #[track_caller]
    pub fn fails(self, code: i32, says: &str) -> Self {
        assert!(code == 0 || !says.is_empty(), "what it must say is left open");
        self.ends(code, says)
    }

    /// Fails unless it ended with this code and said all it had to say on standard output.
    #[track_caller]
    pub fn reports(self, code: i32) -> Self {
        let ran = self.ends(code, "");
        assert_eq!(ran.stderr, "");
        ran
    }

    #[track_caller]
    fn ends(self, code: i32, says: &str) -> Self {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        assert!(self.stderr.contains(says), "\"{says}\" is missing in: {}", self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        assert!(!self.stderr.contains("os error"), "a number says nothing to a person: {}", self.stderr);
        self
    }

    /// Standard output as one JSON document.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in: {}", self.stdout))
    }
}

/// A directory that goes when the test ends, where `atrest` runs.
pub struct Scratch(atrest_testkit::Scratch);

impl Deref for Scratch {
    type Target = atrest_testkit::Scratch;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Scratch {
    pub fn new() -> Self {
        Self(atrest_testkit::Scratch::new())
    }

    /// A name for an open volume that no other test uses.
    pub fn session(&self) -> String {
        let name = self.as_path().file_name().expect("its name");
        name.to_str().expect("plain letters").to_owned()
    }

    /// Whether `status` lists the volume that lies here under `name`.
    pub fn is_open(&self, name: &str) -> bool {
        let path = self.path(name).canonicalize().expect("an absolute path");
        let status = self.atrest(&["status", "--json"]).ok().json();
        status
            .as_array()
            .expect("a list")
            .iter()
            .any(|entry| entry["path"] == path.to_str().expect("plain letters"))
    }

    /// A program that runs here.
    pub fn program(&self, path: impl AsRef<OsStr>) -> Program {
        // No configuration of whoever runs the tests.
        self.0.program(path).env("RUST_BACKTRACE", "0").env("XDG_CONFIG_HOME", self.path("config"))
    }

    /// A program that is not started yet, for a test that holds its terminal or its pipes.
    pub fn command(&self, program: &str) -> Command {
        let mut command = self.program(tool(program)).into_command();
        command.stdin(Stdio::null());
        command
    }

    /// `atrest`, not started yet.
    pub fn atrest_command(&self, args: &[&str]) -> Command {
        let mut command = self.program(ATREST).args(args).into_command();
        command.stdin(Stdio::null());
        command
    }

    /// Runs `atrest` without a terminal.
    pub fn atrest(&self, args: &[&str]) -> Ran {
        self.atrest_with_input(args, b"")
    }

    /// Runs `atrest` with this on its standard input.
    pub fn atrest_with_input(&self, args: &[&str], input: &[u8]) -> Ran {
        self.program(ATREST).args(args).stdin(input).without_terminal().run().into()
    }

    /// Runs a line of bash in which `$ATREST` is the binary.
    pub fn bash(&self, line: &str) -> Ran {
        self.program(tool("bash")).args(["-c", line]).env("ATREST", ATREST).without_terminal().run().into()
    }

    /// Runs a tool of the system that the tests need.
    pub fn tool(&self, program: &str, args: &[&str]) -> Ran {
        self.program(tool(program)).args(args).run().into()
    }

    /// A LUKS2 volume `vol` of 20 MiB that opens with the key file `key`.
    pub fn with_volume() -> Self {
        Self::with_volume_of("luks2")
    }

    pub fn with_volume_of(kind: &str) -> Self {
        let scratch = Self::new();
        scratch.file("key", b"correct horse\n");
        let mut args = vec!["format", "--size", "20M", "--type", kind, "--key-file", "key", "vol"];
        args.extend(CHEAP);
        scratch.atrest(&args).ok();
        scratch
    }
}
