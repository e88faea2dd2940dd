//! What programs do to files, done in a mount and in a plain directory: every step must end the same way in both.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

use atrest_testkit::Scratch;
use atrest_testkit::oracle::{Program, workspace};

use super::{KINDS, Mounted};

/// Steps that end otherwise in a mount, as `docs/ECRYPTFS.md` says: extents can't be shifted, and a file needs a name at first.
const OTHERWISE: [&str; 3] = ["collapse: ENOTSUP", "insert: ENOTSUP", "unnamed: ENOTSUP"];

fn script(name: &str) -> Program {
    Program::named("python3")
        .arg(workspace().join("crates/testkit/tests/it/ecryptfs_mount/behaviour").join(name))
}

/// How the steps of a script ended in a directory.
fn steps(name: &str, directory: &Path) -> Vec<String> {
    script(name).arg(directory).ok().text().lines().map(str::to_owned).collect()
}

/// The steps that ended otherwise, other than those that are meant to.
fn differences(plain: &[String], mounted: &[String]) -> Vec<String> {
    assert_eq!(plain.len(), mounted.len(), "a script did not come to its end");
    let pairs = plain.iter().zip(mounted).enumerate();
    let differ =
        pairs.filter(|(_, (plain, mounted))| plain != mounted && !OTHERWISE.contains(&mounted.as_str()));
    differ
        .map(|(n, (plain, mounted))| format!("step {n}: {plain} in the directory, {mounted} in the mount"))
        .collect()
}

fn behaves(name: &str, least: usize) {
    let plain = Scratch::new();
    let expected = steps(name, plain.as_path());
    assert!(expected.len() >= least, "only {} steps", expected.len());
    for kind in KINDS {
        let mut mounted = Mounted::new(kind);
        let found = differences(&expected, &steps(name, &mounted.path()));
        assert!(found.is_empty(), "{kind}:\n{}", found.join("\n"));
        let names = |mounted: &Mounted| fs::read_dir(mounted.path()).expect("list").count();
        let before = names(&mounted);
        mounted.stop();
        mounted.start();
        assert_eq!(names(&mounted), before, "{kind}");
        mounted.stop();
    }
    println!("{name}: {} steps in {} kinds of mounts, as in a plain directory", expected.len(), KINDS.len());
}

#[test]
fn contents_behave_as_in_a_plain_directory() {
    behaves("files.py", 119);
}

#[test]
fn names_and_attributes_behave_as_in_a_plain_directory() {
    behaves("names.py", 124);
}

#[test]
fn a_file_that_would_fill_the_disk_fails_at_once_and_stays_as_it_was() {
    // Holes are zeros, encrypted: a plain directory would make this file sparse.
    let mut mounted = Mounted::new("--type ecryptfs --ecryptfs-plain-names");
    let path = mounted.path().join("file");
    fs::write(&path, b"contents").expect("write");
    let file = fs::File::options().write(true).open(&path).expect("open");
    let lower = || fs::metadata(mounted.lower().join("file")).expect("stat").blocks();
    let before = lower();
    for error in [file.set_len(1 << 43), file.write_all_at(b"far", 1 << 43)] {
        assert_eq!(error.expect_err("there is no room").raw_os_error(), Some(libc::ENOSPC));
    }
    assert_eq!(fs::read(&path).expect("read"), b"contents");
    assert_eq!(lower(), before);
    drop(file);
    mounted.stop();
}

#[test]
fn users_may_do_what_they_may_in_a_plain_directory() {
    let id = Program::named("id").arg("-u").ok().text();
    assert_eq!(id.trim(), "0", "this test steps down from root: run it as root");
    let open_to_all = |path: &Path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("chmod");
    };
    let plain = Scratch::new();
    open_to_all(plain.as_path());
    let expected = steps("users.py", plain.as_path());
    assert!(expected.len() >= 86, "only {} steps", expected.len());
    for kind in ["--type directory", "--type ecryptfs", "--type ecryptfs --ecryptfs-xattr"] {
        let mut mounted = Mounted::new(&format!("{kind} --allow-other"));
        open_to_all(mounted.directory.as_path());
        open_to_all(&mounted.path());
        let found = differences(&expected, &steps("users.py", &mounted.path()));
        assert!(found.is_empty(), "{kind}:\n{}", found.join("\n"));
        mounted.stop();
    }
    // Nobody else sees anything where that was not asked for, whatever the permissions say.
    let mut mounted = Mounted::new("--type ecryptfs");
    open_to_all(mounted.directory.as_path());
    open_to_all(&mounted.path());
    fs::write(mounted.path().join("file"), b"contents").expect("write");
    let as_nobody = Program::named("setpriv").words("--reuid=65534 --regid=65534 --clear-groups ls");
    let outcome = as_nobody.arg(mounted.path()).run();
    assert!(!outcome.is_ok() && outcome.messages().contains("denied"), "{}", outcome.messages());
    mounted.stop();
}

#[test]
fn files_that_are_not_encrypted_pass_through_where_that_was_asked_for() {
    let mut mounted = Mounted::new("--type ecryptfs");
    fs::write(mounted.path().join("secret"), b"secret").expect("write");
    fs::write(mounted.lower().join("plain"), b"plain").expect("write");
    // Otherwise it is seen and can be moved and removed, but not opened.
    let plain = mounted.path().join("plain");
    assert_eq!(fs::read(&plain).expect_err("not encrypted").raw_os_error(), Some(libc::EIO));
    assert_eq!(fs::write(&plain, b"x").expect_err("not encrypted").raw_os_error(), Some(libc::EIO));
    fs::rename(&plain, mounted.path().join("moved")).expect("rename");
    fs::rename(mounted.path().join("moved"), &plain).expect("rename");
    assert_eq!(fs::read(mounted.path().join("secret")).expect("read"), b"secret");
    mounted.stop();
    mounted.options += " --ecryptfs-passthrough";
    mounted.start();
    assert_eq!(fs::read(&plain).expect("read"), b"plain");
    fs::write(&plain, b"as it is").expect("write");
    let file = fs::File::options().append(true).open(&plain).expect("open");
    file.set_len(5).expect("cut");
    (&file).write_all(b"end").expect("append");
    drop(file);
    let through = |mounted: &Mounted| {
        let lower = fs::read_dir(mounted.lower()).expect("list").map(|entry| entry.expect("an entry").path());
        lower.filter(|path| fs::read(path).expect("read") == b"as itend").count()
    };
    assert_eq!(through(&mounted), 1, "what passes through is not encrypted");
    assert_eq!(fs::metadata(&plain).expect("stat").len(), 8);
    fs::write(mounted.path().join("new"), b"new").expect("write");
    mounted.stop();

    // Read only, nothing changes, and everything is read.
    mounted.options += " --read-only";
    mounted.start();
    for (name, contents) in [("plain", "as itend"), ("new", "new"), ("secret", "secret")] {
        assert_eq!(fs::read_to_string(mounted.path().join(name)).expect("read"), contents);
    }
    let at = |name: &str| mounted.path().join(name);
    for refused in [
        fs::write(at("new"), b"x"),
        fs::write(at("newer"), b"x"),
        fs::remove_file(at("new")),
        fs::rename(at("new"), at("newer")),
        fs::create_dir(at("directory")),
        fs::hard_link(at("new"), at("link")),
        fs::set_permissions(at("new"), fs::Permissions::from_mode(0o600)),
    ] {
        assert_eq!(refused.expect_err("read only").raw_os_error(), Some(libc::EROFS));
    }
    mounted.stop();
}
