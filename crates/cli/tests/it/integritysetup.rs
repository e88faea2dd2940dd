//! The name of integritysetup: what it prints is held against Debian's integritysetup, what it lays out is served and found damaged.
//! The kernel judges the bytes in the tests of `engine`.

use std::os::unix::fs::symlink;

use atrest_testkit::Random;

use crate::common::{Ran, Scratch};

struct Name(Scratch);

impl Name {
    fn new() -> Self {
        let scratch = Scratch::new();
        symlink(env!("CARGO_BIN_EXE_atrest"), scratch.path("integritysetup")).expect("a link");
        scratch.file("key", [7; 64]);
        scratch.bash("truncate -s 4M dev").ok();
        Self(scratch)
    }

    fn run(&self, words: &str) -> Ran {
        let program = self.0.program(self.0.path("integritysetup"));
        program.args(words.split(' ')).without_terminal().run().into()
    }
}

#[test]
fn a_dump_is_the_one_of_integritysetup_to_the_byte() {
    let name = Name::new();
    for options in [
        "",
        "--integrity sha256 --sector-size 4096",
        "--integrity blake2s-256 --tag-size 32",
        "--integrity xxhash64 --interleave-sectors 128 --journal-size 262144 --integrity-legacy-padding",
        "--integrity hmac-sha256 --integrity-key-file key --integrity-key-size 32 --tag-size 16 --journal-integrity hmac-sha256 --journal-integrity-key-file key --journal-integrity-key-size 40 --no-wipe",
        "--integrity sha1 --integrity-legacy-hmac --sector-size 1024",
        "--journal-crypt ctr-aes --journal-crypt-key-file key --journal-crypt-key-size 32",
    ] {
        name.run(format!("format -q dev {options}").trim()).reports(0);
        let theirs = name.0.tool("integritysetup", &["dump", "dev"]).reports(0);
        assert!(
            theirs.stdout.starts_with("Info for integrity device dev.\nsuperblock_version "),
            "{}",
            theirs.stdout
        );
        assert_eq!(name.run("dump dev").stdout, theirs.stdout, "{options}");
    }
}

#[test]
fn what_was_formatted_is_served_and_a_changed_unit_is_an_error() {
    let name = Name::new();
    name.run("format -q dev --integrity sha256 --sector-size 4096").reports(0);
    let register = format!("served-{}", std::process::id());
    let (open, close) =
        (format!("open --face nbd dev {register} --integrity sha256"), format!("close {register}"));
    let data = Random::new(8).bytes(1 << 20);
    name.0.file("data", &data);
    let served = |script: &str| {
        name.run(&open).reports(0);
        let ran: Ran = name.0.bash(script);
        name.run(&close).reports(0);
        ran
    };
    let uri = format!(
        "$({} status {register} --json | sed -n 's/.*\"uri\": \"\\(.*\\)\".*/\\1/p')",
        env!("CARGO_BIN_EXE_atrest")
    );
    let ran = served(&format!("u={uri}; nbdcopy --flush data \"$u\""));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let read = format!("u={uri}; nbdcopy \"$u\" back");
    let ran = served(&read);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let back = name.0.read("back");
    assert!(back[..data.len()] == data && back[data.len()..].iter().all(|byte| *byte == 0));
    // Units 0 and 200 are not served any more.
    let mut image = name.0.read("dev");
    let at =
        image.windows(4096).position(|window| *window == data[200 * 4096..201 * 4096]).expect("the unit");
    image[at + 77] ^= 1;
    name.0.file("dev", &image);
    let ran = served(&read);
    assert_ne!(ran.code, 0, "the unit is served");
    let scrubbed = name.run("scrub dev --integrity sha256");
    assert_eq!(scrubbed.code, 4, "{}", scrubbed.stderr);
    assert!(
        scrubbed.stdout.starts_with("data unit 200 at byte 819200: ")
            && scrubbed.stdout.contains(", 1 failed\n"),
        "{}",
        scrubbed.stdout
    );
    // Another hash fails at once, and says why.
    let wrong = name.run(&format!(
        "open --face nbd dev {register} --integrity sha256 --integrity-key-file key --integrity-key-size 32"
    ));
    assert_eq!(wrong.code, 1, "{}", wrong.stderr);
    let wrong = name.run(&format!("open --face nbd dev {register} --integrity crc32c"));
    assert_eq!(wrong.code, 4, "{}", wrong.stderr);
    assert!(
        wrong.stderr.contains("the hash and the key that the device was formatted with"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn tags_are_computed_when_it_is_opened_and_bitmap_mode_survives_a_kill() {
    let name = Name::new();
    let register = format!("bitmap-{}", std::process::id());
    let atrest = env!("CARGO_BIN_EXE_atrest");
    let uri = format!("$({atrest} status {register} --json | sed -n 's/.*\"uri\": \"\\(.*\\)\".*/\\1/p')");
    let process =
        format!("$({atrest} status {register} --json | sed -n 's/.*\"pid\": \\([0-9]*\\).*/\\1/p')");
    let bash = |script: String| -> Ran { name.0.bash(&script) };
    name.run("format -q dev --integrity sha256 --no-wipe").reports(0);
    let refused = name.run(&format!("open --face nbd dev {register} --integrity sha256"));
    assert_eq!(refused.code, 4, "nothing has a tag: {}", refused.stderr);
    name.run(&format!("open --face nbd dev {register} --integrity sha256 --integrity-recalculate"))
        .reports(0);
    let data = Random::new(8).bytes(1 << 20);
    name.0.file("data", &data);
    let ran = bash(format!("u={uri}; nbdcopy --flush data \"$u\""));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    name.run(&format!("close {register}")).reports(0);
    let in_bitmap_mode =
        format!("open --face nbd dev {register} --integrity sha256 -B --bitmap-sectors-per-bit 1024");
    name.run(&in_bitmap_mode).reports(0);
    let ran = bash(format!(
        "u={uri}; nbdcopy --flush data \"$u\"; p={process}; kill -9 $p; while kill -0 $p 2> /dev/null; do sleep 0.01; done"
    ));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let dump = name.run("dump dev").stdout;
    assert!(dump.contains("dirty_bitmap"), "{dump}");
    name.run(&in_bitmap_mode).reports(0);
    let ran = bash(format!("u={uri}; nbdcopy \"$u\" back"));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    name.run(&format!("close {register}")).reports(0);
    assert!(name.0.read("back")[..data.len()] == data);
    let dump = name.run("dump dev").stdout;
    assert!(!dump.contains("dirty_bitmap"), "{dump}");
}

#[test]
fn what_can_not_be_had_is_refused_by_name_and_nothing_is_written() {
    let name = Name::new();
    let before = name.0.read("dev");
    for (words, said) in [
        ("format -q dev --journal-crypt ctr-aes", "--journal-crypt needs --journal-crypt-key-file"),
        (
            "format -q dev --journal-crypt xts-aes --journal-crypt-key-file key --journal-crypt-key-size 32",
            "cbc-aes and ctr-aes",
        ),
        (
            "format -q dev --journal-crypt cbc-aes --journal-crypt-key-file key --journal-crypt-key-size 31",
            "16, 24 or 32 bytes, and not of 31",
        ),
        ("open dev x --allow-discards --face nbd", "--allow-discards is not supported"),
        ("open dev x -R --face nbd", "--integrity-recovery-mode is not supported"),
        ("open dev x --face fuse:", "there is no such way to show data"),
        ("close x --deferred", "--deferred is not supported"),
        ("format -q dev --integrity-inline", "--integrity-inline is not supported"),
        ("resize x", "x is no mapping of dm-integrity"),
        ("format -q dev --integrity md4", "the hash is unknown"),
        ("format -q dev --integrity hmac-sha256", "a key, which is missing"),
        ("format -q dev --sector-size 513", "data units of 513 bytes"),
        ("format -q dev --journal-integrity sha256", "the journal's hash has a key"),
        (
            "format -q dev --integrity hmac-sha256 --integrity-key-file key --integrity-key-size 99",
            "ends after 64 of 99 bytes",
        ),
        ("open dev", "open needs a device and a name"),
    ] {
        let ran = name.run(words);
        assert_ne!(ran.code, 0, "{words}");
        assert!(ran.stderr.contains(said), "{words}: {}", ran.stderr);
    }
    let ran = name.run("dump dev");
    assert_eq!(ran.code, 4);
    assert!(ran.stderr.contains("superblock is missing"), "{}", ran.stderr);
    assert_eq!(name.0.read("dev"), before);
}
