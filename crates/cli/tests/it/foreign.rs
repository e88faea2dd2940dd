//! TrueCrypt, VeraCrypt and loop-AES volumes from the command line: files in and out, and cryptsetup's names judged by cryptsetup.

use std::fs;
use std::os::unix::fs::symlink;

use atrest_testkit::oracle::Program;
use atrest_testkit::tcrypt::Tcrypt;

use crate::common::{Ran, Scratch};

/// A FAT file system of 512 KiB with a letter in it.
fn with_letter() -> Scratch {
    let scratch = Scratch::new();
    scratch.bash("truncate -s 512K plain && mkfs.vfat plain && echo hello > letter && mcopy -i plain letter ::letter").ok();
    scratch.file("password", b"correct horse");
    scratch
}

/// A volume with this plaintext.
fn make(scratch: &Scratch, volume: &Tcrypt) {
    let plain = scratch.path("plain");
    let len = fs::metadata(&plain).expect("a file").len() as usize;
    volume.make(&scratch.path("vol"), len + 262_144, &plain);
}

const TCRYPT: [&str; 6] = ["--type", "tcrypt", "--hash", "sha512", "--key-file", "password"];

fn run(scratch: &Scratch, words: &[&str]) -> Ran {
    scratch.atrest(&[words, &TCRYPT].concat())
}

#[test]
fn files_in_a_cascade_are_listed_read_and_written() {
    let scratch = with_letter();
    make(&scratch, &Tcrypt { chain: "aes-twofish-serpent", ..Tcrypt::default() });
    assert_eq!(run(&scratch, &["cat", "vol", "/letter"]).ok().stdout, "hello\n");
    assert!(run(&scratch, &["ls", "vol"]).ok().stdout.contains("letter"));
    run(&scratch, &["decrypt", "vol", "copy", "--quiet"]).ok();
    assert_eq!(
        fs::read(scratch.path("copy")).expect("a file"),
        fs::read(scratch.path("plain")).expect("a file")
    );
    scratch.file("wrong", b"incorrect horse");
    let refused = scratch.atrest(&[
        "ls",
        "vol",
        "--type",
        "tcrypt",
        "--hash",
        "sha512",
        "--key-file",
        "wrong",
        "--cipher",
        "aes",
    ]);
    refused.fails(2, "nothing here opens with this password");
}

#[test]
fn options_that_do_not_belong_together_are_refused_before_a_password_is_asked_for() {
    let scratch = with_letter();
    scratch.bash("truncate -s 1M vol").ok();
    scratch.atrest(&["ls", "vol", "--tcrypt-hidden"]).fails(1, "belong to --type tcrypt");
    run(&scratch, &["ls", "vol", "--key-slot", "1"]).fails(1, "has no keyslots");
    run(&scratch, &["ls", "vol", "--offset", "1"]).fails(1, "says where the data is");
    run(&scratch, &["ls", "vol", "--tcrypt-keyfile", "nothing"]).fails(1, "there is no such key file");
    fs::create_dir(scratch.path("empty")).expect("a directory");
    run(&scratch, &["ls", "vol", "--tcrypt-keyfile", "empty"]).fails(1, "no key file is in this directory");
    scratch.file("nothing-in-it", b"");
    run(&scratch, &["ls", "vol", "--tcrypt-keyfile", "nothing-in-it"]).fails(1, "the key file is empty");
    run(&scratch, &["ls", "vol", "--veracrypt-pim", "4294967295"]).fails(1, "more than VeraCrypt takes");
    scratch.atrest(&["ls", "vol", "--type", "loopaes"]).fails(1, "--key-file FILE is missing");
    scratch.atrest(&["ls", "vol", "--type", "loopaes", "--key-slot", "1"]).fails(1, "has no header");
}

#[test]
fn key_files_count_alone_and_by_their_directory() {
    let scratch = with_letter();
    scratch.bash("mkdir -p keys/deeper && echo one > keys/one && echo other > keys/other && echo x > keys/.hidden && echo y > keys/deeper/y").ok();
    let key_files = vec![scratch.path("keys/one"), scratch.path("keys/other")];
    make(&scratch, &Tcrypt { key_files, ..Tcrypt::default() });
    run(&scratch, &["ls", "vol", "--tcrypt-keyfile", "keys"]).ok();
    run(&scratch, &["ls", "vol", "--tcrypt-keyfile", "keys/other", "--tcrypt-keyfile", "keys/one"]).ok();
    run(&scratch, &["ls", "vol", "--tcrypt-keyfile", "keys/one", "--cipher", "aes"])
        .fails(2, "nothing here opens");
}

#[test]
fn a_veracrypt_volume_is_made_changed_saved_and_restored() {
    let scratch = with_letter();
    for (file, password) in
        [("outer", "the outer one"), ("inner", "the inner one"), ("changed", "another one")]
    {
        scratch.file(file, password.as_bytes());
    }
    let words = |line: &str| -> Ran { scratch.atrest(&line.split(' ').collect::<Vec<_>>()) };
    words("format vol --type veracrypt --size 900K --cipher AES(Twofish) --veracrypt-pim 1 --hidden-size 96K --key-file outer --hidden-key-file inner").ok();
    let how = "--type veracrypt --veracrypt-pim 1";
    let shown = words(&format!("info vol {how} --key-file outer")).ok().stdout;
    assert!(
        shown.contains("twofish-aes, xts-plain64") && shown.contains("sha512, 16000 iterations"),
        "{shown}"
    );
    let hidden = words(&format!("info vol {how} --tcrypt-hidden --key-file inner --json")).ok().stdout;
    let packed = hidden.replace(' ', "");
    assert!(packed.contains("\"hidden\":true") && packed.contains("\"size\":98304"), "{hidden}");
    // The end of the outer volume is the hidden one's. What is in front of it can be written.
    let protected =
        format!("{how} --key-file outer --protect-hidden --protect-pim 1 --protect-key-file inner");
    scratch.bash("head -c 561152 /dev/zero > fits; head -c 561153 /dev/zero > touches").ok();
    words(&format!("encrypt fits vol --yes {protected}")).ok();
    let before = fs::read(scratch.path("vol")).expect("a file");
    words(&format!("encrypt touches vol --yes {protected}"))
        .fails(4, "would reach the hidden volume, which is protected: 561152 bytes lie in front of it");
    assert!(fs::read(scratch.path("vol")).expect("a file") == before, "something was written");
    words(&format!("info vol {how} --tcrypt-hidden --key-file inner")).ok();
    words("header backup vol saved --type veracrypt").ok();
    assert_eq!(fs::metadata(scratch.path("saved")).expect("a file").len(), 131_072);
    words(&format!(
        "key change vol {how} --key-file outer --new-key-file changed --new-veracrypt-pim 2 --hash sha256"
    ))
    .ok();
    words(&format!("info vol {how} --key-file outer")).fails(2, "nothing here opens");
    for copy in ["", " --tcrypt-backup"] {
        let changed = format!("info vol --type veracrypt --veracrypt-pim 2 --key-file changed{copy}");
        assert!(words(&changed).ok().stdout.contains("sha256, 17000 iterations"));
    }
    scratch.bash("head -c 512 /dev/urandom | dd of=vol conv=notrunc status=none").ok();
    words("header restore vol --type veracrypt --veracrypt-pim 2 --tcrypt-backup --key-file changed").ok();
    words("info vol --type veracrypt --veracrypt-pim 2 --key-file changed").ok();
    let restore = format!("header restore vol saved {how} --key-file outer");
    words(&restore).fails(1, "its headers are replaced");
    words(&format!("info vol {how} --key-file outer")).fails(2, "nothing here opens");
    words(&format!("{restore} --yes")).ok();
    words(&format!("info vol {how} --tcrypt-backup --key-file outer")).ok();
    // The end of a volume outlives what was made over its beginning.
    scratch.bash("cp vol old; mke2fs -q -F -t ext2 old 500K").ok();
    words(&format!("header restore old {how} --tcrypt-backup --key-file outer")).fails(1, "old holds");

    let before = fs::read(scratch.path("vol")).expect("a file");
    for (line, refused) in [
        ("format vol --quick --yes --key-file outer", "are for --type veracrypt"),
        (
            "format vol --type veracrypt --label x --yes --key-file outer",
            "--label is not for VeraCrypt volumes",
        ),
        (
            "format vol --type veracrypt --cipher rot13 --yes --key-file outer",
            "VeraCrypt has no ciphers rot13",
        ),
        (
            "format vol --type veracrypt --hash sha1 --yes --key-file outer",
            "VeraCrypt makes no volume with sha1",
        ),
        (
            "format vol --type veracrypt --hidden-size 96K --yes --key-file outer --hidden-key-file outer",
            "has the password of the outer one",
        ),
        (
            "format vol --type veracrypt --hidden-size 2M --yes --key-file outer --hidden-key-file inner",
            "a hidden volume has",
        ),
        (
            "key change vol --type veracrypt --key-slot 1 --key-file outer --new-key-file changed",
            "has one password",
        ),
        ("key change vol --type plain --key-file outer --new-key-file changed", "has no header"),
        ("key change vol --veracrypt-pim 1 --key-file outer --new-key-file changed", "are for --type tcrypt"),
        ("header restore vol --key-file outer", "required"),
        ("header restore vol --tcrypt-backup --key-file outer", "are for --type tcrypt"),
    ] {
        words(line).fails(1, refused);
    }
    words(&format!(
        "encrypt fits vol {how} --key-file outer --protect-hidden --protect-pim 1 --protect-key-file changed"
    ))
    .fails(2, "nothing here opens");
    assert!(fs::read(scratch.path("vol")).expect("a file") == before);
}

#[test]
fn whoever_knows_how_a_header_was_made_has_less_tried() {
    let scratch = with_letter();
    scratch.file("changed", b"another one");
    let words = |line: &str| -> Ran { scratch.atrest(&line.split(' ').collect::<Vec<_>>()) };
    words("format vol --type veracrypt --size 900K --cipher twofish-aes --hash sha256 --veracrypt-pim 1 --key-file password").ok();
    let how = "--type veracrypt --veracrypt-pim 1 --key-file password";
    words(&format!("info vol {how} --hash sha256 -c twofish-aes")).ok();
    for other in ["--hash sha512", "--hash sha256 --cipher serpent"] {
        words(&format!("info vol {how} {other}")).fails(2, "nothing here opens with this password");
        words(&format!("header restore vol {how} --tcrypt-backup --yes {other}"))
            .fails(2, "nothing here opens with this password");
    }
    words(&format!("header restore vol {how} --tcrypt-backup --yes --hash sha256 --cipher twofish")).ok();
    let change = format!("key change vol {how} --new-key-file changed --new-veracrypt-pim 1 --hash sha512");
    words(&format!("{change} --old-hash whirlpool")).fails(2, "nothing here opens with this password");
    words(&format!("{change} --old-hash sha256")).ok();
    words(&format!("info vol {how} --hash sha256")).fails(2, "nothing here opens with this password");
    let changed = "--type veracrypt --veracrypt-pim 1 --key-file changed";
    words(&format!("info vol {changed} --hash sha512")).ok();
    // A name that none has is no wrong password. LUKS says itself how it was made.
    words(&format!("info vol {changed} --hash md5")).fails(1, "--hash and --cipher take a part of a name");
    words("info vol --hash sha512").fails(1, "--hash and --cipher are for --type tcrypt");
    words("header restore vol saved -c aes").fails(1, "--hash and --cipher are for --type tcrypt");
    words("key change vol --old-hash sha512").fails(1, "--old-hash is for --type tcrypt");
    words("key change vol --new-veracrypt-pim 1").fails(1, "--new-veracrypt-pim are for --type tcrypt");
    // What the configuration says of a volume counts here as it does in `open`.
    for (hash, opens) in [("sha512", true), ("whirlpool", false)] {
        let volume = scratch.path("vol");
        let config = format!(
            "[volumes.box]\npath = \"{}\"\ntype = \"veracrypt\"\nhash = \"{hash}\"\n",
            volume.display()
        );
        scratch.file("config.toml", config.as_bytes());
        let told = words("--config config.toml info box --veracrypt-pim 1 --key-file changed");
        let change = words(
            "--config config.toml key change box --veracrypt-pim 1 --key-file changed --new-key-file changed --new-veracrypt-pim 1",
        );
        for ran in [told, change] {
            if opens {
                ran.ok();
            } else {
                ran.fails(2, "nothing here opens with this password");
            }
        }
    }
}

#[test]
fn the_dump_is_that_of_cryptsetup() {
    let scratch = with_letter();
    symlink(env!("CARGO_BIN_EXE_atrest"), scratch.path("cryptsetup")).expect("a link");
    let ours = |words: &str, input: &str| -> Ran {
        scratch.program(scratch.path("cryptsetup")).words(words).stdin(input).without_terminal().run().into()
    };
    let judge = |words: &str, input: &str| -> Ran {
        Program::named("cryptsetup").current_dir(scratch.path(".")).words(words).stdin(input).run().into()
    };
    // Of other ciphers cryptsetup asks the kernel.
    let veracrypt = Tcrypt { magic: "VERA", iterations: 16_000, ..Tcrypt::default() };
    for (volume, words) in [(&Tcrypt::default(), ""), (&veracrypt, "--veracrypt-pim 1")] {
        make(&scratch, volume);
        for dump in ["tcryptDump", "tcryptDump -q --dump-volume-key"] {
            let words = format!("{dump} -h sha512 -c aes {words} vol");
            let expected = judge(&words, "correct horse\n").ok().stdout;
            assert_eq!(ours(&words, "correct horse\n").ok().stdout, expected, "{words}");
        }
    }
    let test = "open --type tcrypt --test-passphrase -h sha512 -c aes vol";
    ours(&format!("{test} --veracrypt-query-pim"), "correct horse\n1\n").reports(0);
    ours(&format!("{test} --veracrypt-query-pim"), "correct horse\n0\n").fails(1, "a PIM is a number");
    ours(&format!("{test} --veracrypt-pim 1 --disable-veracrypt"), "correct horse\n")
        .fails(1, "exclude one another");
    ours(&format!("{test} --veracrypt-pim 1"), "incorrect horse\n").fails(2, "nothing here opens");
}

#[test]
fn loop_aes_takes_its_lines_from_files_standard_input_and_gnupg() {
    let scratch = with_letter();
    scratch
        .bash(
            "head -c 2925 /dev/urandom | base64 -w 60 | head -65 > keys && chmod 600 keys
         aespipe -P keys -e AES256 < plain > vol
         mkdir -m 700 home && echo secret > home/secret
         printf 'batch\\npinentry-mode loopback\\npassphrase-file %s/home/secret\\n' \"$PWD\" > home/gpg.conf
         GNUPGHOME=$PWD/home gpg --quiet --armor --symmetric -o keys.asc keys && chmod 600 keys.asc",
        )
        .ok();
    let cat = ["cat", "vol", "/letter", "--type", "loopaes", "--key-file"];
    assert_eq!(scratch.atrest(&[&cat[..], &["keys"]].concat()).ok().stdout, "hello\n");
    let with_gnupg = |key: &str| -> Ran {
        let program = scratch.program(env!("CARGO_BIN_EXE_atrest")).args(cat).arg(key);
        program.env("GNUPGHOME", scratch.path("home")).without_terminal().run().into()
    };
    assert_eq!(with_gnupg("keys.asc").ok().stdout, "hello\n");
    let piped = scratch.program(env!("CARGO_BIN_EXE_atrest")).args(cat).arg("-");
    let piped: Ran = piped.stdin(fs::read(scratch.path("keys")).expect("a file")).run().into();
    assert_eq!(piped.ok().stdout, "hello\n");
    scratch.file("home/secret", b"another");
    with_gnupg("keys.asc").fails(2, "gpg has not decrypted the key file");
    Program::named("gpgconf").arg("--homedir").arg(scratch.path("home")).words("--kill all").run();
    scratch.bash("head -2 keys > two && chmod 600 two").ok();
    scratch.atrest(&[&cat[..], &["two"]].concat()).fails(1, "the key file has 2 lines");
}
