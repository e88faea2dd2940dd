//! `atrest verity` and the name of veritysetup, judged by Debian's veritysetup: exit codes, standard output, and what is then on the
//! files.

use std::os::unix::fs::symlink;

use atrest_testkit::Random;
use atrest_testkit::oracle::Program;

use crate::common::{Ran, Scratch};

const UUID: &str = "a60c98d2-ae9b-4865-bfcb-b4e3ace11033";

/// A directory in which this program is called `veritysetup`.
struct Names(Scratch);

impl Names {
    fn new() -> Self {
        let scratch = Scratch::new();
        symlink(env!("CARGO_BIN_EXE_atrest"), scratch.path("veritysetup")).expect("a link");
        scratch.file("data", Random::new(5).bytes(1_000_000));
        Self(scratch)
    }

    fn run(&self, words: &[&str]) -> Ran {
        self.0.program(self.0.path("veritysetup")).args(words).without_terminal().run().into()
    }

    /// What Debian's veritysetup makes of the same words.
    fn judge(&self, words: &[&str]) -> Ran {
        self.0.tool("veritysetup", words)
    }

    /// Formats, and returns the root hash.
    fn format(&self, words: &[&str]) -> String {
        let words = [&["format", "data", "tree", "--uuid", UUID], words].concat();
        let text = self.run(&words).ok().stdout;
        let root = text.lines().find_map(|line| line.strip_prefix("Root hash:")).expect("a root hash");
        root.trim().to_owned()
    }

    /// Changes a byte of a file.
    fn change(&self, name: &str, at: usize) {
        let mut bytes = self.0.read(name);
        bytes[at] ^= 1;
        self.0.file(name, bytes);
    }
}

#[test]
fn words_have_the_exit_code_and_the_answer_that_they_have_in_debian() {
    let names = Names::new();
    let root = names.format(&["--salt", "abcd"]);
    let other = another(&root);
    names.0.file("hash", &root);
    names.0.file("empty", "");
    for words in [
        &["format", "data", "tree", "--uuid", UUID, "-s", "abcd"][..],
        &["format", "data", "tree", "--uuid", UUID, "-h", "SHA512", "-s", "-", "-v"],
        &["format", "data", "t2", "--uuid", UUID, "-s1234", "--fec-device=fec", "--fec-roots", "4"],
        &["dump", "t2", "--fec-device", "fec", "--fec-roots", "4"],
        &["format", "data", "t3", "--no-superblock", "--salt=-", "--hash-offset", "8192", "--format=0"],
        &["format", "data", "tree", "--uuid", UUID, "-s", "abcd", "--root-hash-file", "written"],
        &["dump", "tree"],
        &["verify", "data", "tree", &root],
        &["verify", "data", "tree", "--root-hash-file", "hash"],
        &["verify", "data", "tree", "--root-hash-file", "hash", &other],
        &["verify", "data", "tree", &root, "--salt", "ff", "--data-block-size", "512"],
        &["verify", "data", "tree", &other],
        &["verify", "data", "tree", "abc"],
        &["verify", "data", "tree"],
        &["verify", "data"],
        &["verify", "data", "missing", &root],
        &["verify", "missing", "tree", &root],
        &["verify", "data", "tree", "--root-hash-file", "empty"],
        &["dump", "data"],
        &["dump", "missing"],
        &["format", "data", "t4", "--hash-block-size", "100"],
        &["format", "data", "t4", "-h", "nope"],
        &["format", "data", "t4", "--salt", "xyz"],
        &["format", "data", "t4", "--format", "2"],
        &["format", "data", "t4", "--uuid", "x"],
        &["format", "data", "t4", "--data-blocks", "10000"],
        &["format", "data", "t4", "--data-blocks", "x"],
        &["format", "data", "t4", "--hash-offset", "100"],
        &["format", "data", "t4", "--fec-device", "f4", "--fec-roots", "1"],
        &["format", "data", "t4", "--fec-device", "f4", "--hash-block-size", "512"],
        &["format", "data", "data", "--hash-offset", "512"],
        &["format", "missing", "t4"],
        &["format", "empty", "t4"],
        &["format", "data", "/nonexistent/tree"],
        &["format", "data"],
        &["frob"],
        &[],
        &["format", "data", "t4", "--bogus"],
        &["close", "a", "--deferred", "--cancel-deferred"],
        &["open", "a", "b", "c", &root, "--ignore-corruption", "--restart-on-corruption"],
        &["open", "a", "b", "c", &root, "--panic-on-corruption", "--restart-on-corruption"],
    ] {
        let (ours, theirs) = (names.run(words), names.judge(words));
        assert_eq!(
            ours.code, theirs.code,
            "{words:?}: ours, and Debian's: {} {}",
            ours.stderr, theirs.stderr
        );
        assert_eq!(ours.stdout, theirs.stdout, "{words:?}");
        assert_eq!(ours.code != 0, ours.stderr.starts_with("atrest: "), "{words:?}: {}", ours.stderr);
    }
    assert_eq!(names.0.read("written"), root.as_bytes());
    assert!(
        !names
            .0
            .path("t4")
            .metadata()
            .is_ok_and(|file| file.len() > 0 && names.run(&["dump", "t4"]).code == 0)
    );
}

#[test]
fn an_action_takes_the_options_that_it_takes_in_debian() {
    let names = Names::new();
    let help = names.judge(&["--help"]).stdout;
    let mut pairs = 0;
    for line in help.lines() {
        let Some((_, rest)) = line.split_once("--").filter(|(front, _)| front.len() <= 6) else { continue };
        let word = rest.split_whitespace().next().expect("a word");
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        if ["help", "usage", "version"].contains(&name) {
            continue;
        }
        let option = if value.is_empty() { format!("--{name}") } else { format!("--{name}=0") };
        for action in [
            &["format", "gone", "new"][..],
            &["verify", "gone", "gone", "00"],
            &["open", "gone", "name", "gone", "00"],
            &["close", "gone"],
            &["status", "gone"],
            &["dump", "gone"],
            &["create", "name", "gone", "gone", "00"],
            &["remove", "gone"],
        ] {
            let words = [action, &[option.as_str()]].concat();
            let (ours, theirs) = (names.run(&words), names.judge(&words));
            let refused = ours.stderr.contains("does not go with");
            assert_eq!(
                refused,
                theirs.stderr.contains("Usage:"),
                "{words:?}: {} {}",
                ours.stderr,
                theirs.stderr
            );
            pairs += 1;
        }
    }
    assert_eq!(pairs, 24 * 8, "the options of Debian's veritysetup");
}

#[test]
fn changed_data_is_found_named_and_repaired_as_debian_does() {
    let names = Names::new();
    let root = names.format(&["--fec-device", "fec", "--fec-roots", "2"]);
    names.change("data", 5000);
    let plain = ["verify", "data", "tree", &root];
    let repairing = ["verify", "data", "tree", &root, "--fec-device", "fec"];
    for (words, code, says) in [
        (&plain[..], 2, "block 1 of the data"),
        (&repairing[..], 0, "block 1 of the data was repaired; on its device it is as bad as before"),
    ] {
        let (ours, theirs) = (names.run(words), names.judge(words));
        assert_eq!((ours.code, theirs.code), (code, code), "{words:?}");
        assert!(ours.stderr.contains(says), "{}", ours.stderr);
    }
    let before = names.0.read("data");
    let json = names.0.atrest(&["verity", "verify", "data", "tree", &root, "--json"]);
    let told: serde_json::Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!(told["bad"], serde_json::json!([{ "level": 0, "block": 1 }]));
    // Of a tree that fits together the root hash is told that would be right.
    names.change("data", 5000);
    let wrong = names.0.atrest(&["verity", "verify", "data", "tree", &another(&root)]);
    assert!(wrong.code == 1 && wrong.stderr.contains(&root), "{}", wrong.stderr);
    names.change("data", 5000);
    assert!(names.0.read("data") == before, "nothing is written to what is checked");
}

#[test]
fn data_is_served_checked_and_closed() {
    let names = Names::new();
    let root = names.format(&[]);
    let name = names.0.session();
    let opened = names.run(&["open", "--face=nbd", "data", &name, "tree", &root]).ok();
    let uri = opened.stdout.trim_end().strip_prefix("ready ").expect("where it is").to_owned();
    let copy = names.0.path("copy");
    Program::named("nbdcopy").arg(&uri).arg(&copy).ok();
    let blocks = 1_000_000 / 4096 * 4096;
    assert!(names.0.read("copy") == names.0.read("data")[..blocks]);
    let status = names.run(&["status", &name]).reports(0).stdout;
    assert!(status.contains(&uri) && status.contains("mode:    readonly"), "{status}");
    names.run(&["close", &name]).reports(0);
    assert_eq!(names.run(&["status", &name]).reports(4).stdout, format!("/dev/mapper/{name} is inactive.\n"));

    names.change("data", 5000);
    names.run(&["open", "--face=nbd", "data", &name, "tree", &root]).ok();
    let reads = ["read 0 4096", "read 8192 4096", "read 4096 4096"].map(|read| ["-c", read]);
    let told = Program::named("qemu-io").args(["-r", "-f", "raw"]).args(reads.concat()).arg(&uri).run();
    let (text, messages) = (told.text(), told.messages());
    assert_eq!(text.matches("read 4096/4096 bytes").count(), 2, "its neighbours are data: {text}");
    assert_eq!(
        [&text, &messages].map(|text| text.matches("Input/output error").count()).iter().sum::<usize>(),
        1
    );
    names.run(&["close", &name]).reports(0);
}

/// A root hash that differs in its first digit.
fn another(root: &str) -> String {
    let first = if root.starts_with('0') { '1' } else { '0' };
    root.chars().enumerate().map(|(at, digit)| if at == 0 { first } else { digit }).collect()
}

#[test]
fn what_only_the_kernel_does_is_refused_by_its_name() {
    let names = Names::new();
    let root = names.format(&[]);
    for option in [
        "--ignore-corruption",
        "--restart-on-corruption",
        "--panic-on-corruption",
        "--check-at-most-once",
        "--use-tasklets",
        "--error-as-corruption",
        "--root-hash-signature=x",
        "--face=fuse",
    ] {
        let name = option.split('=').next().expect("a name");
        let face = if name == "--face" { option } else { "--face=nbd" };
        let ran = names.run(&["open", "data", "name", "tree", &root, option, face]);
        assert!(ran.code == 1 && ran.stderr.contains(name), "{}", ran.stderr);
    }
    let both = ["--error-as-corruption", "--panic-on-corruption", "--face=nbd"];
    names.run(&[&["open", "data", "name", "tree", &root], &both[..]].concat()).fails(1, "only the kernel's");
    for option in ["--deferred", "--cancel-deferred"] {
        names.run(&["close", "name", option]).fails(1, option);
    }
    names.run(&["open", "--face=nbd", "data", "name", "tree", &another(&root)]).fails(2, "level");
}

#[test]
fn what_a_superblock_says_is_not_taken_beside_it_and_missing_without_it() {
    let names = Names::new();
    let root = names.format(&["--no-superblock", "--salt", "ab", "--data-block-size", "512"]);
    let verify =
        |words: &[&str]| names.0.atrest(&[&["verity", "verify", "data", "tree", &root], words].concat());
    verify(&["--no-superblock", "--salt", "ab", "--data-block-size", "512"]).ok();
    verify(&["--salt", "ab"]).fails(1, "the superblock says what the tree depends on");
    verify(&["--no-superblock"]).fails(1, "--salt is missing");
    verify(&[]).fails(4, "there is no superblock");
    names.0.atrest(&["verity", "dump", "tree", "--no-superblock"]).fails(1, "nothing to show");
    names.0.atrest(&["verity", "format", "data", "nbd://localhost/x"]).fails(1, "file or block device only");
}

#[test]
fn something_worth_a_question_is_not_overwritten_without_one() {
    let names = Names::new();
    names.0.bash("truncate -s 1M tree && mke2fs -q -F tree").ok();
    let before = names.0.read("tree");
    names.0.atrest(&["verity", "format", "data", "tree"]).fails(1, "overwritten");
    assert!(names.0.read("tree") == before);
    names.0.atrest(&["verity", "format", "data", "tree", "--yes"]).ok();
}
