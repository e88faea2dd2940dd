//! The whole main path as an ordinary user: format, open, put a file system in, get files out, close.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use atrest_testkit::Scratch;
use atrest_testkit::atrest::binary;
use atrest_testkit::oracle::{Outcome, Program, tool, workspace};
use atrest_testkit::{again, needs};

const NOBODY: u32 = 65534;

/// A home of its own and, when the tests run as root, another user.
pub(crate) struct User {
    home: Scratch,
    /// The tests run as root, and step down.
    is_root: bool,
}

impl User {
    pub(crate) fn new() -> Self {
        Self::of(needs::is_root())
    }

    /// The user that the tests run as, who is root.
    pub(crate) fn root() -> Self {
        Self::of(false)
    }

    fn of(is_root: bool) -> Self {
        let home = Scratch::new();
        for name in ["run", "mount", "bin"] {
            fs::create_dir(home.path(name)).expect("make a directory");
        }
        // The build directory may be root's own.
        let copy = home.path("bin/atrest");
        fs::copy(binary(), &copy).expect("copy the binary");
        if is_root {
            for path in [home.as_path().to_path_buf(), home.path("run"), home.path("mount")] {
                chown(&path, Some(NOBODY), Some(NOBODY)).expect("give the home to nobody");
            }
            fs::set_permissions(home.path("bin"), fs::Permissions::from_mode(0o755)).expect("chmod");
        }
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("chmod");
        Self { home, is_root }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path(name)
    }

    pub(crate) fn program(&self, path: &Path) -> Program {
        let home = self.home.as_path();
        let program = if self.is_root {
            let ids = ["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"];
            Program::named("setpriv").args(ids).arg(path)
        } else {
            Program::at(path)
        };
        let path = std::env::var("PATH").unwrap_or_default();
        program
            .env("HOME", home)
            .env("XDG_RUNTIME_DIR", home.join("run"))
            .env("PATH", format!("{path}:/usr/sbin:/sbin"))
            .current_dir(home)
    }

    pub(crate) fn atrest(&self, words: &str) -> Program {
        self.program(&self.path("bin/atrest")).words(words)
    }

    pub(crate) fn shell(&self, script: &str) -> Outcome {
        self.program(&tool("sh")).args(["-c", script]).ok()
    }

    /// A script that may fail.
    pub(crate) fn try_shell(&self, script: &str) -> Outcome {
        self.program(&tool("sh")).args(["-c", script]).run()
    }
}

/// On every Debian with udev `/dev/fuse` is everyone's; where a bare container has it for root alone, run the test again
/// in a mount namespace where it is. Returns whether that was done.
pub(crate) fn done_with_usual_devices(user: &User) -> bool {
    let mode = fs::metadata("/dev/fuse").expect("/dev/fuse").permissions().mode();
    if mode & 0o006 == 0o006 || !user.is_root {
        return false;
    }
    let device = user.path("device");
    fs::create_dir(&device).expect("make a directory");
    let script = "mount -t tmpfs -o dev tmpfs \"$0\" && mknod -m 666 \"$0/fuse\" c 10 229 && \
                  mount --bind \"$0/fuse\" /dev/fuse && exec \"$@\"";
    Program::named("unshare")
        .args(["--mount", "sh", "-c", script])
        .arg(&device)
        .args(again::command_line())
        .env("ATREST_BIN", binary())
        .ok()
        .expect_one_passed();
    true
}

#[test]
fn the_main_path_needs_no_root() {
    let user = User::new();
    if done_with_usual_devices(&user) {
        return;
    }
    tool("fusermount3");
    let identity = user.shell("id -u").text();
    assert_ne!(identity.trim(), "0", "the commands run as root");
    user.shell(
        "printf 'correct horse' > key && printf other > other && mkdir tree && echo hello > tree/hello",
    );
    let fast = "--pbkdf argon2id --pbkdf-memory 1024 --pbkdf-parallel 1 --pbkdf-force-iterations 4";
    user.atrest("format --yes --size 48M --key-file key volume.img").words(fast).ok();
    let metadata = fs::metadata(user.path("volume.img")).expect("the volume");
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "the volume's mode");

    // FUSE in the background, a file system in it, closed by name.
    user.atrest("open volume.img --key-file key --fuse mount --daemon --name mine").ok();
    let status = user.atrest("status --json").ok().text();
    assert!(status.contains("mine"), "{status}");
    user.shell("mkfs.ext4 -q -d tree mount/* && e2fsck -f -n mount/* > log");
    user.atrest("close mine").ok();
    user.shell("test -z \"$(ls mount)\"");

    // Files without a mount, keys, and the other face.
    assert_eq!(user.atrest("cat --key-file key volume.img /hello").ok().text(), "hello\n");
    user.atrest("cp --key-file key volume.img:/hello copy").ok();
    assert_eq!(fs::read(user.path("copy")).expect("the copy"), b"hello\n");
    user.atrest("key add volume.img --key-file key --new-key-file other").words(fast).ok();
    user.atrest("key remove volume.img --yes --key-file key").ok();
    user.atrest("key test volume.img --key-file key").run().expect_code(2);
    user.shell("cryptsetup open --test-passphrase --key-file other volume.img");
    let run = ["--run", "sh", "-c", "nbdcopy \"$ATREST_URI\" over-nbd.img"];
    user.atrest("open volume.img --key-file other --nbd").args(run).ok();
    user.atrest("decrypt volume.img plain.img --key-file other").ok();
    user.shell("cmp plain.img over-nbd.img && e2fsck -f -n plain.img > log");
}

#[test]
fn an_ecryptfs_directory_is_mounted_without_root_and_behaves_as_a_plain_one() {
    let user = User::new();
    if done_with_usual_devices(&user) {
        return;
    }
    tool("fusermount3");
    let scripts = workspace().join("crates/testkit/tests/it/ecryptfs_mount/behaviour");
    fs::create_dir(user.path("scripts")).expect("make a directory");
    for name in ["check.py", "files.py", "names.py"] {
        fs::copy(scripts.join(name), user.path("scripts").join(name)).expect("copy a script");
    }
    user.shell("mkdir lower plain && printf 'a passphrase' > key && chmod 600 key");
    for name in ["files", "names"] {
        user.shell(&format!("python3 -B scripts/{name}.py \"$PWD/plain\" > {name}.plain"));
        let script = format!("python3 -B scripts/{name}.py \"$PWD/mount\" > {name}.mounted");
        user.atrest("mount lower mount --type ecryptfs --ecryptfs-passphrase-file key --run sh -c")
            .arg(script)
            .ok();
        let lines = |kind: &str| -> Vec<String> {
            let text = fs::read_to_string(user.path(&format!("{name}.{kind}"))).expect("what the steps gave");
            text.lines().map(str::to_owned).collect()
        };
        let (plain, mounted) = (lines("plain"), lines("mounted"));
        assert!(plain.len() > 100 && plain.len() == mounted.len(), "{} steps", plain.len());
        for (plain, mounted) in plain.iter().zip(&mounted) {
            // What `docs/ECRYPTFS.md` says a mount does otherwise.
            let otherwise = ["collapse: ENOTSUP", "insert: ENOTSUP", "unnamed: ENOTSUP"];
            assert!(plain == mounted || otherwise.contains(&mounted.as_str()), "{plain}, mounted: {mounted}");
        }
    }
}

#[test]
fn missing_permission_is_said_as_such() {
    let user = User::new();
    let locked = user.path("locked.img");
    fs::write(&locked, vec![0; 4096]).expect("write a file");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).expect("chmod");
    let refused = user.atrest("info locked.img").run();
    assert_eq!(refused.code, Some(2), "{}", refused.messages());
    assert!(refused.messages().to_lowercase().contains("permission"), "{}", refused.messages());
    // Root reads everything; what is forbidden to everyone is writing to /proc.
    let refused = user.atrest("format --yes --size 32M --key-file /dev/null /proc/volume.img").run();
    assert!(!refused.is_ok() && !refused.messages().contains("panicked"), "{}", refused.messages());
}

#[test]
fn setup_without_the_right_to_install_says_what_is_missing() {
    let user = User::new();
    let script = fs::read_to_string(workspace().join("scripts/setup")).expect("read scripts/setup");
    // The same script asks for one package that no Debian has.
    let altered = script.replace("packages=(", "packages=(no-such-package-of-atrest ");
    assert_ne!(altered, script);
    fs::create_dir(user.path("scripts")).expect("make a directory");
    fs::write(user.path("scripts/setup"), altered).expect("write the script");
    // One who may not use sudo, whoever runs this.
    fs::write(user.path("scripts/sudo"), "#!/bin/sh\nexit 1\n").expect("write sudo");
    fs::set_permissions(user.path("scripts/sudo"), fs::Permissions::from_mode(0o755)).expect("chmod");
    let setup = user.program(&tool("bash")).arg(user.path("scripts/setup"));
    let path = format!("{}:{}", user.path("scripts").display(), std::env::var("PATH").unwrap_or_default());
    let refused = setup.env("PATH", path).run();
    assert!(!refused.is_ok());
    let messages = refused.messages();
    assert!(
        messages.contains("apt-get install --no-install-recommends no-such-package-of-atrest"),
        "{messages}"
    );
}
