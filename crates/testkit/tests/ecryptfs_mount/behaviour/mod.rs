//! What programs do to files, done in a mount and in a plain directory: every step must end the same way in both.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

use atrest_testkit::oracle::{Program, workspace};

use super::{KINDS, Mounted};

/// Steps that end otherwise in a mount, as `docs/ECRYPTFS.md` says: extents can't be shifted, and a file needs a name at first.
const OTHERWISE: [&str; 3] = ["collapse: ENOTSUP", "insert: ENOTSUP", "unnamed: ENOTSUP"];

fn script(name: &str) -> Program {
    Program::named("python3")
        .arg(workspace().join("crates/testkit/tests/ecryptfs_mount/behaviour").join(name))
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
    let plain = tempfile::tempdir().expect("a directory");
    let expected = steps(name, plain.path());
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
    let plain = tempfile::tempdir().expect("a directory");
    open_to_all(plain.path());
    let expected = steps("users.py", plain.path());
    assert!(expected.len() >= 86, "only {} steps", expected.len());
    for kind in ["--type directory", "--type ecryptfs", "--type ecryptfs --ecryptfs-xattr"] {
        let mut mounted = Mounted::new(&format!("{kind} --allow-other"));
        open_to_all(mounted.directory.path());
        open_to_all(&mounted.path());
        let found = differences(&expected, &steps("users.py", &mounted.path()));
        assert!(found.is_empty(), "{kind}:\n{}", found.join("\n"));
        mounted.stop();
    }
    // Nobody else sees anything where that was not asked for, whatever the permissions say.
    let mut mounted = Mounted::new("--type ecryptfs");
    open_to_all(mounted.directory.path());
    open_to_all(&mounted.path());
    fs::write(mounted.path().join("file"), b"contents").expect("write");
    let as_nobody = Program::named("setpriv").words("--reuid=65534 --regid=65534 --clear-groups ls");
    let outcome = as_nobody.arg(mounted.path()).run();
    assert!(!outcome.is_ok() && outcome.messages().contains("denied"), "{}", outcome.messages());
    mounted.stop();
}
