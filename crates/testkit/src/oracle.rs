//! Running the programs that tests compare us with, and the program under test.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// Which Debian package brings a program.
const PACKAGES: &[(&str, &str)] = &[
    ("addpart", "util-linux"),
    ("arm-none-eabi-gcc", "gcc-arm-none-eabi"),
    ("blkid", "util-linux"),
    ("cc", "build-essential"),
    ("clevis", "clevis"),
    ("cpio", "cpio"),
    ("cryptsetup", "cryptsetup-bin"),
    ("curl", "curl"),
    ("dbus-run-session", "dbus-daemon"),
    ("debugfs", "e2fsprogs"),
    ("dtc", "device-tree-compiler"),
    ("dumpe2fs", "e2fsprogs"),
    ("dumpimage", "u-boot-tools"),
    ("e2fsck", "e2fsprogs"),
    ("fio", "fio"),
    ("fsck.fat", "dosfstools"),
    ("fsck.vfat", "dosfstools"),
    ("fscrypt", "fscrypt"),
    ("fusermount3", "fuse3"),
    ("fvdewipekey", "libfvde-utils"),
    ("gnome-keyring-daemon", "gnome-keyring"),
    ("jose", "jose"),
    ("jq", "jq"),
    ("losetup", "mount"),
    ("make", "build-essential"),
    ("mcopy", "mtools"),
    ("mke2fs", "e2fsprogs"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("mkfs.ext4", "e2fsprogs"),
    ("mkfs.fat", "dosfstools"),
    ("mkfs.vfat", "dosfstools"),
    ("mkfs.xfs", "xfsprogs"),
    ("mkimage", "u-boot-tools"),
    ("mkswap", "util-linux"),
    ("mount", "mount"),
    ("nbdcopy", "libnbd-bin"),
    ("nbdinfo", "libnbd-bin"),
    ("nbdkit", "nbdkit"),
    ("nbdsh", "libnbd-bin"),
    ("openssl", "openssl"),
    ("python3", "python3"),
    ("qemu-img", "qemu-utils"),
    ("qemu-io", "qemu-utils"),
    ("qemu-nbd", "qemu-utils"),
    ("qemu-system-aarch64", "qemu-system-arm"),
    ("qemu-system-arm", "qemu-system-arm"),
    ("qemu-system-riscv32", "qemu-system-misc"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf"),
    ("runuser", "util-linux"),
    ("script", "bsdutils"),
    ("secret-tool", "libsecret-tools"),
    ("setpriv", "util-linux"),
    ("setsid", "util-linux"),
    ("sfdisk", "fdisk"),
    ("sgdisk", "gdisk"),
    ("swtpm", "swtpm"),
    ("systemd-analyze", "systemd"),
    ("systemd-cryptenroll", "systemd"),
    ("tcplay", "tcplay"),
    ("tpm2_pcrextend", "tpm2-tools"),
    ("tune2fs", "e2fsprogs"),
    ("umount", "mount"),
    ("unshare", "util-linux"),
    ("veritysetup", "cryptsetup-bin"),
    ("xz", "xz-utils"),
    ("zstd", "zstd"),
];

/// How long a program may run before it is taken to hang.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// Where an installed program is.
///
/// # Panics
/// When it is missing, with the command that installs it: a test that needs it must not pass by skipping.
pub fn tool(name: &str) -> PathBuf {
    for directory in env::split_paths(&search_path()) {
        let candidate = directory.join(name);
        if candidate.is_file() {
            return candidate;
        }
    }
    let package = PACKAGES.iter().find(|(program, _)| *program == name).map_or(name, |(_, package)| package);
    panic!("{name} is not installed; run scripts/setup, or: apt-get install {package}");
}

/// `$PATH`, and the sbin directories, where cryptsetup and mkfs are and which an ordinary user's lacks.
fn search_path() -> OsString {
    let usual = OsString::from("/usr/local/bin:/usr/bin:/bin");
    let mut path = env::var_os("PATH").filter(|path| !path.is_empty()).unwrap_or(usual);
    path.push(":/usr/sbin:/sbin:/usr/local/sbin");
    path
}

/// The root of the repository.
pub fn workspace() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).unwrap_or(manifest).to_path_buf()
}

/// A program to run once, with its input.
#[derive(Debug)]
pub struct Program {
    command: Command,
    stdin: Vec<u8>,
    limit: Duration,
}

/// What a program answered.
#[derive(Debug)]
pub struct Outcome {
    /// The command line, for messages.
    pub line: String,
    /// The exit status, or `None` after a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

impl Program {
    /// An installed program; see [`tool`].
    pub fn named(name: &str) -> Self {
        Self::at(tool(name))
    }

    /// The program at a path.
    pub fn at(path: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(path);
        command.env("LC_ALL", "C").env("PATH", search_path());
        Self { command, stdin: Vec::new(), limit: TIME_LIMIT }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Adds the words of a line, which are separated by blanks.
    #[must_use]
    pub fn words(mut self, line: &str) -> Self {
        self.command.args(line.split_whitespace());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs in another directory.
    #[must_use]
    pub fn current_dir(mut self, directory: impl AsRef<Path>) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Runs in a session of its own, which has no terminal: no test may wait for somebody to type.
    #[must_use]
    pub fn without_terminal(mut self) -> Self {
        let mut session = Command::new(tool("setsid"));
        session.arg("--wait").arg(self.command.get_program()).args(self.command.get_args());
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => session.env(name, value),
                None => session.env_remove(name),
            };
        }
        if let Some(directory) = self.command.get_current_dir() {
            session.current_dir(directory);
        }
        self.command = session;
        self
    }

    /// Gives standard input.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Fails after another time than five minutes.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The command line.
    pub fn line(&self) -> String {
        let words: Vec<OsString> = [self.command.get_program()]
            .into_iter()
            .chain(self.command.get_args())
            .map(OsString::from)
            .collect();
        words.join(OsStr::new(" ")).to_string_lossy().into_owned()
    }

    /// The command, for a test that holds the ends of its pipes itself. The input and the limit are lost.
    pub fn into_command(self) -> Command {
        self.command
    }

    /// Starts it without waiting and without input; what it prints is lost.
    pub fn start(mut self) -> Child {
        let line = self.line();
        self.command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.command.spawn().unwrap_or_else(|error| panic!("cannot run {line}: {error}"))
    }

    /// Starts it without waiting; standard output is a pipe.
    pub fn spawn(mut self) -> Child {
        let line = self.line();
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = self.command.spawn().unwrap_or_else(|error| panic!("cannot run {line}: {error}"));
        if let Some(mut pipe) = child.stdin.take() {
            // A program that does not read its input is its own affair.
            let _ = pipe.write_all(&self.stdin);
        }
        child
    }

    /// Runs it to its end, whatever that is.
    pub fn run(mut self) -> Outcome {
        let input = std::mem::take(&mut self.stdin);
        self.run_once(input)
    }

    fn run_once(&mut self, input_bytes: Vec<u8>) -> Outcome {
        let line = self.line();
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap_or_else(|error| panic!("cannot run {line}: {error}"));
        let input = child.stdin.take().map(|mut pipe| {
            thread::spawn(move || {
                let _ = pipe.write_all(&input_bytes);
            })
        });
        let (ends, ended) = mpsc::channel();
        let stdout = drain(child.stdout.take(), ends.clone());
        let stderr = drain(child.stderr.take(), ends);
        let deadline = Instant::now() + self.limit;
        let status = loop {
            match child.try_wait().unwrap_or_else(|error| panic!("cannot wait for {line}: {error}")) {
                Some(status) => break status,
                None if Instant::now() >= deadline => {
                    end(&mut child);
                    panic!("{line}: no exit within {:?}", self.limit);
                }
                // A program that ends closes its pipes, and is gone a moment later.
                None => match ended.recv_timeout(Duration::from_millis(20)) {
                    Err(RecvTimeoutError::Disconnected) => thread::sleep(Duration::from_micros(200)),
                    Ok(()) | Err(RecvTimeoutError::Timeout) => {}
                },
            }
        };
        if let Some(input) = input {
            let _ = input.join();
        }
        let text = |thread: thread::JoinHandle<Vec<u8>>| thread.join().unwrap_or_default();
        Outcome { line, code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }

    /// Runs it and expects success.
    ///
    /// # Panics
    /// When it fails, with its command line and messages.
    #[track_caller]
    pub fn ok(self) -> Outcome {
        self.run().expect_code(0)
    }

    /// Runs it until it succeeds, again after failures with `message` only, and `tries` times at most. For programs that fail by chance
    /// in a way that is known and is not what the test asks about.
    ///
    /// # Panics
    /// When it fails otherwise, or each time.
    pub fn ok_despite(mut self, message: &str, tries: u32) -> Outcome {
        let input = std::mem::take(&mut self.stdin);
        for _ in 1..tries {
            let outcome = self.run_once(input.clone());
            if outcome.is_ok() || !outcome.messages().contains(message) {
                return outcome.expect_code(0);
            }
            println!("{}: {}; again", outcome.line, outcome.messages().trim());
        }
        self.run_once(input).expect_code(0)
    }

    /// Makes a LUKS volume with qemu-img, which times PBKDF2 first and fails if its few milliseconds of work were all booked as the
    /// kernel's: one start in four on a quiet machine (QEMU 7.2, `crypto/pbkdf.c`).
    ///
    /// # Panics
    /// When it fails otherwise.
    pub fn ok_making_luks_by_qemu(self) -> Outcome {
        self.ok_despite("Unable to get accurate CPU usage", 60)
    }
}

impl Outcome {
    /// Expects an exit status.
    ///
    /// # Panics
    /// When it was another one, with the command line and messages.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert!(
            self.code == Some(code),
            "`{}` exited with {:?} instead of {code}\n--- stdout\n{}\n--- stderr\n{}",
            self.line,
            self.code,
            tail(&self.text()),
            tail(&self.messages()),
        );
        self
    }

    /// Whether it succeeded.
    pub fn is_ok(&self) -> bool {
        self.code == Some(0)
    }

    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text.
    pub fn messages(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Standard output as JSON.
    ///
    /// # Panics
    /// When it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| {
            panic!("`{}` printed no JSON ({error}):\n{}", self.line, tail(&self.text()))
        })
    }
}

/// Ends a program. It is asked first: a script takes away what it has mounted.
fn end(child: &mut Child) {
    let asked = Command::new("kill").arg(child.id().to_string()).status();
    for _ in 0..100 {
        if !asked.as_ref().is_ok_and(|status| status.success()) || matches!(child.try_wait(), Ok(Some(_))) {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Reads a pipe to its end, with which `end` is dropped.
fn drain(pipe: Option<impl Read + Send + 'static>, end: Sender<()>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let _end = end;
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn tail(text: &str) -> &str {
    const KEPT: usize = 4000;
    let mut start = text.len().saturating_sub(KEPT);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;

    #[test]
    fn output_input_and_status_are_passed_on() {
        let outcome = Program::named("sh").args(["-c", "cat; echo oops >&2; exit 3"]).stdin("hello").run();
        assert_eq!(
            (outcome.code, outcome.text().as_str(), outcome.messages().as_str()),
            (Some(3), "hello", "oops\n")
        );
    }

    #[test]
    #[should_panic(expected = "run scripts/setup, or: apt-get install no-such-program")]
    fn a_missing_program_fails_with_the_command_that_installs_it() {
        tool("no-such-program");
    }

    const FAILS_TWICE: &str = "echo x >> tries; [ $(wc -l < tries) -gt 2 ] || { echo bad luck >&2; exit 1; }";

    fn unlucky(directory: &Path) -> Program {
        Program::named("sh").args(["-c", FAILS_TWICE]).current_dir(directory)
    }

    #[test]
    fn what_fails_by_chance_is_tried_again() {
        let directory = Scratch::new();
        assert!(unlucky(directory.as_path()).ok_despite("bad luck", 3).is_ok());
    }

    #[test]
    #[should_panic(expected = "exited with Some(1) instead of 0")]
    fn what_fails_each_time_fails() {
        unlucky(Scratch::new().as_path()).ok_despite("bad luck", 2);
    }

    #[test]
    #[should_panic(expected = "exited with Some(1) instead of 0")]
    fn what_fails_otherwise_is_not_tried_again() {
        unlucky(Scratch::new().as_path()).ok_despite("no space", 3);
    }

    #[test]
    #[should_panic(expected = "no exit within")]
    fn a_program_that_hangs_fails() {
        Program::named("sleep").arg("60").limit(Duration::from_millis(50)).run();
    }
}
