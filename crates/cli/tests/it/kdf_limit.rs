//! Headers that ask for hours of key derivation: refused by every command that derives, and within seconds. A slow header that is
//! honest opens, and a derivation that takes long says so and can be interrupted.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use atrest_testkit::campaign::rotation;
use atrest_testkit::needs::wait_until;
use atrest_testkit::{Campaign, Random};

use crate::common::terminal::{Terminal, ends};
use crate::common::{CHEAP, Scratch};

/// Edits the JSON of both LUKS2 header copies by replacing text, and computes their checksums anew.
const EDIT_LUKS2: &str = r#"
import hashlib, sys
path, old, new = sys.argv[1], sys.argv[2].encode(), sys.argv[3].encode()
image = bytearray(open(path, "rb").read())
size = int.from_bytes(image[8:16], "big")
for at in (0, size):
    text = bytes(image[at + 4096:at + size]).rstrip(b"\0")
    assert old in text, (old, text)
    image[at + 4096:at + size] = text.replace(old, new).ljust(size - 4096, b"\0")
    image[at + 448:at + 512] = bytes(64)
    image[at + 448:at + 480] = hashlib.sha256(image[at:at + size]).digest()
open(path, "wb").write(image)
"#;

/// What a hostile header asks for.
#[derive(Clone, Copy, Debug)]
enum Hostile {
    Luks1Keyslot,
    Luks1Digest,
    Luks2Pbkdf2,
    Luks2Argon2,
}

impl Hostile {
    /// A volume `vol` that opens with `key`, if anybody waits.
    fn volume(self) -> Scratch {
        let scratch = Scratch::new();
        scratch.file("key", b"correct horse");
        scratch.file("new", b"battery staple");
        scratch.file("source", vec![7; 4096]);
        fs::create_dir(scratch.path("point")).expect("a directory");
        let format = |kind: &str, cost: &[&str]| {
            let args = ["format", "--type", kind, "--size", "20M", "--key-file", "key"];
            scratch.atrest(&[&args, cost, &["vol"]].concat()).ok();
        };
        let edit = |old: &str, new: &str| {
            scratch.tool("python3", &["-c", EDIT_LUKS2, "vol", old, new]).ok();
        };
        let write = |places: &[usize]| {
            let mut image = fs::read(scratch.path("vol")).expect("the volume");
            for at in places {
                image[*at..at + 4].copy_from_slice(&u32::MAX.to_be_bytes());
            }
            scratch.file("vol", image);
        };
        match self {
            Self::Luks1Keyslot => {
                format("luks1", &CHEAP);
                write(&[208 + 4]);
            }
            Self::Luks1Digest => {
                format("luks1", &CHEAP);
                write(&[164]);
            }
            Self::Luks2Pbkdf2 => {
                format("luks2", &CHEAP);
                edit("\"iterations\":1000", "\"iterations\":4294967295");
            }
            Self::Luks2Argon2 => {
                let memory = ["--pbkdf-memory", "65536", "--pbkdf-parallel", "1"];
                format(
                    "luks2",
                    &[&["--pbkdf", "argon2id", "--pbkdf-force-iterations", "4"], &memory[..]].concat(),
                );
                edit("\"time\":4,", "\"time\":200000,");
            }
        }
        scratch
    }
}

/// Commands that derive a key. Another order, and with it another hostile header for each, at each commit.
const DERIVES: [&str; 16] = [
    "key test vol --key-file key",
    "key add vol --key-file key --new-key-file new",
    "key change vol --key-file key --new-key-file new",
    "--yes key export vol --key-file key exported",
    "open vol --key-file key --nbd socket",
    "open vol --key-file key --nbd socket --daemon",
    "encrypt --key-file key source vol",
    "decrypt --key-file key vol out",
    "ls --key-file key vol /",
    "cat --key-file key vol /x",
    "cp -r --key-file key vol:/ copied",
    "df --key-file key vol",
    "mkdir --key-file key vol /x",
    "rm --key-file key vol /x",
    "mount --key-file key vol point",
    "reencrypt --yes --key-file key vol",
];

/// Every command, and every hostile header; not each with each, but in whole campaigns.
#[test]
fn every_command_that_derives_refuses_a_header_that_asks_for_hours() {
    let mut lines = DERIVES;
    Random::new(rotation()).shuffle(&mut lines);
    let headers = [Hostile::Luks1Keyslot, Hostile::Luks1Digest, Hostile::Luks2Pbkdf2, Hostile::Luks2Argon2];
    println!("ATREST_ROTATION={}", rotation());
    for (hostile, part) in headers.into_iter().zip(lines.chunks(lines.len() / headers.len())) {
        let scratch = hostile.volume();
        let before = fs::read(scratch.path("vol")).expect("the volume");
        for line in if Campaign::is_full() { &lines[..] } else { part } {
            let begun = Instant::now();
            let words: Vec<&str> = line.split(' ').chain(["--max-kdf-time", "20"]).collect();
            let ran = scratch.atrest(&words);
            assert_eq!(ran.code, 4, "{hostile:?}: {line}: {}{}", ran.stdout, ran.stderr);
            for word in ["key derivation would take about ", "20 s that it may take", "--max-kdf-time"] {
                assert!(ran.stderr.contains(word), "{hostile:?}: {line}: {}", ran.stderr);
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{hostile:?}: {line}");
            assert!(fs::read(scratch.path("vol")).expect("the volume") == before, "{hostile:?}: {line}");
        }
    }
}

#[test]
fn a_hostile_keyslot_does_not_keep_another_from_opening() {
    for (kind, hostile) in [("luks1", "luks1"), ("luks2", "luks2")] {
        let scratch = Scratch::with_volume_of(kind);
        scratch.file("new", b"battery staple");
        let add = ["key", "add", "vol", "--key-file", "key", "--new-key-file", "new"];
        scratch.atrest(&[&add, &CHEAP[..2], &["--pbkdf-force-iterations", "1234"]].concat()).ok();
        // The first keyslot is made hostile; the second stays.
        if hostile == "luks1" {
            let mut image = fs::read(scratch.path("vol")).expect("the volume");
            image[212..216].copy_from_slice(&u32::MAX.to_be_bytes());
            scratch.file("vol", image);
        } else {
            let patch = EDIT_LUKS2.replace("text.replace(old, new)", "text.replace(old, new, 1)");
            let (old, new) = ("\"iterations\":1000", "\"iterations\":4294967295");
            scratch.tool("python3", &["-c", &patch, "vol", old, new]).ok();
        }
        scratch.atrest(&["key", "test", "vol", "--key-file", "new", "--max-kdf-time", "30"]).ok();
        scratch
            .atrest(&["key", "test", "vol", "--key-file", "key", "--max-kdf-time", "30"])
            .fails(4, "--max-kdf-time");
    }
}

#[test]
fn a_slow_header_opens_unless_it_takes_longer_than_it_may() {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse");
    // More than a second for every processor that there is.
    let slow = ["--hash", "sha512", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "6000000"];
    let args = ["format", "--type", "luks1", "--size", "20M", "--key-file", "key"];
    scratch.atrest(&[&args, &slow[..], &["vol"]].concat()).ok();
    let test =
        |limit: &[&str]| scratch.atrest(&[&["key", "test", "vol", "--key-file", "key"], limit].concat());
    test(&[]).ok();
    test(&["--max-kdf-time", "1"]).fails(4, "more than the 1 s that it may take");
    test(&["--max-kdf-time", "0"]).fails(1, "max-kdf-time");
}

#[test]
fn quiet_says_nothing_of_a_slow_header() {
    let scratch = Hostile::Luks2Pbkdf2.volume();
    let args = ["--quiet", "key", "test", "vol", "--key-file", "key", "--max-kdf-time", "1000000"];
    let child = scratch.atrest_command(&args).stderr(Stdio::piped()).spawn().expect("atrest starts");
    // After a tenth of a second it knows how long it will take, and says it elsewhere.
    wait_until("it derives", || processor_ticks(child.id()) >= 50);
    scratch.tool("kill", &["-INT", &child.id().to_string()]).ok();
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.signal(), Some(2));
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
}

/// Hundredths of a second that a process has run.
fn processor_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process");
    let (_, fields) = stat.rsplit_once(") ").expect("its name");
    fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}

#[test]
fn a_signal_ends_a_derivation_at_once() {
    let scratch = Hostile::Luks2Pbkdf2.volume();
    for args in [
        &["key", "test", "vol", "--key-file", "key"][..],
        &["open", "vol", "--key-file", "key", "--nbd", "socket"],
        &["decrypt", "vol", "out", "--key-file", "key"],
        &["mount", "vol", "point", "--key-file", "key"],
    ] {
        let mut command = scratch.atrest_command(&[args, &["--max-kdf-time", "1000000"]].concat());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("atrest starts");
        let mut lines = BufReader::new(child.stderr.take().expect("its messages")).lines();
        let derives =
            |line: io::Result<String>| line.expect("text").contains("deriving the key takes about ");
        assert!(lines.any(derives), "{args:?}: it derives no key");
        let begun = Instant::now();
        scratch.tool("kill", &["-INT", &child.id().to_string()]).ok();
        let status = child.wait_with_output().expect("it ends").status;
        assert!(!status.success(), "{args:?}: {status}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{args:?}");
    }
}

#[test]
fn control_c_while_deriving_leaves_the_terminal_as_it_was() {
    let scratch = Hostile::Luks2Pbkdf2.volume();
    let mut terminal = Terminal::new();
    let before = terminal.modes().local_modes;
    let child = terminal.start(&scratch.atrest_command(&["key", "test", "vol", "--max-kdf-time", "1000000"]));
    terminal.shows(": ");
    terminal.types(b"correct horse\n");
    terminal.shows("deriving the key takes about ");
    assert!(terminal.echoes());
    terminal.types(b"\x03");
    assert_eq!(ends(child).signal(), Some(2));
    assert_eq!(terminal.modes().local_modes, before);
}
