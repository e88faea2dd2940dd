//! BitLocker volumes from the command line: files in them, what `info` tells, a backup, and cryptsetup's names judged by cryptsetup.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use atrest_testkit::bitlocker::BitLocker;
use atrest_testkit::oracle::Program;

use crate::common::{Ran, Scratch};

/// A volume with a FAT file system in which a letter lies before the metadata, and the file of its startup key.
fn with_letter(volume: BitLocker) -> Scratch {
    let scratch = Scratch::new();
    scratch.bash("truncate -s 512K plain && mkfs.vfat plain && echo hello > letter && mcopy -i plain letter ::letter").ok();
    let plain = fs::read(scratch.path("plain")).expect("a file");
    let (start, rest) = plain[..0x8000].split_at(8192);
    let plain = vec![(0, start.to_vec()), (8192, rest.to_vec())];
    BitLocker { plain, ..volume }.make(&scratch.path("vol"), &scratch.path("key.BEK"));
    scratch
}

#[test]
fn files_are_listed_read_and_written_with_a_startup_key_and_nobody_is_asked_while_protection_is_suspended() {
    let scratch = with_letter(BitLocker::default());
    let key = ["--key-file", "key.BEK"];
    let run = |words: &[&str]| scratch.atrest(&[words, &key].concat());
    assert_eq!(run(&["cat", "vol", "/letter"]).ok().stdout, "hello\n");
    assert!(run(&["ls", "vol", "--type", "bitlk"]).ok().stdout.contains("letter"));
    run(&["decrypt", "vol", "copy", "--quiet"]).ok();
    let (copy, plain) =
        (fs::read(scratch.path("copy")).expect("a file"), fs::read(scratch.path("plain")).expect("a file"));
    assert!(copy.len() == plain.len() && copy[..0x8000] == plain[..0x8000]);
    scratch.file("wrong", b"incorrect horse");
    scratch.atrest(&["ls", "vol", "--key-file", "wrong"]).fails(2, "no protector opens with this");
    run(&["ls", "vol", "--type", "bitlk", "--offset", "1"]).fails(1, "the header says all that itself");
    run(&["ls", "plain", "--type", "bitlk"]).fails(4, "it is not a BitLocker volume");
    run(&["ls", "vol", "--key-slot", "7"]).fails(1, "keyslot 7");
    let suspended = with_letter(BitLocker { protectors: vec![("clear", "")], ..BitLocker::default() });
    assert_eq!(suspended.atrest(&["cat", "vol", "/letter"]).ok().stdout, "hello\n");
    let other = with_letter(BitLocker { on_write: true, ..BitLocker::default() });
    other.atrest(&["ls", "vol", "--key-file", "key.BEK"]).fails(4, "only where it was written");
}

#[test]
fn info_tells_what_opens_it_and_a_backup_serves_as_its_header() {
    let scratch =
        with_letter(BitLocker { protectors: vec![("startup", ""), ("tpm", "")], ..BitLocker::default() });
    let info = scratch.atrest(&["info", "--json", "vol"]).ok().json();
    assert_eq!(info["format"], "bitlocker");
    assert_eq!(info["created"], 1_580_425_111_i64);
    assert_eq!((&info["cipher"], &info["writable"]), (&"aes-xts-plain64".into(), &true.into()));
    assert_eq!(info["protectors"][0]["protection"], "startup key");
    assert_eq!(info["protectors"][1]["protection"], "TPM");
    let text = scratch.atrest(&["info", "vol"]).ok().stdout;
    assert!(text.contains("protector 0  startup key, \"ExternalKey\""), "{text}");
    assert!(text.contains("metadata  at 65536: intact"), "{text}");

    scratch.atrest(&["header", "backup", "vol", "backup"]).ok();
    let backup = fs::metadata(scratch.path("backup")).expect("a file");
    assert_eq!((backup.len(), backup.mode() & 0o777), (0x60000, 0o600));
    scratch.atrest(&["header", "backup", "vol", "backup"]).fails(5, "backup");
    // All that the backup has is gone from the device.
    let mut damaged = fs::read(scratch.path("vol")).expect("a file");
    for place in BitLocker::PLACES.into_iter().chain([0]) {
        damaged[place as usize..][..512].fill(0);
    }
    fs::write(scratch.path("vol"), damaged).expect("writes");
    scratch.atrest(&["cat", "vol", "/letter", "--key-file", "key.BEK"]).fails(4, "not a LUKS volume");
    let with_header = ["cat", "vol", "/letter", "--key-file", "key.BEK", "--header", "backup"];
    assert_eq!(scratch.atrest(&with_header).ok().stdout, "hello\n");
}

#[test]
fn the_dump_is_that_of_cryptsetup_and_so_are_its_answers() {
    let protectors = vec![("password", "correct horse"), ("startup", ""), ("card", "")];
    let scratch = with_letter(BitLocker { protectors, ..BitLocker::default() });
    symlink(env!("CARGO_BIN_EXE_atrest"), scratch.path("cryptsetup")).expect("a link");
    scratch.file("password", b"correct horse");
    let ours = |words: &str, input: &str| -> Ran {
        scratch.program(scratch.path("cryptsetup")).words(words).stdin(input).without_terminal().run().into()
    };
    let judge = |words: &str, input: &str| -> Ran {
        let program = Program::named("cryptsetup").current_dir(scratch.path(".")).env("TZ", "UTC");
        program.words(words).stdin(input).run().into()
    };
    for words in ["bitlkDump vol", "bitlkDump -q --dump-volume-key vol"] {
        let expected = judge(words, "correct horse\n").ok().stdout;
        assert_eq!(ours(words, "correct horse\n").ok().stdout, expected, "{words}");
    }
    let stored = "bitlkDump -q --dump-volume-key --volume-key-file";
    judge(&format!("{stored} theirs vol"), "correct horse\n").ok();
    ours(&format!("{stored} ours vol"), "correct horse\n").ok();
    assert_eq!(scratch.bash("cmp theirs ours").ok().stdout, "");
    for (words, input, code) in [
        ("open --type bitlk --test-passphrase vol", "correct horse\n", 0),
        ("open --type bitlk --test-passphrase vol", "incorrect horse\n", 2),
        ("open --type bitlk --test-passphrase --key-file key.BEK vol", "", 0),
        ("bitlkOpen --test-passphrase plain", "correct horse\n", 1),
        ("bitlkDump plain", "", 1),
    ] {
        assert_eq!(judge(words, input).code, code, "cryptsetup: {words}");
        assert_eq!(ours(words, input).code, code, "{words}");
    }
    let by_key = scratch.atrest(&["cat", "vol", "/letter", "--type", "bitlk", "--volume-key-file", "ours"]);
    assert_eq!(by_key.ok().stdout, "hello\n");
}
