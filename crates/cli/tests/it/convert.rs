//! `convert SRC DST`: volumes of other formats become volumes of LUKS2, judged by cryptsetup.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;

use atrest_testkit::bitlocker::BitLocker;
use atrest_testkit::fvault2::FileVault;
use atrest_testkit::oracle::Program;
use atrest_testkit::tcrypt::Tcrypt;
use atrest_testkit::{Campaign, wait_until};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{CHEAP, Ran, Scratch};

fn convert(scratch: &Scratch, words: &[&str]) -> Ran {
    scratch.atrest(&[&["convert"], words, &["--new-key-file", "new"], &CHEAP].concat())
}

/// Whether cryptsetup opens the copy with the new key, and decrypting it gives these bytes.
fn is_copy(scratch: &Scratch, copy: &str, plain: &str) {
    let judge = |words: &str| -> Ran {
        let program = Program::named("cryptsetup").current_dir(scratch.path("."));
        program.words(words).run().into()
    };
    judge(&format!("open --test-passphrase --key-file new {copy}")).ok();
    assert!(judge(&format!("luksDump {copy}")).ok().stdout.contains("Version:       \t2"));
    scratch.atrest(&["decrypt", "--quiet", "--yes", "--key-file", "new", copy, "again"]).ok();
    scratch.bash(&format!("cmp {plain} again")).ok();
}

fn with_plaintext() -> Scratch {
    let scratch = Scratch::new();
    scratch.bash("head -c 3M /dev/urandom > plain").ok();
    scratch.file("password", "correct horse");
    scratch.file("new", "another one");
    scratch
}

#[test]
fn a_cascade_of_truecrypt_becomes_a_volume_of_luks2() {
    let scratch = with_plaintext();
    let volume = Tcrypt { chain: "aes-twofish-serpent", ..Tcrypt::default() };
    volume.make(&scratch.path("vol"), (3 << 20) + 262_144, &scratch.path("plain"));
    let before = fs::read(scratch.path("vol")).expect("a volume");
    let from = ["--from", "tcrypt", "--hash", "sha512", "--key-file", "password", "vol", "copy"];
    let ran = convert(&scratch, &from).ok();
    assert!(ran.stdout.contains("every byte is that of the source"), "{}", ran.stdout);
    is_copy(&scratch, "copy", "plain");
    assert_eq!(scratch.mode("copy"), 0o600);
    assert!(fs::read(scratch.path("vol")).expect("a volume") == before, "the source was written");
    // What is there already is only overwritten by whoever says so, and must be large enough.
    convert(&scratch, &from).fails(1, "copy holds a LUKS volume");
    scratch.bash("truncate -s 18M short").ok();
    let short = ["--from", "tcrypt", "--hash", "sha512", "--key-file", "password", "vol", "short"];
    convert(&scratch, &short).fails(4, "a volume with this plaintext needs 19922944");
    convert(&scratch, &["vol", "vol"]).fails(1, "are the same file");
}

#[test]
fn loop_aes_luks1_and_plain_volumes_become_luks2_as_well() {
    let scratch = with_plaintext();
    scratch
        .bash(
            "head -c 2925 /dev/urandom | base64 -w 60 | head -65 > keys && chmod 600 keys
             aespipe -P keys -e AES256 < plain > loop
             head -c 64 /dev/urandom > raw
             truncate -s 3M plainmode && truncate -s 5M old",
        )
        .ok();
    convert(&scratch, &["--from", "loopaes", "--key-file", "keys", "loop", "of-loop"]).ok();
    is_copy(&scratch, "of-loop", "plain");
    let cipher = ["--cipher", "aes-xts-plain64", "--key-size", "512", "--key-file", "raw"];
    let plain =
        [&["encrypt", "--quiet", "--yes", "--type", "plain", "plain", "plainmode"], &cipher[..]].concat();
    scratch.atrest(&plain).ok();
    convert(&scratch, &[&["--from", "plain", "plainmode", "of-plain"], &cipher[..]].concat()).ok();
    is_copy(&scratch, "of-plain", "plain");
    let luks1 = [
        "format",
        "--yes",
        "--type",
        "luks1",
        "--pbkdf-force-iterations",
        "1000",
        "--key-file",
        "password",
        "old",
    ];
    scratch.atrest(&luks1).ok();
    scratch.bash("$ATREST encrypt --quiet --yes --key-file password plain old && $ATREST decrypt --quiet --key-file password old all").ok();
    convert(&scratch, &["--key-file", "password", "old", "of-luks1"]).ok();
    is_copy(&scratch, "of-luks1", "all");
    // A wrong key leaves no file behind.
    convert(&scratch, &["--key-file", "new", "old", "never"]).fails(2, "no keyslot opens with it");
    assert!(!scratch.path("never").exists());
    scratch.atrest(&["convert", "old"]).fails(1, "<DST>");
    scratch.atrest(&["convert", "old", "--type", "luks2", "--resume"]).fails(1, "DST is missing");
    scratch
        .atrest(&["convert", "old", "--type", "luks2", "--from", "tcrypt"])
        .fails(1, "--from is for a copy");
}

#[test]
fn a_copy_that_was_interrupted_goes_on() {
    let scratch = with_plaintext();
    scratch.bash("head -c 32 /dev/urandom > raw && truncate -s 192M vol").ok();
    let source = ["--from", "plain", "--cipher", "aes-xts-plain64", "--key-size", "256", "--key-file", "raw"];
    for (signal, copy) in [(Signal::INT, "stopped"), (Signal::KILL, "killed")] {
        let words =
            [&["convert", "--json", "--threads", "1", "vol", copy, "--new-key-file", "new"], &source[..]]
                .concat();
        let mut child = scratch.atrest_command(&[&words[..], &CHEAP].concat());
        let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("atrest starts");
        wait_until("something is written", || {
            assert!(child.try_wait().expect("its state").is_none(), "it ended before anything was written");
            // More than a header, which has 16 MiB.
            fs::metadata(scratch.path(copy)).is_ok_and(|file| file.blocks() > (17 << 20) / 512)
        });
        kill_process(Pid::from_child(&child), signal).expect("the signal");
        let ended = child.wait().expect("its end");
        assert!(!ended.success(), "{ended:?}");
        let resumed = scratch.atrest(&[&words[..], &["--resume"]].concat()).ok().stdout;
        let lines: Vec<serde_json::Value> =
            resumed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let summary = lines.iter().find(|line| line["event"] == "summary").expect("a summary");
        assert_eq!(summary["bytes"], 192 << 20, "{summary}");
        let from = summary["resumed_from"].as_u64().expect("a number");
        assert_eq!(from > 0, signal == Signal::INT, "{summary}");
        assert!(lines.iter().any(|line| line["event"] == "compared"), "{resumed}");
        let plain =
            [&["decrypt", "--quiet", "--yes", "--type", "plain", "vol", "plain"], &source[2..]].concat();
        scratch.atrest(&plain).ok();
        is_copy(&scratch, copy, "plain");
        scratch.atrest(&[&words[..], &["--resume"]].concat()).fails(1, "no checkpoint");
    }
}

/// Volumes of other programs, each of more bytes than are written at once: what says how one is opened, and what makes it.
fn with_source(kind: &str) -> (Scratch, Vec<&'static str>) {
    let scratch = Scratch::new();
    scratch.file("password", "correct horse");
    scratch.file("new", "another one");
    scratch.file("wrong", "incorrect horse");
    match kind {
        "veracrypt" => {
            let made = "format vol --type veracrypt --size 64M --quick --veracrypt-pim 1 --key-file password";
            scratch.atrest(&made.split(' ').collect::<Vec<_>>()).ok();
            (scratch, vec!["--veracrypt-pim", "1", "--hash", "sha512", "--key-file", "password"])
        }
        "loopaes" => {
            let keys = "head -c 2925 /dev/urandom | base64 -w 60 | head -65 > keys && chmod 600 keys";
            scratch.bash(&format!("{keys} && head -c 64M /dev/urandom > vol")).ok();
            (scratch, vec!["--key-file", "keys"])
        }
        "bitlk" => {
            let volume = BitLocker { encrypted: 64 << 20, ..BitLocker::default() };
            volume.make(&scratch.path("vol"), &scratch.path("key.BEK"));
            // What was never written decrypts to noise.
            scratch.bash("truncate -s 64M vol").ok();
            (scratch, vec!["--key-file", "key.BEK"])
        }
        "fvault2" => {
            scratch.bash("head -c 24M /dev/urandom > data").ok();
            let volume = FileVault { extents: vec![(0, 6144, 64, 0)], ..FileVault::default() };
            volume.make(&scratch.path("vol"), &scratch.path("data"));
            (scratch, vec!["--key-file", "password"])
        }
        other => panic!("no such volume: {other}"),
    }
}

/// A volume on a small file system, which is taken away when the test ends.
struct Small<'a>(&'a Scratch);

impl Drop for Small<'_> {
    fn drop(&mut self) {
        self.0.bash("umount small");
    }
}

#[test]
fn a_copy_of_a_foreign_volume_survives_a_kill_a_full_disk_and_a_wrong_passphrase() {
    let kinds = ["veracrypt", "loopaes", "bitlk", "fvault2"];
    Campaign::matrix("copies of foreign volumes that are killed", 1).over(&kinds, |kind| {
        let (scratch, opens) = with_source(kind);
        let before = fs::read(scratch.path("vol")).expect("the source");
        let decrypt = [&["decrypt", "--quiet", "--yes", "--type", kind, "vol", "plain"], &opens[..]].concat();
        scratch.atrest(&decrypt).ok();
        let words = |copy: &'static str, key: &'static str| {
            let words = ["convert", "--quiet", "--threads", "1", "--from", kind, "vol", copy];
            [&words, &opens[..], &["--new-key-file", key]].concat()
        };
        let first = [&words("copy", "new")[..], &CHEAP].concat();
        let mut child = scratch.atrest_command(&first);
        let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("atrest starts");
        wait_until("something is written", || {
            assert!(child.try_wait().expect("its state").is_none(), "it ended before anything was written");
            fs::metadata(scratch.path("copy")).is_ok_and(|file| file.blocks() > (17 << 20) / 512)
        });
        kill_process(Pid::from_child(&child), Signal::KILL).expect("the signal");
        child.wait().expect("its end");
        let resume = |copy, key| scratch.atrest(&[&words(copy, key)[..], &["--resume"]].concat());
        resume("copy", "wrong").fails(2, "no keyslot opens with it");
        resume("copy", "new").ok();
        is_copy(&scratch, "copy", "plain");

        scratch.bash("mkdir small && mount -t tmpfs -o size=20M none small").ok();
        let small = Small(&scratch);
        let full = scratch.atrest(&[&words("small/copy", "new")[..], &CHEAP].concat());
        full.fails(4, "--resume goes on from the checkpoint");
        scratch.bash("mount -o remount,size=128M small").ok();
        resume("small/copy", "new").ok();
        is_copy(&scratch, "small/copy", "plain");
        drop(small);
        assert!(fs::read(scratch.path("vol")).expect("the source") == before, "the source was written");
    });
}

/// Why a VeraCrypt volume does not become one of LUKS2 where it is: of docs/CONVERT.md.
#[test]
fn a_header_of_luks2_has_no_room_in_what_veracrypt_has_beside_its_data() {
    let scratch = Scratch::new();
    scratch.file("key", "correct horse");
    scratch.bash("truncate -s 4M vol").ok();
    let format = |offset: &str| -> Ran {
        let words = ["format", "vol", "--yes", "--header", "header", "--key-file", "key", "--offset", offset];
        scratch.atrest(&[&words[..], &CHEAP].concat())
    };
    // In front of the data, and all that there is.
    for (offset, bytes) in [("256", 131_072), ("512", 262_144)] {
        let told = format!("data can't start at byte {bytes}: the header takes 290816 bytes");
        format(offset).fails(1, &told);
        let judge = Program::named("cryptsetup").current_dir(scratch.path("."));
        let judge = judge.words("luksFormat -q --header theirs --luks2-metadata-size 16k --key-file key");
        let judged: Ran = judge
            .words("--key-size 512 --pbkdf-force-iterations 1000 --pbkdf pbkdf2")
            .args(["--offset", offset, "vol"])
            .run()
            .into();
        assert_ne!(judged.code, 0, "{}", judged.stdout);
    }
    format("568").ok();
}
