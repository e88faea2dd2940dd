//! NTFS and exFAT inside a volume: listed, read, copied out and mounted without their drivers.

use std::fs;

use crate::common::Scratch;

/// A volume with a file system made by this line of shell on the file `plain`, and with a letter in it.
fn volume(make: &str) -> Scratch {
    let scratch = Scratch::with_volume();
    scratch.bash(&format!("truncate -s 3M plain && {make} && mkdir mnt out && echo hello > letter")).ok();
    scratch
}

fn with_ntfs() -> Scratch {
    let scratch = volume("mkfs.ntfs -F -Q -q -c 512 plain");
    scratch.bash("ntfscp -q plain letter letter && ntfscp -q plain /bin/true program").ok();
    scratch.atrest(&["encrypt", "--yes", "--key-file", "key", "plain", "vol"]).ok();
    scratch
}

#[test]
fn ntfs_is_read_and_refuses_writes() {
    let scratch = with_ntfs();
    let with = |words: &[&'static str]| scratch.atrest(&[words, &["--key-file", "key"]].concat());
    assert_eq!(with(&["ls", "vol"]).ok().stdout, "letter\nprogram\n");
    assert_eq!(with(&["cat", "vol", "/letter"]).ok().stdout, "hello\n");
    with(&["cp", "-r", "vol:/", "out/all"]).ok();
    assert_eq!(
        fs::read(scratch.path("out/all/program")).expect("copied"),
        fs::read("/bin/true").expect("a program")
    );
    with(&["cp", "letter", "vol:/new"]).fails(1, "NTFS can only be read here");
    with(&["rm", "vol", "/letter"]).fails(1, "NTFS can only be read here");
    assert!(with(&["df", "vol"]).ok().stdout.contains("NTFS"));
}

#[test]
fn a_mount_that_is_only_read_needs_no_driver() {
    let scratch = with_ntfs();
    let name = scratch.session();
    let script = "cat \"$ATREST_PATH/letter\"; ls -l \"$ATREST_PATH\"; ! echo x > \"$ATREST_PATH/letter\"";
    let words = [
        "mount",
        "vol",
        "mnt",
        "--key-file",
        "key",
        "--read-only",
        "--name",
        &name,
        "--run",
        "sh",
        "-c",
        script,
    ];
    // Nothing is in the path of programs but what the script calls.
    scratch
        .bash("mkdir bin && for tool in sh cat ls fusermount3; do ln -s $(command -v $tool) bin/; done")
        .ok();
    let ran = scratch.program(env!("CARGO_BIN_EXE_atrest")).args(words).env("PATH", scratch.path("bin"));
    let ran: crate::common::Ran = ran.without_terminal().run().into();
    assert!(ran.ok().stdout.starts_with("hello\n"));
}

#[test]
fn exfat_is_read() {
    let scratch = volume("mkfs.exfat -b 4K -c 512 -L STICK plain");
    scratch.atrest(&["encrypt", "--yes", "--key-file", "key", "plain", "vol"]).ok();
    let ran = scratch.atrest(&["--json", "df", "vol", "--key-file", "key"]).ok().stdout;
    assert!(ran.contains("exFAT"), "{ran}");
    assert_eq!(scratch.atrest(&["ls", "vol", "--key-file", "key"]).ok().stdout, "");
}
