//! Runs the real binary in a scratch directory of its own.
#![allow(dead_code)]

pub mod luks2;
pub mod sealed;
pub mod terminal;

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The cheapest key derivation that cryptsetup accepts: these tests are not about its cost.
pub const CHEAP: [&str; 4] = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];

/// What a run of a program gave.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    pub raw: Vec<u8>,
}

impl Ran {
    fn new(output: Output, what: &str) -> Self {
        let code = output.status.code().unwrap_or_else(|| panic!("{what} was killed: {:?}", output.status));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code, stdout: text(&output.stdout), stderr: text(&output.stderr), raw: output.stdout }
    }

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

/// A directory that goes when the test ends.
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    pub fn new() -> Self {
        Self(tempfile::Builder::new().prefix("atrest-cli-").tempdir().expect("a temporary directory"))
    }

    /// A name for an open volume that no other test uses.
    pub fn session(&self) -> String {
        let name = self.0.path().file_name().expect("its name");
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

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file that only we can read.
    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).expect("a file in the scratch directory");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
        path
    }

    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap_or_default();
        command.current_dir(self.0.path()).env("XDG_RUNTIME_DIR", self.0.path());
        command
            .env("PATH", format!("{path}:/usr/sbin:/sbin"))
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null());
        command
    }

    /// `atrest`, not started yet.
    pub fn atrest_command(&self, args: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_atrest"));
        command.args(args);
        command
    }

    /// Runs `atrest` without a terminal.
    pub fn atrest(&self, args: &[&str]) -> Ran {
        Ran::new(detached(self.atrest_command(args)).output().expect("atrest starts"), &args.join(" "))
    }

    /// Runs `atrest` with this on its standard input.
    pub fn atrest_with_input(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut command = detached(self.atrest_command(args));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("atrest starts");
        // It may end without reading everything.
        let _ = child.stdin.take().expect("its input").write_all(input);
        Ran::new(child.wait_with_output().expect("atrest ends"), &args.join(" "))
    }

    /// Runs a line of bash in which `$ATREST` is the binary.
    pub fn bash(&self, line: &str) -> Ran {
        let mut command = self.command("bash");
        command.args(["-c", line]).env("ATREST", env!("CARGO_BIN_EXE_atrest"));
        Ran::new(detached(command).output().expect("bash starts"), line)
    }

    /// Runs a tool of the system that the tests need.
    pub fn tool(&self, program: &str, args: &[&str]) -> Ran {
        let output = self.command(program).args(args).output();
        Ran::new(output.unwrap_or_else(|error| panic!("{program}: {error}; run scripts/setup")), program)
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

    pub fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.path(name)).expect("its metadata").permissions().mode() & 0o7777
    }
}

/// The same command in a session of its own, which has no terminal: no test may wait for somebody to type.
fn detached(command: Command) -> Command {
    let mut setsid = Command::new("setsid");
    setsid.arg("--wait").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => setsid.env(name, value),
            None => setsid.env_remove(name),
        };
    }
    setsid.current_dir(command.get_current_dir().unwrap_or(Path::new("."))).stdin(Stdio::null());
    setsid
}
