//! The names of cryptsetup, judged by cryptsetup itself: which words it takes, what it prints, and what it then finds on the
//! volumes.

use std::os::unix::fs::symlink;

use atrest_testkit::Campaign;
use atrest_testkit::oracle::Program;

use crate::common::{CHEAP, Ran, Scratch};

/// A directory in which this program is called `cryptsetup`.
struct Names(Scratch);

impl Names {
    fn new() -> Self {
        let scratch = Scratch::new();
        symlink(env!("CARGO_BIN_EXE_atrest"), scratch.path("cryptsetup")).expect("a link");
        scratch.file("key", b"correct horse");
        scratch.file("new", b"battery staple");
        Self(scratch)
    }

    fn run(&self, words: &[&str]) -> Ran {
        self.fed(words, "")
    }

    /// Runs it with these lines on standard input.
    fn fed(&self, words: &[&str], input: &str) -> Ran {
        self.0.program(self.0.path("cryptsetup")).args(words).stdin(input).without_terminal().run().into()
    }

    /// What Debian's cryptsetup makes of the same words.
    fn judge(&self, words: &[&str]) -> Ran {
        self.0.tool("cryptsetup", words)
    }

    /// Whether a key file opens a volume, by Debian's cryptsetup.
    fn opens(&self, volume: &str, key: &str) -> bool {
        let ran = self.judge(&["open", "--test-passphrase", "--key-file", key, volume]);
        assert!([0, 2].contains(&ran.code), "{}", ran.stderr);
        ran.code == 0
    }

    fn volume(&self, kind: &str) {
        self.0.bash("truncate -s 20M vol").ok();
        self.run(&[&["luksFormat", "-q", "--type", kind, "vol", "key"], &CHEAP[..]].concat()).reports(0);
    }
}

/// Each action with the operands that it needs.
const ACTIONS: &[(&str, &[&str])] = &[
    ("open", &["dev", "name"]),
    ("close", &["name"]),
    ("resize", &["name"]),
    ("status", &["name"]),
    ("benchmark", &[]),
    ("repair", &["dev"]),
    ("reencrypt", &["dev"]),
    ("erase", &["dev"]),
    ("convert", &["dev"]),
    ("config", &["dev"]),
    ("refresh", &["name"]),
    ("luksFormat", &["dev"]),
    ("luksAddKey", &["dev"]),
    ("luksRemoveKey", &["dev"]),
    ("luksChangeKey", &["dev"]),
    ("luksConvertKey", &["dev"]),
    ("luksKillSlot", &["dev", "0"]),
    ("luksUUID", &["dev"]),
    ("isLuks", &["dev"]),
    ("luksDump", &["dev"]),
    ("tcryptDump", &["dev"]),
    ("bitlkDump", &["dev"]),
    ("fvault2Dump", &["dev"]),
    ("luksSuspend", &["name"]),
    ("luksResume", &["name"]),
    ("luksHeaderBackup", &["dev"]),
    ("luksHeaderRestore", &["dev"]),
    ("token", &["add", "dev", "--key-description=d"]),
    ("luksOpen", &["dev", "name"]),
    ("plainOpen", &["dev", "name"]),
    ("create", &["name", "dev"]),
    ("remove", &["name"]),
    ("luksErase", &["dev"]),
];

const ANSWERS: [&str; 4] = ["help", "usage", "version", "test-args"];

/// The options that Debian's cryptsetup lists, each with a value where it needs one.
fn options_of_debian() -> Vec<String> {
    let help = Program::named("cryptsetup").arg("--help").ok().text();
    let mut options = Vec::new();
    for line in help.lines() {
        let Some((_, rest)) = line.split_once("--").filter(|(front, _)| front.len() <= 6) else { continue };
        let word = rest.split_whitespace().next().expect("a word");
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        if ANSWERS.contains(&name) {
            continue;
        }
        let value = match (name, value) {
            (_, "") => "",
            ("type", _) => "=luks2",
            ("priority", _) => "=normal",
            ("pbkdf", _) => "=argon2id",
            ("sector-size", _) => "=512",
            (_, "STRING") => "=x",
            (_, "BITS") => "=256",
            _ => "=4096",
        };
        options.push(format!("--{name}{value}"));
    }
    assert!(options.len() > 80, "only {} options were found", options.len());
    options
}

#[test]
fn an_action_takes_the_options_that_it_takes_in_debian() {
    let names = Names::new();
    let options = options_of_debian();
    let pairs: Vec<_> =
        ACTIONS.iter().flat_map(|action| options.iter().map(move |option| (action, option))).collect();
    Campaign::matrix("actions of cryptsetup with options", 80).over(
        &pairs,
        |((action, operands), option)| {
            let words = [&["--test-args", *action, option.as_str()], *operands].concat();
            let (ours, theirs) = (names.run(&words).code, names.judge(&words).code);
            assert_eq!(ours, theirs, "{words:?}: ours, and Debian's");
        },
    );
}

#[test]
fn names_in_a_header_of_luks1_are_repaired_as_by_debian() {
    let names = Names::new();
    names.0.bash("truncate -s 8M vol").ok();
    let words = ["luksFormat", "-q", "--type", "luks1", "-c", "aes-ecb", "-s", "256", "vol", "key"];
    names.judge(&[&words[..], &CHEAP].concat()).ok();
    // Written over without a name of its own behind it, as old versions did.
    let wrong = "printf ecb-xxx | dd of=vol bs=1 seek=40 conv=notrunc; printf SHA256 | dd of=vol bs=1 seek=72 conv=notrunc";
    names.0.bash(&format!("{{ {wrong}; }} 2> log; cp vol theirs")).ok();
    assert!(!names.run(&["open", "--test-passphrase", "--key-file", "key", "vol"]).stderr.is_empty());
    names.run(&["repair", "-q", "vol"]).reports(0);
    names.judge(&["repair", "-q", "theirs"]).ok();
    names.0.bash("cmp vol theirs").ok();
    assert!(names.opens("vol", "key"));
    names.run(&["open", "--test-passphrase", "--key-file", "key", "vol"]).reports(0);
}

#[test]
fn wrong_words_end_with_1_as_in_debian() {
    let names = Names::new();
    for words in [
        &["--test-args"][..],
        &["--test-args", "nothing"],
        &["--test-args", "luksDelKey", "dev"],
        &["--test-args", "luksFormat"],
        &["--test-args", "luksFormat", "--frob", "dev"],
        &["--test-args", "luksFormat", "--key-size", "3", "dev"],
        &["--test-args", "luksFormat", "--key-size", "abc", "dev"],
        &["--test-args", "luksFormat", "--pbkdf", "x", "dev"],
        &["--test-args", "luksFormat", "--pbkdf-force-iterations", "1000", "-i", "1", "dev"],
        &["--test-args", "luksKillSlot", "dev"],
        &["--test-args", "open", "--offset", "1", "dev", "name"],
        &["--test-args", "open", "--batch-mode=1", "dev", "name"],
        &["--test-args", "config", "--priority", "x", "--key-slot", "1", "dev"],
        &["--test-args", "luksDump", "--unbound", "dev"],
        &["--test-args", "token", "import"],
        &["--test-args", "luksFormat", "dev", "--header"],
        &["--test-args", "open", "dev", "name", "--persistent", "--test-passphrase"],
        &["--test-args", "luksFormat", "dev", "--keyfile-size", "-1", "--key-file", "f"],
        &["--test-args", "open", "dev", "name", "--keyfile-size", "1k", "--key-file", "f"],
        &["--test-args", "open", "dev", "name", "--key-file", "f", "--key-file", "g"],
        &["--test-args", "luksFormat", "dev", "--use-urandom", "--use-random"],
        &["--test-args", "luksFormat", "dev", "--align-payload", "8192", "--offset", "16384"],
        &[
            "--test-args",
            "open",
            "dev",
            "name",
            "--type",
            "tcrypt",
            "--disable-veracrypt",
            "--veracrypt-pim",
            "1",
        ],
        &["--test-args", "luksFormat", "dev", "--sector-size", "511"],
        &["--test-args", "luksFormat", "dev", "--sector-size", "8192"],
        &["--test-args", "reencrypt", "dev", "--reduce-device-size", "2G"],
        &["--test-args", "reencrypt", "dev", "--reduce-device-size", "67108865"],
        &["--test-args", "reencrypt", "dev", "--reduce-device-size", "64m", "--device-size", "100g"],
        &["--test-args", "open", "dev", "name", "--device-size", "0"],
        &["--test-args", "open", "dev", "name", "--device-size", "33554433"],
        &["--test-args", "close", "name", "--deferred", "--cancel-deferred"],
        &["--test-args", "token", "export", "dev"],
        &["--test-args", "token", "unassign", "--token-id", "1", "dev"],
    ] {
        let ran = names.run(words);
        assert_eq!((ran.code, names.judge(words).code), (1, 1), "{words:?}");
        assert!(ran.stderr.starts_with("atrest: "), "{words:?}: {}", ran.stderr);
    }
    for words in [
        &["--test-args", "open", "--type", "plain", "-o1", "-p", "2", "dev", "name"][..],
        &["--test-args", "-qv", "luksFormat", "-s512", "dev"],
        &["--test-args", "open", "dev", "--", "-name"],
        &["--test-args", "reencrypt", "dev", "--reduce-device-size", "1G"],
        &["--test-args", "reencrypt", "dev", "--align-payload", "1", "--offset", "1"],
        &["--test-args", "open", "dev", "name", "--device-size", "32MiB"],
        &["--test-args", "luksFormat", "dev", "--sector-size", "4096"],
        &["--test-args", "luksDump", "--unbound", "-S", "1", "dev"],
    ] {
        assert_eq!((names.run(words).code, names.judge(words).code), (0, 0), "{words:?}");
    }
}

#[test]
fn a_volume_lives_under_these_names_and_debian_agrees() {
    for kind in ["luks1", "luks2"] {
        let names = Names::new();
        names.volume(kind);
        assert!(names.opens("vol", "key"));
        let uuid = names.judge(&["luksUUID", "vol"]).stdout;
        assert_eq!(names.run(&["luksUUID", "vol"]).stdout, uuid);
        names.run(&["isLuks", "vol"]).reports(0);
        names.run(&["isLuks", "--type", kind, "vol"]).reports(0);
        let other = if kind == "luks1" { "luks2" } else { "luks1" };
        names.run(&["isLuks", "--type", other, "vol"]).reports(1);
        names.run(&["isLuks", "key"]).reports(1);

        names.run(&[&["luksAddKey", "-d", "key", "-S", "3", "vol", "new"], &CHEAP[..]].concat()).reports(0);
        assert!(names.opens("vol", "new"));
        names.run(&["open", "--test-passphrase", "-S", "3", "-d", "new", "vol"]).reports(0);
        names.run(&["open", "--test-passphrase", "-S", "0", "-d", "new", "vol"]).fails(2, "passphrase");
        names.run(&["luksHeaderBackup", "vol", "--header-backup-file", "backup"]).reports(0);
        names.run(&["luksKillSlot", "-q", "vol", "3"]).reports(0);
        assert!(!names.opens("vol", "new") && names.opens("vol", "key"));
        names.run(&["luksHeaderRestore", "-q", "vol", "--header-backup-file", "backup"]).reports(0);
        assert!(names.opens("vol", "new"));
        names.run(&["luksRemoveKey", "vol", "new"]).reports(0);
        assert!(!names.opens("vol", "new"));
        let changed = "54a5d3fc-8c1c-4a54-9aee-0d0b5d9ce2c1";
        names.run(&["luksUUID", "-q", "--uuid", changed, "vol"]).reports(0);
        assert_eq!(names.judge(&["luksUUID", "vol"]).stdout.trim_end(), changed);
        names.run(&["luksErase", "-q", "vol"]).reports(0);
        assert_eq!(
            names.judge(&["open", "--test-passphrase", "-d", "key", "vol"]).code,
            1,
            "no keyslot is left"
        );
    }
}

/// Without a terminal each passphrase is one line of standard input, in the order of the questions.
#[test]
fn passphrases_are_lines_of_standard_input() {
    let names = Names::new();
    names.0.bash("truncate -s 20M vol").ok();
    // Without -q: only people are asked whether that is meant.
    let format = [&["luksFormat", "vol"], &CHEAP[..]].concat();
    names.fed(&format, "correct horse\nnever read\n").reports(0);
    assert!(names.opens("vol", "key"), "the line, without its newline and what follows");
    names.fed(&[&["luksAddKey", "vol"], &CHEAP[..]].concat(), "correct horse\nbattery staple\n").reports(0);
    assert!(names.opens("vol", "new"));
    names.fed(&[&["luksChangeKey", "vol"], &CHEAP[..]].concat(), "battery staple\nthird").reports(0);
    assert!(!names.opens("vol", "new"));
    names.0.file("third", b"third");
    assert!(names.opens("vol", "third"));
    names.fed(&["open", "--test-passphrase", "vol"], "third\n").reports(0);
    // Wrong, and no second line is taken for another try.
    names.fed(&["open", "--test-passphrase", "-T", "3", "vol"], "wrong\nthird\n").fails(2, "passphrase");
    names.fed(&["luksRemoveKey", "vol"], "third\n").reports(0);
    assert!(!names.opens("vol", "third") && names.opens("vol", "key"));
    names.fed(&["open", "--test-passphrase", "vol"], "").fails(1, "standard input ends");
    let long = "x".repeat((8 << 20) + 1);
    names.fed(&["open", "--test-passphrase", "vol"], &long).fails(1, "at most 8388608 bytes");
    // Some bytes of a line.
    let part = ["open", "--test-passphrase", "-l", "13", "--keyfile-offset", "2", "vol"];
    names.fed(&part, "..correct horse, and more").reports(0);
    names.fed(&part, "..correct hors").fails(1, "after 12 of 13 bytes");
    names
        .fed(&["open", "--test-passphrase", "-l", "99", "vol"], "correct horse\n")
        .fails(1, "after 13 of 99");
    // A key file from standard input is every byte of it.
    let whole = ["open", "--test-passphrase", "--key-file", "-", "vol"];
    names.fed(&whole, "correct horse").reports(0);
    names.fed(&whole, "correct horse\n").fails(2, "passphrase");
}

#[test]
fn a_dump_is_that_of_debian_byte_by_byte() {
    let names = Names::new();
    names.0.bash("truncate -s 20M one two head; truncate -s 1M data").ok();
    let debian = |line: &str| names.0.bash(&format!("cryptsetup -q {line}")).ok();
    let cheap = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
    debian("luksFormat --type luks1 --pbkdf-force-iterations 1000 --cipher aes-cbc-plain64 -s 256 one key");
    debian("luksAddKey -S 6 --pbkdf-force-iterations 2000 -d key one new");
    debian(
        "luksFormat --pbkdf argon2id --pbkdf-memory 64 --pbkdf-parallel 1 --pbkdf-force-iterations 5 --sector-size 512 two key",
    );
    let dumped = |volume: &str| {
        let theirs = names.judge(&["luksDump", volume]).stdout;
        assert!(theirs.contains("UUID"));
        assert_eq!(names.run(&["luksDump", volume]).reports(0).stdout, theirs);
    };
    dumped("one");
    dumped("two");
    debian("config two --label shelf --subsystem books");
    debian(&format!("luksAddKey --unbound --key-size 128 {cheap} two new"));
    debian(&format!(
        "luksAddKey -S 9 --keyslot-cipher aes-xts-plain64 --keyslot-key-size 256 {cheap} -d key two new"
    ));
    debian("config two --priority prefer -S 9; cryptsetup config two --priority ignore -S 0");
    names.0.file(
        "token",
        br#"{"type":"shelf","keyslots":["0","9"],"more":[1,{"x":"y\"{[,: "}],"none":{},"empty":[]}"#,
    );
    debian("token import two --token-id 4 --json-file token");
    dumped("two");
    for more in [&["--dump-volume-key", "-d", "new", "-S", "9"][..], &["--unbound", "-d", "new", "-S", "1"]] {
        let key = [&["luksDump", "-q", "two"], more].concat();
        assert_eq!(names.run(&key).reports(0).stdout, names.judge(&key).stdout);
    }
    let of_one = ["luksDump", "-q", "--dump-master-key", "-d", "key", "one"];
    assert_eq!(names.run(&of_one).reports(0).stdout, names.judge(&of_one).stdout);
    names.run(&["luksDump", "-q", "--dump-volume-key", "-d", "key", "-S", "9", "two"]).fails(2, "passphrase");
    // Debian's ends without a newline.
    let theirs = names.judge(&["luksDump", "--dump-json-metadata", "two"]).stdout;
    assert!(theirs.contains("\"more\":["));
    let ours = names.run(&["luksDump", "--dump-json-metadata", "two"]).reports(0).stdout;
    assert_eq!(ours.trim_end(), theirs.trim_end());
    debian(&format!("luksFormat --header head --offset 8192 {cheap} data key"));
    dumped("head");
    let detached = ["luksDump", "--header", "head", "data"];
    assert_eq!(names.run(&detached).reports(0).stdout, names.judge(&detached).stdout);
}

#[test]
fn what_an_action_does_not_do_here_is_refused_by_its_name_and_nothing_is_changed() {
    let names = Names::new();
    names.volume("luks2");
    let before = names.0.read("vol");
    for (words, says) in [
        (&["open", "--type", "bitlk", "vol", "name"][..], "not a BitLocker volume"),
        (&["convert", "-q", "--type", "luks2", "vol"], "already"),
        (&["convert", "-q", "vol"], "--type"),
        (&["bitlkDump", "vol"], "not a BitLocker volume"),
        (&["reencrypt", "-q", "--decrypt", "-d", "key", "vol"], "--header"),
        (&["reencrypt", "-q", "--encrypt", "-d", "key", "vol"], "--reduce-device-size"),
        (&["token", "unassign", "--token-id", "0", "vol"], "--key-slot"),
        (&["open", "--face", "smoke", "-d", "key", "vol", "name"], "--face smoke"),
        (&["luksAddKey", "-d", "key", "--new-keyfile", "new", "vol", "new"], "twice"),
        (&["luksHeaderBackup", "vol"], "--header-backup-file"),
        (
            &["luksFormat", "-q", "--hw-opal", "vol", "key"],
            "--hw-opal can't be had: drives that encrypt themselves",
        ),
        (&["erase", "-q", "--hw-opal-factory-reset", "vol"], "--hw-opal-factory-reset can't be had"),
        (
            &["luksFormat", "-q", "--integrity", "aead", "--integrity-inline", "vol", "key"],
            "tags in its sectors",
        ),
        (&["open", "--perf-high_priority", "-d", "key", "vol", "name"], "--perf-high_priority can't be had"),
    ] {
        names.run(words).fails(1, says);
    }
    assert!(names.0.read("vol") == before);
}

/// Small differences that cryptsetup's own tests look for, each judged by Debian's.
#[test]
fn details_are_those_of_debian() {
    let names = Names::new();
    names.volume("luks2");
    // A label that is not named is cleared.
    names.run(&["config", "--label", "one", "vol"]).reports(0);
    names.run(&["config", "--subsystem", "two", "vol"]).reports(0);
    let dump = names.judge(&["luksDump", "vol"]).ok().stdout;
    assert!(dump.contains("(no label)") && dump.contains("\ttwo\n"), "{dump}");
    // A token comes back byte for byte.
    names.0.file("token", br#"{"type":"some","keyslots":[],"of":"us"}"#);
    names.run(&["token", "import", "--token-id", "3", "--json-file", "token", "vol"]).reports(0);
    let export = ["token", "export", "--token-id", "3", "vol"];
    assert_eq!(names.run(&export).ok().stdout, names.judge(&export).ok().stdout);
    // A header file that is too short is made longer, and its data begins where --align-payload says.
    names.0.bash("truncate -s 4096 head; truncate -s 20M data").ok();
    let format =
        ["luksFormat", "-q", "--type", "luks2", "--header", "head", "--align-payload", "4096", "data", "key"];
    names.run(&[&format[..], &CHEAP[..]].concat()).reports(0);
    let dump = names.judge(&["luksDump", "head"]).ok().stdout;
    assert!(dump.contains("offset: 2097152 [bytes]"), "{dump}");
    assert!(names.opens("head", "key"));
    let odd = ["luksFormat", "-q", "--header", "head", "--align-payload", "1", "data", "key"];
    names.run(&odd).fails(1, "multiple of 8 sectors");
    assert_eq!(names.judge(&odd).code, 1);
    // Of LUKS1 a keyslot that is named stays where it is, one that is not moves to a free one.
    names.volume("luks1");
    let change = |more: &[&str], files: [&str; 2]| {
        let words =
            ["luksChangeKey", "-q", "--pbkdf-force-iterations", "1000", "-d", files[0], "vol", files[1]];
        names.run(&[&words[..], more].concat()).reports(0);
        let dump = names.judge(&["luksDump", "vol"]).ok().stdout;
        (0..8).filter(|slot| dump.contains(&format!("Key Slot {slot}: ENABLED"))).collect::<Vec<_>>()
    };
    assert_eq!(change(&["-S", "0"], ["key", "new"]), [0]);
    assert_eq!(change(&[], ["new", "key"]), [1]);
    let convert = ["luksConvertKey", "-q", "-d", "key", "vol"];
    names.run(&convert).fails(1, "LUKS2");
    assert_eq!(names.judge(&convert).code, 1);
}

#[test]
fn a_volume_is_converted_there_and_back() {
    let names = Names::new();
    names.volume("luks1");
    assert!(names.opens("vol", "key"));
    names.run(&["convert", "-q", "--type", "luks2", "vol"]).reports(0);
    assert_eq!(names.judge(&["isLuks", "--type", "luks2", "vol"]).code, 0);
    assert!(names.opens("vol", "key"));
    names.run(&["convert", "-q", "--type", "luks1", "vol"]).reports(0);
    assert_eq!(names.judge(&["isLuks", "--type", "luks1", "vol"]).code, 0);
    assert!(names.opens("vol", "key"));
}

#[test]
fn tokens_are_those_that_debian_makes() {
    let names = Names::new();
    names.volume("luks2");
    names.run(&[&["luksAddKey", "-d", "key", "vol", "new"], &CHEAP[..]].concat()).reports(0);
    names.0.bash("cp vol theirs").ok();
    for words in [
        &["add", "--key-description", "shelf:secret"][..],
        &["add", "--key-description", "x", "-S", "1", "--token-id", "7"],
        &["unassign", "--token-id", "0", "-S", "0"],
        &["add", "--key-description", "y", "--token-id", "7", "--token-replace"],
    ] {
        names.run(&[&["token"], words, &["vol"]].concat()).reports(0);
        if words[0] == "add" && !words.contains(&"--token-replace") {
            names.judge(&[&["token"], words, &["theirs"]].concat()).ok();
            let id = if words.contains(&"7") { "7" } else { "0" };
            let export =
                |volume: &str| names.judge(&["token", "export", "--token-id", id, volume]).ok().stdout;
            assert_eq!(export("vol"), export("theirs"));
        }
    }
    let left = names.run(&["token", "export", "--token-id", "0", "vol"]).ok().stdout;
    assert!(left.contains("\"keyslots\":[\"1\"]"), "{left}");
    names.run(&["token", "unassign", "--token-id", "0", "-S", "0", "vol"]).fails(1, "keyslot 0");
    names.run(&["token", "unassign", "--token-id", "3", "-S", "0", "vol"]).fails(1, "token 3");
    names.run(&["token", "remove", "--token-id", "7", "vol"]).reports(0);
    assert_ne!(names.judge(&["token", "export", "--token-id", "7", "vol"]).code, 0);
}

/// Where the kernel can't map it, a volume is served by a process of ours.
#[test]
fn a_volume_is_opened_closed_and_told_of() {
    let names = Names::new();
    names.volume("luks2");
    let name = names.0.session();
    let open = ["open", "--face", "nbd", "-d", "key", "vol", &name];
    let opened = names.run(&open).ok();
    let uri = opened.stdout.trim_end().strip_prefix("ready ").expect("where it is").to_owned();
    let size = Program::named("nbdinfo").args(["--size", &uri]).ok().text();
    assert_eq!(size.trim_end(), (4 << 20).to_string());
    let status = names.run(&["status", &name]).reports(0).stdout;
    assert!(status.starts_with(&format!("{name} is active.\n")), "{status}");
    assert!(status.contains(&uri) && status.contains("mode:    read/write"), "{status}");
    names.run(&["close", &name]).reports(0);
    let gone = names.run(&["status", &name]).reports(4).stdout;
    assert_eq!(gone, format!("/dev/mapper/{name} is inactive.\n"));
    names.run(&["close", &name]).fails(4, &name);
}

#[test]
fn a_new_volume_may_have_its_key_from_a_device() {
    let names = Names::new();
    names.0.bash("truncate -s 20M vol").ok();
    let format = ["luksFormat", "-q", "-s", "256", "--volume-key-file", "/dev/urandom", "vol", "key"];
    names.run(&[&format[..], &CHEAP].concat()).reports(0);
    names
        .run(&["luksDump", "-q", "--dump-volume-key", "--volume-key-file", "vk", "-d", "key", "vol"])
        .reports(0);
    let usual = [
        "luksFormat",
        "-q",
        "--volume-key-file",
        "/dev/urandom",
        "--cipher",
        "aes-cbc-plain64",
        "vol2",
        "key",
    ];
    names.0.bash("truncate -s 20M vol2").ok();
    names.run(&[&usual[..], &CHEAP].concat()).reports(0);
    assert!(names.run(&["luksDump", "vol2"]).stdout.contains("Key:        256 bits"));
    let key = names.0.read("vk");
    assert!(key.len() == 32 && key.iter().any(|byte| *byte != 0));
    names.judge(&["luksAddKey", "-q", "--volume-key-file", "vk", "vol", "new"]).ok();
    assert!(names.opens("vol", "new"));
    // Every byte of a file, as without that size.
    names.0.bash("cat vk vk > long").ok();
    let long = ["luksFormat", "-q", "-s", "256", "--volume-key-file", "long", "vol", "key"];
    names.run(&[&long[..], &CHEAP].concat()).fails(1, "64 bytes");
}

#[test]
fn ends_are_told_on_request() {
    let names = Names::new();
    names.volume("luks2");
    assert_eq!(names.run(&["-v", "isLuks", "vol"]).reports(0).stdout, "Command successful.\n");
    let judged = names.judge(&["-v", "isLuks", "key"]).stdout;
    assert_eq!(names.run(&["-v", "isLuks", "key"]).stdout, judged);
    let version = names.run(&["--version"]).reports(0).stdout;
    assert!(version.starts_with("cryptsetup 2."), "{version}");
    let help = names.run(&["--help"]).reports(0).stdout;
    assert!(ACTIONS.iter().take(28).all(|(action, _)| help.contains(&format!("\t{action}"))), "{help}");
}

#[test]
fn the_key_of_a_mac_is_as_long_as_it_was_asked_for() {
    let names = Names::new();
    names.0.bash("truncate -s 20M vol").ok();
    let tags = ["luksFormat", "-q", "--integrity", "hmac-sha256", "--integrity-no-wipe", "--disable-blkid"];
    names.run(&[&tags[..], &CHEAP[..], &["--integrity-key-size", "384", "vol", "key"]].concat()).reports(0);
    let segment = names.run(&["luksDump", "--dump-json-metadata", "vol"]).json()["segments"]["0"].clone();
    assert_eq!(
        segment["integrity"],
        serde_json::json!({
            "type": "hmac(sha256)", "journal_encryption": "none", "journal_integrity": "none", "key_size": 48
        })
    );
    let dumped = names.run(&["luksDump", "-q", "--dump-volume-key", "-d", "key", "vol"]).reports(0).stdout;
    assert!(dumped.contains("MK bits:       \t896\n"), "512 of the cipher, 384 of the MAC: {dumped}");
}

#[test]
fn a_benchmark_is_a_table_in_the_form_of_cryptsetup() {
    let names = Names::new();
    let text = names.run(&["benchmark", "-c", "aes-xts", "-s", "256"]).reports(0).stdout;
    let [approximate, head, row] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    assert_eq!(approximate, "# Tests are approximate using memory only (no storage IO).");
    assert_eq!(head, "#     Algorithm |       Key |      Encryption |      Decryption");
    let words: Vec<&str> = row.split_whitespace().collect();
    let [name, key, encrypt, "MiB/s", decrypt, "MiB/s"] = words[..] else { panic!("{row}") };
    assert_eq!((name, key, row.len()), ("aes-xts", "256b", head.len()));
    for speed in [encrypt, decrypt] {
        assert!(speed.parse::<f64>().expect("a number") > 1.0, "{row}");
    }
    names.run(&["benchmark", "-c", "frob-xts"]).fails(1, "unknown cipher");
    names.run(&["benchmark", "-c", "aes-xts", "-s", "136"]).fails(1, "17 bytes");
}

/// The store is an option of ours: with cryptsetup's words nothing else tells it of a new label.
#[test]
fn config_tells_the_trusted_store_of_a_pinned_header() {
    let names = Names::new();
    names.volume("luks2");
    names.0.atrest(&["header", "pin", "vol", "--key-file", "key", "--store", "store"]).ok();
    let (before, store) = (names.0.read("vol"), names.0.read("store"));
    let config = |label: &str| {
        let words =
            ["--label", label, "--priority", "prefer", "--key-slot", "0", "--store", "store", "-d", "key"];
        names.run(&[&["config"], &words[..], &["vol"]].concat())
    };
    config("one").ok();
    assert!(names.0.read("store") != store, "the store is told");
    names.0.atrest(&["decrypt", "vol", "-", "--key-file", "key", "--store", "store"]).ok();
    names.judge(&["open", "--test-passphrase", "-d", "key", "vol"]).ok();
    // An older header is not built upon.
    names.0.file("vol", &before);
    let told = config("two");
    assert!(told.code != 0 && told.stderr.contains("an older one of this volume"), "{}", told.stderr);
    assert!(names.0.read("vol") == before, "nothing is written");
    names.run(&["luksAddKey", "--store", "store", "vol"]).fails(1, "--store does not go with luksAddKey");
}
