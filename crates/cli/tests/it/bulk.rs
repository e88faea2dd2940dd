//! What a bulk run leaves alone when it can't begin, and what `format --size` leaves when it is stopped.

use crate::common;
use std::fs;
use std::process::Stdio;

use crate::common::{CHEAP, Scratch};
use atrest_testkit::{needs, wait_until};
use rustix::process::{Pid, Signal, kill_process};

/// Runs atrest as a user who may read the volume and write the existing outputs, but not the directory.
fn in_a_directory_of_others() -> (Scratch, impl Fn(&Scratch, &str) -> common::Ran) {
    let scratch = Scratch::with_volume();
    scratch.bash("cp $ATREST ./atrest; cp key k; head -c 4M /dev/zero > src; echo old > out").ok();
    scratch.bash("chmod 644 k src; chmod 666 out; chmod 666 vol; chmod 755 atrest; chmod 555 .").ok();
    let user = if needs::is_root() { "setpriv --reuid 65534 --regid 65534 --clear-groups" } else { "" };
    (scratch, move |scratch: &Scratch, line: &str| scratch.bash(&format!("{user} ./atrest {line}")))
}

#[test]
fn a_run_that_can_keep_no_checkpoint_ends_with_2_and_leaves_everything_as_it_is() {
    let (scratch, run) = in_a_directory_of_others();
    let volume = fs::read(scratch.path("vol")).expect("the volume");
    let refused = |line: &str| {
        let ran = run(&scratch, line).fails(2, "the checkpoint can't be kept: permission denied");
        assert!(ran.stderr.contains("--no-checkpoint"), "{}", ran.stderr);
    };
    refused("decrypt --yes --key-file k vol out");
    refused("encrypt --yes --key-file k src vol");
    run(&scratch, "decrypt --key-file k vol new").fails(2, "permission denied");
    assert_eq!(fs::read(scratch.path("out")).expect("the output"), b"old\n");
    assert!(fs::read(scratch.path("vol")).expect("the volume") == volume, "the volume was written");
    assert!(!scratch.path("new").exists() && !scratch.path("out.atrest-checkpoint").exists());

    run(&scratch, "encrypt --yes --no-checkpoint --key-file k src vol").ok();
    scratch.bash("truncate -s 4M out; chown 65534 out").ok();
    run(&scratch, "decrypt --yes --no-checkpoint --key-file k vol out").ok();
    scratch.bash("cmp src out").ok();
    run(&scratch, "decrypt --resume --no-checkpoint --key-file k vol out").fails(1, "cannot be used with");
    scratch.bash("chmod 755 .").ok();
}

#[test]
fn a_stopped_format_leaves_no_file_behind() {
    let scratch = Scratch::new();
    scratch.file("key", "k");
    // Minutes of key derivation, so that the signal comes while it runs.
    let args = ["format", "--size", "64M", "--key-file", "key", "--iter-time", "120000", "--pbkdf", "pbkdf2"];
    for signal in [Signal::TERM, Signal::KILL] {
        let mut command = scratch.atrest_command(&[&args[..], &["vol"]].concat());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("atrest starts");
        let pid = Pid::from_child(&child);
        // The file is there, though nameless: it is open.
        let descriptors = format!("/proc/{}/fd", child.id());
        let is_open = || {
            fs::read_dir(&descriptors).into_iter().flatten().flatten().any(|entry| {
                fs::read_link(entry.path()).is_ok_and(|to| {
                    to.starts_with(scratch.path(""))
                        && fs::metadata(entry.path()).is_ok_and(|m| m.len() == 64 << 20)
                })
            })
        };
        wait_until("a file of 64 MiB is made", is_open);
        kill_process(pid, signal).expect("the signal");
        let ended = child.wait_with_output().expect("its end").status;
        assert!(!ended.success());
        let names: Vec<_> = fs::read_dir(scratch.path("")).expect("the directory").flatten().collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }
    // So the next one is not in anybody's way.
    scratch.atrest(&[&["format", "--size", "20M", "--key-file", "key"], &CHEAP[..], &["vol"]].concat()).ok();
    assert_eq!(scratch.mode("vol"), 0o600);
    // A file that is all hole, as older versions left it, is no data either.
    scratch.bash("rm vol; truncate -s 64M vol").ok();
    scratch.atrest(&[&["format", "--size", "20M", "--key-file", "key"], &CHEAP[..], &["vol"]].concat()).ok();
    assert_eq!(fs::metadata(scratch.path("vol")).expect("the volume").len(), 20 << 20);
    let same = [&["format", "--size", "20M", "--key-file", "key"], &CHEAP[..]].concat();
    scratch.atrest(&[&same[..], &["--header", "./new", "new"]].concat()).fails(1, "the volume itself");
}
