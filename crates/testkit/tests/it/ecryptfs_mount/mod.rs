//! eCryptfs directories mounted to be written, and the same server over a directory as it is.

mod behaviour;
mod exerciser;
mod kills;
mod operations;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::Duration;

use atrest_testkit::Scratch;
use atrest_testkit::atrest::{Served, atrest, write_key};
use atrest_testkit::campaign::Campaign;
use atrest_testkit::oracle::Program;

/// What a tree is mounted with.
const KINDS: [&str; 4] = [
    "--type directory",
    "--type ecryptfs",
    "--type ecryptfs --ecryptfs-plain-names --ecryptfs-cipher twofish --ecryptfs-key-bytes 32",
    "--type ecryptfs --ecryptfs-xattr --ecryptfs-key-bytes 32",
];

/// Ten minutes of random operations; a case of each kind in `make test`.
fn campaign(name: &'static str) -> Campaign {
    Campaign::lasting(name, KINDS.len(), Duration::from_secs(600))
}

/// What is mounted in the case of a seed, and how much is done to each file or tree in it. The sample does the first operations of a case only: a replay
/// of it alone does them all.
fn kind_and_operations(seed: u64) -> (&'static str, usize) {
    let kind = KINDS[((seed - 1) % KINDS.len() as u64) as usize];
    (kind, if Campaign::is_sample() { 400 } else { 3000 })
}

struct Mounted {
    directory: Scratch,
    options: String,
    server: Option<Served>,
}

impl Mounted {
    fn new(options: &str) -> Self {
        let directory = Scratch::new();
        for name in ["lower", "mount"] {
            fs::create_dir(directory.path(name)).expect("make a directory");
        }
        write_key(directory.as_path(), "passphrase", b"a passphrase\n");
        let mut mounted = Self { directory, options: options.into(), server: None };
        mounted.start();
        mounted
    }

    fn program(&self) -> Program {
        let path = self.directory.as_path();
        // A name of its own: many lower directories of the name "lower" may be mounted at once.
        let name = path.file_name().expect("a name").to_string_lossy().replace('.', "m");
        let mut program = atrest("mount --name").arg(name).words(&self.options);
        if self.options.contains("ecryptfs") {
            program = program.arg("--ecryptfs-passphrase-file").arg(path.join("passphrase"));
        }
        program.arg(self.lower()).arg(self.path()).env("XDG_RUNTIME_DIR", path)
    }

    fn start(&mut self) {
        self.server = Some(Served::start(self.program()));
    }

    fn stop(&mut self) {
        self.server.take().expect("it is mounted").stop();
    }

    /// Ends the server as a crash would, and takes the dead mount away.
    fn crash(&mut self) {
        self.server.take().expect("it is mounted").crash();
        Program::named("umount").arg("-l").arg(self.path()).ok();
    }

    fn path(&self) -> PathBuf {
        self.directory.path("mount")
    }

    fn lower(&self) -> PathBuf {
        self.directory.path("lower")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.server.take().is_some() {
            // A test failed, and may have files open.
            Program::named("umount").arg("-l").arg(self.path()).run();
        }
    }
}

#[test]
fn files_behave_as_posix_says() {
    for kind in KINDS {
        let mut mounted = Mounted::new(kind);
        let at = |name: &str| mounted.path().join(name);
        fs::write(at("a"), b"one\n").expect("write");
        fs::hard_link(at("a"), at("b")).expect("link");
        symlink("a", at("c")).expect("symlink");
        assert_eq!(fs::read_link(at("c")).expect("readlink").as_os_str(), "a");
        assert_eq!(fs::symlink_metadata(at("c")).expect("lstat").len(), 1, "{kind}");
        let mut appender = fs::OpenOptions::new().append(true).open(at("a")).expect("open");
        appender.write_all(b"two\n").expect("append");
        assert_eq!(fs::read(at("b")).expect("read"), b"one\ntwo\n", "{kind}");
        assert_eq!(fs::metadata(at("b")).expect("stat").nlink(), 2);
        assert_eq!(fs::metadata(at("b")).expect("stat").ino(), fs::metadata(at("a")).expect("stat").ino());
        // Open files outlive their names, also when another file takes the name.
        fs::write(at("new"), b"new").expect("write");
        fs::rename(at("new"), at("a")).expect("rename over an open file");
        fs::remove_file(at("b")).expect("unlink");
        appender.write_all(b"three\n").expect("append to a file without a name");
        let open = fs::File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&appender)));
        let mut buf = [0; 14];
        open.expect("open again").read_exact_at(&mut buf, 0).expect("read");
        assert_eq!(&buf, b"one\ntwo\nthree\n", "{kind}");
        assert_eq!(appender.metadata().expect("fstat").nlink(), 0);
        drop(appender);
        assert_eq!(fs::read(at("c")).expect("read"), b"new");
        // Growing by nothing gives zeros, and what was cut off does not come back.
        let file = fs::File::options().read(true).write(true).open(at("a")).expect("open");
        file.set_len(100_000).expect("grow");
        file.write_all_at(b"end", 200_000).expect("write far behind the end");
        file.set_len(2).expect("cut");
        file.set_len(5).expect("grow");
        file.sync_all().expect("fsync");
        assert_eq!(fs::read(at("a")).expect("read"), b"ne\0\0\0", "{kind}");
        drop(file);
        fs::set_permissions(at("a"), fs::Permissions::from_mode(0o640)).expect("chmod");
        fs::create_dir(at("d")).expect("mkdir");
        fs::rename(at("a"), at("d/e")).expect("move");
        assert_eq!(fs::metadata(at("d/e")).expect("stat").mode(), 0o100_640);
        assert_eq!(fs::remove_dir(at("d")).expect_err("not empty").raw_os_error(), Some(39));
        let longest = Program::named("stat").words("-f -c %l").arg(mounted.path()).ok();
        let longest: usize = longest.text().trim().parse().expect("a number");
        fs::write(at(&"n".repeat(longest)), b"").expect("the longest name");
        let error = fs::write(at(&"n".repeat(longest + 1)), b"").expect_err("too long");
        assert_eq!(error.raw_os_error(), Some(36), "{kind}");
        let names = |mounted: &Mounted| fs::read_dir(mounted.path()).expect("list").count();
        let before = names(&mounted);
        mounted.stop();
        mounted.start();
        assert_eq!(names(&mounted), before, "{kind}");
        assert_eq!(fs::read(mounted.path().join("d/e")).expect("read"), b"ne\0\0\0", "{kind}");
        mounted.stop();
    }
}

#[test]
fn what_was_written_is_what_the_export_of_the_lower_directory_gives() {
    let mut mounted = Mounted::new("--type ecryptfs");
    let data: Vec<u8> = (0..300_000_u32).map(|i| (i.wrapping_mul(i) >> 5) as u8).collect();
    fs::write(mounted.path().join("file"), &data).expect("write");
    mounted.stop();
    let key = mounted.directory.path("passphrase");
    let out = mounted.directory.path("out");
    let export = atrest("tree export --ecryptfs-passphrase-file").arg(&key).arg(mounted.lower()).arg(&out);
    export.ok();
    assert!(fs::read(out.join("file")).expect("read") == data);
    for entry in fs::read_dir(mounted.lower()).expect("list") {
        let name = entry.expect("an entry").file_name();
        assert!(name.to_string_lossy().starts_with("ECRYPTFS_FNEK_ENCRYPTED."), "{name:?}");
    }
}

#[test]
fn a_wrong_passphrase_mounts_nothing_and_a_damaged_file_takes_no_other_along() {
    let mut mounted = Mounted::new("--type ecryptfs --ecryptfs-plain-names");
    for name in ["whole", "cut", "headless", "gone"] {
        fs::write(mounted.path().join(name), name.repeat(5000)).expect("write");
    }
    mounted.stop();
    write_key(mounted.directory.as_path(), "passphrase", b"another passphrase");
    mounted.program().run().expect_code(2);
    write_key(mounted.directory.as_path(), "passphrase", b"a passphrase");
    let lower = mounted.lower();
    let open = |name: &str| fs::File::options().write(true).open(lower.join(name)).expect("open");
    open("cut").set_len(8192 + 4096).expect("cut");
    open("headless").write_all_at(&[0xff; 64], 0).expect("damage");
    open("gone").set_len(0).expect("cut");
    // A file without a header may be a plain one: nothing is encrypted beside it unless that is asked for.
    let refused = mounted.program().run().expect_code(4);
    assert!(refused.messages().contains("headless") && refused.messages().contains("--read-only"));
    mounted.options.push_str(" --read-only");
    mounted.start();
    let read = |name: &str| fs::read(mounted.path().join(name));
    assert_eq!(read("whole").expect("read"), "whole".repeat(5000).as_bytes());
    assert_eq!(read("cut").expect_err("it ends early").raw_os_error(), Some(5));
    assert_eq!(read("headless").expect_err("no header").raw_os_error(), Some(5));
    // A file that nothing was ever written into may be what a kill left of one that was being made.
    assert_eq!(read("gone").expect("read"), b"");
    assert_eq!(read("whole").expect("read"), "whole".repeat(5000).as_bytes());
    // Nobody else may serve the directory meanwhile.
    let second = mounted.directory.path("second");
    fs::create_dir(&second).expect("make a directory");
    let key = mounted.directory.path("passphrase");
    let again = atrest("mount --type ecryptfs --ecryptfs-passphrase-file").arg(key).arg(&lower).arg(second);
    assert!(!again.env("XDG_RUNTIME_DIR", mounted.directory.as_path()).run().is_ok());
    mounted.stop();
}
