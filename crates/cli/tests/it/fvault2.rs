//! FileVault 2 from the command line: files in it, what `info` tells, a key file of the recovery partition, and cryptsetup's names judged by
//! cryptsetup.

use std::os::unix::fs::symlink;

use atrest_testkit::fvault2::FileVault;
use atrest_testkit::oracle::Program;

use crate::common::{Ran, Scratch};

/// A volume with a FAT file system in which a letter lies, and the file of its password.
fn with_letter(volume: FileVault) -> Scratch {
    let scratch = Scratch::new();
    scratch.bash("truncate -s 64K plain && mkfs.vfat plain && echo hello > letter && mcopy -i plain letter ::letter").ok();
    scratch.file("secret", b"correct horse");
    volume.make(&scratch.path("vol"), &scratch.path("plain"));
    scratch
}

#[test]
fn files_are_listed_and_read_with_a_password_and_with_the_keys_of_the_data() {
    let scratch = with_letter(FileVault::default());
    let run = |words: &[&str]| scratch.atrest(&[words, &["--key-file", "secret"]].concat());
    assert_eq!(run(&["cat", "vol", "/letter"]).ok().stdout, "hello\n");
    assert!(run(&["ls", "vol", "--type", "fvault2"]).ok().stdout.contains("letter"));
    run(&["decrypt", "vol", "copy", "--quiet"]).ok();
    assert_eq!(scratch.bash("cmp plain copy").ok().stdout, "");
    run(&["cp", "vol:/letter", "back"]).ok();
    scratch.file("wrong", b"incorrect horse");
    scratch.atrest(&["ls", "vol", "--key-file", "wrong"]).fails(2, "a recovery key is given with its dashes");
    run(&["ls", "vol", "--type", "fvault2", "--offset", "1"]).fails(1, "the header says all that itself");
    run(&["ls", "plain", "--type", "fvault2"]).fails(4, "it is not a FileVault 2 volume");
    scratch.atrest(&["key", "list", "vol"]).fails(4, "whose keys macOS alone changes");

    let info = scratch.atrest(&["info", "--json", "vol"]).ok().json();
    assert_eq!(info["format"], "filevault");
    assert_eq!((&info["size"], &info["offset"]), (&65536.into(), &0x40000.into()));
    assert_eq!(info["users"][0]["iterations"], 1000);
    let text = scratch.atrest(&["info", "vol"]).ok().stdout;
    assert!(text.contains("user 0  PBKDF2-HMAC-SHA-256, 1000 iterations"), "{text}");
}

#[test]
fn keys_of_a_recovery_partition_are_named_where_they_are_missing() {
    let scratch = with_letter(FileVault::default());
    let keys = scratch.path("EncryptedRoot.plist.wipekey");
    FileVault { wipekey: Some(keys), ..FileVault::default() }
        .make(&scratch.path("vol"), &scratch.path("plain"));
    scratch.atrest(&["ls", "vol", "--key-file", "secret"]).fails(4, "--header EncryptedRoot.plist.wipekey");
    let line = "cat vol /letter --type fvault2 --key-file secret --header EncryptedRoot.plist.wipekey";
    assert_eq!(scratch.atrest(&line.split(' ').collect::<Vec<_>>()).ok().stdout, "hello\n");
}

#[test]
fn under_cryptsetups_name_it_says_what_cryptsetup_says() {
    let scratch = with_letter(FileVault::default());
    symlink(env!("CARGO_BIN_EXE_atrest"), scratch.path("cryptsetup")).expect("a link");
    let ours = |words: &str, input: &str| -> Ran {
        scratch.program(scratch.path("cryptsetup")).words(words).stdin(input).without_terminal().run().into()
    };
    let judge = |words: &str, input: &str| -> Ran {
        Program::named("cryptsetup").current_dir(scratch.path(".")).words(words).stdin(input).run().into()
    };
    for words in ["fvault2Dump vol", "fvault2Dump -q --dump-volume-key vol"] {
        let expected = judge(words, "correct horse\n").ok().stdout;
        assert_eq!(ours(words, "correct horse\n").ok().stdout, expected, "{words}");
    }
    let stored = "fvault2Dump -q --dump-volume-key --volume-key-file";
    judge(&format!("{stored} theirs vol"), "correct horse\n").ok();
    ours(&format!("{stored} ours vol"), "correct horse\n").ok();
    assert_eq!(scratch.bash("cmp theirs ours").ok().stdout, "");
    for (words, input, code) in [
        ("open --type fvault2 --test-passphrase vol", "correct horse\n", 0),
        ("open --type fvault2 --test-passphrase vol", "incorrect horse\n", 2),
        ("open --type fvault2 --test-passphrase --key-file secret vol", "", 0),
        ("fvault2Open --test-passphrase plain", "correct horse\n", 1),
        ("fvault2Dump plain", "", 1),
    ] {
        assert_eq!(judge(words, input).code, code, "cryptsetup: {words}");
        assert_eq!(ours(words, input).code, code, "{words}");
    }
    let by_key = scratch.atrest(&["cat", "vol", "/letter", "--type", "fvault2", "--volume-key-file", "ours"]);
    assert_eq!(by_key.ok().stdout, "hello\n");
}
