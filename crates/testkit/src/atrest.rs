//! The program under test, run as a user runs it.

use std::env;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::oracle::{Outcome, Program, workspace};

/// KDF options that take milliseconds, for volumes whose passphrase is not what a test is about.
pub const FAST_PBKDF2: &str = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
/// Argon2id options that take milliseconds, for volumes whose passphrase is not what a test is about.
pub const FAST_ARGON2ID: &str =
    "--pbkdf argon2id --pbkdf-memory 64 --pbkdf-parallel 1 --pbkdf-force-iterations 4";

/// Where the binary `atrest` is: `$ATREST_BIN`, or built by cargo on the first call.
///
/// # Panics
/// When it cannot be built.
pub fn binary() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY
        .get_or_init(|| match env::var_os("ATREST_BIN") {
            Some(path) => {
                let path = PathBuf::from(path);
                assert!(path.is_file(), "ATREST_BIN names {}, which is no file", path.display());
                path
            }
            None => build("atrest-cli", "atrest"),
        })
        .clone()
}

/// Where the binary `atrest-init` is: beside `$ATREST_BIN`, or built by cargo on the first call.
///
/// # Panics
/// When it cannot be built.
pub fn init_binary() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY
        .get_or_init(|| match env::var_os("ATREST_BIN") {
            Some(path) => {
                let path = PathBuf::from(path).with_file_name("atrest-init");
                assert!(path.is_file(), "there is no {}: cargo build --workspace", path.display());
                path
            }
            None => build("atrest-boot", "atrest-init"),
        })
        .clone()
}

/// `atrest` with these words as arguments.
pub fn atrest(words: &str) -> Program {
    Program::at(binary()).words(words)
}

/// Cargo puts test programs into TARGET/PROFILE/deps, and binaries into TARGET/PROFILE.
fn build(package: &str, program: &str) -> PathBuf {
    let here = env::current_exe().expect("the path of the test program");
    let profile = here.ancestors().nth(2).expect("the test program lies in TARGET/PROFILE/deps");
    let target = profile.parent().expect("a profile's directory lies in the target directory");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(workspace())
        .args(["build", "--quiet", "--package", package, "--target-dir"])
        .arg(target);
    if profile.ends_with("release") {
        command.arg("--release");
    }
    let status = command.status().expect("cargo runs");
    assert!(status.success(), "`cargo build -p {package}` failed");
    let binary = profile.join(program);
    assert!(binary.is_file(), "cargo built no {}", binary.display());
    binary
}

/// A volume with the passphrase file that opens it.
#[derive(Clone, Debug)]
pub struct VolumeFile {
    /// The volume.
    pub path: PathBuf,
    /// A file with the passphrase.
    pub key: PathBuf,
}

impl VolumeFile {
    /// Formats a new file of this size (`64M`) in a directory.
    pub fn format(directory: &Path, name: &str, size: &str, options: &str) -> Self {
        let volume = Self { path: directory.join(name), key: write_key(directory, "key", b"correct horse") };
        volume.run("format", &format!("--yes --size {size} {options}")).expect_code(0);
        volume
    }

    /// `atrest COMMAND --key-file KEY OPTIONS PATH`.
    pub fn run(&self, command: &str, options: &str) -> Outcome {
        self.program(command, options).run()
    }

    /// Prepares `atrest COMMAND --key-file KEY OPTIONS PATH`, to be completed and run.
    pub fn program(&self, command: &str, options: &str) -> Program {
        atrest(command).arg("--key-file").arg(&self.key).words(options).arg(&self.path)
    }

    /// Encrypts a file into the volume.
    pub fn encrypt(&self, source: &Path) {
        atrest("encrypt --key-file").arg(&self.key).arg(source).arg(&self.path).ok();
    }

    /// Decrypts the volume into a new file.
    pub fn decrypt(&self, destination: &Path) {
        atrest("decrypt --key-file").arg(&self.key).arg(&self.path).arg(destination).ok();
    }

    /// Whether a passphrase file opens it. Any answer but yes and "bad passphrase" fails the test.
    pub fn opens_with(&self, key: &Path) -> bool {
        let outcome = atrest("key test --key-file").arg(key).arg(&self.path).run();
        match outcome.code {
            Some(0) => true,
            Some(2) => false,
            _ => {
                outcome.expect_code(0);
                false
            }
        }
    }
}

/// Writes a passphrase file that is its owner's only.
pub fn write_key(directory: &Path, name: &str, passphrase: &[u8]) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, passphrase).expect("write a key file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
        .expect("close the key file to others");
    path
}

/// A running `atrest open`, which is terminated when dropped.
#[derive(Debug)]
pub struct Served {
    child: Child,
    /// The line on standard output that announced readiness.
    pub announced: String,
}

impl Served {
    /// Starts it and waits until it announces that it is ready.
    ///
    /// # Panics
    /// When it ends before that.
    pub fn start(program: Program) -> Self {
        let line = program.line();
        let mut child = program.spawn();
        let mut announced = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        output.read_line(&mut announced).expect("read standard output");
        if announced.is_empty() {
            let status = child.wait();
            panic!("`{line}` ended ({status:?}) before it was ready");
        }
        // Keep the pipe open and empty, so that the server never blocks or fails on its standard output.
        std::thread::spawn(move || {
            let mut rest = String::new();
            while output.read_line(&mut rest).is_ok_and(|count| count > 0) {
                rest.clear();
            }
        });
        Self { child, announced: announced.trim_end().to_string() }
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it as a crash would (`SIGKILL`).
    pub fn crash(&mut self) {
        self.child.kill().expect("kill the server");
        self.child.wait().expect("wait for the server");
    }

    /// Asks it to end (`SIGTERM`) and expects that it does so in good order.
    pub fn stop(mut self) {
        self.signal("TERM");
        let status = self.wait(Duration::from_secs(60)).expect("the server ends after SIGTERM");
        assert!(status.success(), "the server ended with {status} after SIGTERM");
    }

    /// Waits for its end, and gives the signal that ended it, if one did.
    pub fn wait_for_signal(&mut self) -> Option<i32> {
        self.wait(Duration::from_secs(60)).and_then(|status| status.signal())
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        Program::named("kill").args(["-s", name, &id]).run();
    }

    fn wait(&mut self, limit: Duration) -> Option<std::process::ExitStatus> {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if self.is_running() {
            self.signal("TERM");
            if self.wait(Duration::from_secs(10)).is_none() {
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
        }
    }
}
