//! What is wrong must be named, with cryptsetup's exit codes, and nothing may be written.

use std::fs;

use crate::common::{CHEAP, Scratch};
use atrest_testkit::needs;

#[test]
fn wrong_options_end_with_1_and_help_with_0() {
    let scratch = Scratch::new();
    scratch.atrest(&[]).fails(1, "Usage");
    scratch.atrest(&["frobnicate"]).fails(1, "unrecognized subcommand");
    scratch.atrest(&["info"]).fails(1, "<PATH>");
    scratch.atrest(&["info", "--nonsense", "x"]).fails(1, "--nonsense");
    scratch.atrest(&["format", "--size", "12Q", "x"]).fails(1, "unknown unit");
    scratch.atrest(&["open", "x"]).fails(1, "--nbd");
    scratch
        .atrest(&["key", "add", "x", "--key-file", "a", "--passphrase-fd", "3"])
        .fails(1, "cannot be used with");
    assert!(scratch.atrest(&["--help"]).ok().stdout.contains("Exit codes"));
    assert!(scratch.atrest(&["--version"]).ok().stdout.starts_with("atrest 0."));
    assert!(scratch.atrest(&["key", "kill", "--help"]).ok().stdout.contains("Examples:"));
}

#[test]
fn what_is_no_volume_ends_with_4() {
    let scratch = Scratch::new();
    scratch.file("key", "k");
    scratch.file("empty", "");
    scratch.file("zeros", vec![0; 1 << 20]);
    scratch.file("text", "not a volume at all\n".repeat(1000));
    for name in ["empty", "zeros", "text"] {
        scratch.atrest(&["info", name]).fails(4, "not a LUKS volume");
        scratch.atrest(&["key", "test", "--key-file", "key", name]).fails(4, "not a LUKS volume");
        scratch.atrest(&["ls", "--key-file", "key", name]).fails(4, "not a LUKS volume");
    }
    scratch.atrest(&["info", "missing"]).fails(4, "missing: there is no such file");
    scratch.atrest(&["info", "."]).fails(4, "it is a directory");
    scratch.atrest(&["info", "/dev/null"]).fails(4, "neither a regular file nor a block device");
}

#[test]
fn errors_are_one_line_of_json_if_asked_for() {
    let scratch = Scratch::new();
    let ran = scratch.atrest(&["info", "--json", "missing"]).fails(4, "there is no such file");
    let error: serde_json::Value = serde_json::from_str(ran.stderr.trim_end()).expect("JSON");
    assert_eq!(error["error"]["code"], 4);
    assert!(error["error"]["message"].as_str().is_some_and(|text| text.contains("missing")));
    assert_eq!(ran.stdout, "");
}

#[test]
fn a_wrong_passphrase_ends_with_2_and_a_missing_key_file_with_1() {
    for kind in ["luks1", "luks2"] {
        let scratch = Scratch::with_volume_of(kind);
        scratch.file("wrong", "battery staple");
        scratch.atrest(&["key", "test", "--key-file", "wrong", "vol"]).fails(2, "wrong passphrase");
        scratch.atrest(&["cat", "--key-file", "wrong", "vol", "/x"]).fails(2, "wrong passphrase");
        scratch
            .atrest(&["key", "test", "--key-file", "absent", "vol"])
            .fails(1, "absent: there is no such key file");
        scratch
            .atrest(&["key", "test", "--key-file", "key", "-S", "5", "vol"])
            .fails(1, "keyslot 5 holds no key");
        scratch.atrest(&["key", "test", "vol"]).fails(1, "no terminal");
        scratch.file("short", vec![7; 16]);
        scratch.atrest(&["key", "test", "--volume-key-file", "short", "vol"]).fails(2, "volume key");
    }
}

#[test]
fn damage_is_told_from_a_wrong_passphrase() {
    for kind in ["luks1", "luks2"] {
        let scratch = Scratch::with_volume_of(kind);
        let info = scratch.atrest(&["info", "--json", "vol"]).ok().json();
        let area = info["keyslots"][0]["area"]["offset"].as_u64().expect("an offset") as usize;
        let mut bytes = fs::read(scratch.path("vol")).expect("the volume");
        // As a careless `dd` leaves it: zeros in the middle of the keyslot area.
        bytes[area + 4096..area + 65536].fill(0);
        scratch.file("holed", &bytes);
        scratch.atrest(&["key", "test", "--key-file", "key", "holed"]).fails(4, "keyslot 0 is damaged");
    }
}

#[test]
fn a_truncated_image_is_reported_and_not_touched() {
    for kind in ["luks1", "luks2"] {
        let scratch = Scratch::with_volume_of(kind);
        let whole = fs::read(scratch.path("vol")).expect("the volume");
        for len in [1, 8, 512, 600, 4096, 16 << 10, 100_000, 1 << 20] {
            let cut = scratch.file("cut", &whole[..len]);
            let ran = scratch.atrest(&["decrypt", "--key-file", "key", "cut", "plain"]);
            assert!(!scratch.path("plain").exists());
            ran.fails(4, "cut");
            assert_eq!(fs::read(cut).expect("the cut image"), &whole[..len]);
        }
    }
}

#[test]
fn a_damaged_copy_is_used_around_until_repair_mends_it() {
    let scratch = Scratch::with_volume();
    let mut bytes = fs::read(scratch.path("vol")).expect("the volume");
    bytes[0..4096].fill(0xAA);
    scratch.file("vol", &bytes);
    scratch.atrest(&["key", "test", "--key-file", "key", "vol"]).ok();
    assert_eq!(fs::read(scratch.path("vol")).expect("the volume"), bytes, "reading wrote");
    assert!(scratch.atrest(&["info", "vol"]).ok().stdout.contains("DAMAGED"));
    scratch.atrest(&["repair", "vol"]).fails(1, "--yes");
    assert_eq!(fs::read(scratch.path("vol")).expect("the volume"), bytes, "repair wrote unasked");
    let repaired = scratch.atrest(&["repair", "--yes", "--json", "vol"]).ok().json();
    assert_eq!(repaired["repaired"], true);
    assert!(!scratch.atrest(&["info", "vol"]).ok().stdout.contains("DAMAGED"));
    scratch.tool("cryptsetup", &["open", "--test-passphrase", "--key-file", "key", "vol"]).ok();
    assert_eq!(scratch.atrest(&["repair", "--json", "vol"]).ok().json()["repaired"], false);
}

#[test]
fn options_that_no_format_has_are_refused_before_anything_is_made() {
    let scratch = Scratch::new();
    scratch.file("key", "k");
    let format = |more: &[&str]| {
        let mut args = vec!["format", "--size", "20M", "--key-file", "key"];
        if !more.contains(&"--pbkdf") {
            args.extend(CHEAP);
        }
        args.extend(more);
        args.push("vol");
        let ran = scratch.atrest(&args);
        assert!(!scratch.path("vol").exists(), "{more:?} left a file");
        ran
    };
    format(&["--cipher", "rot13-xts-plain64"]).fails(1, "rot13");
    format(&["--cipher", "aes-xts-plain64", "--key-size", "72"]).fails(1, "72 bits");
    format(&["--cipher", "cipher_null-ecb"]).fails(1, "null cipher");
    format(&["--hash", "md5000"]).fails(1, "md5000");
    format(&["--sector-size", "777"]).fails(1, "777");
    format(&["--uuid", "abc"]).fails(1, "UUID");
    format(&["--label", &"x".repeat(48)]).fails(1, "48");
    format(&["--key-slot", "32"]).fails(1, "keyslot 32");
    format(&["--type", "luks1", "--label", "x"]).fails(1, "LUKS2");
    format(&["--type", "luks1", "--pbkdf", "argon2id"]).fails(1, "key derivation");
    format(&["--luks2-metadata-size", "5000"]).fails(1, "5000");
    scratch.atrest(&["format", "--size", "1M", "--key-file", "key", "small"]).fails(4, "bytes");
    assert!(!scratch.path("small").exists());
    scratch.atrest(&["format", "--key-file", "key", "absent"]).fails(4, "--size");
}

#[test]
fn existing_data_is_overwritten_only_on_yes() {
    let scratch = Scratch::with_volume();
    let before = fs::read(scratch.path("vol")).expect("the volume");
    let mut again = vec!["format", "--key-file", "key", "vol"];
    again.extend(CHEAP);
    scratch.atrest(&again).fails(1, "holds a LUKS volume");
    scratch.atrest(&["erase", "vol"]).fails(1, "--yes");
    scratch.atrest(&["key", "remove", "--key-file", "key", "vol"]).fails(1, "last passphrase");
    scratch.atrest(&["key", "kill", "--key-file", "key", "vol", "0"]).fails(1, "last passphrase");
    scratch.atrest(&["key", "export", "--key-file", "key", "vol", "vk"]).fails(1, "--yes");
    assert!(!scratch.path("vk").exists());
    scratch.file("text", "precious");
    scratch
        .atrest(&["format", "--size", "20M", "--key-file", "key", "--yes", "text"])
        .fails(5, "exists already");
    scratch.atrest(&["format", "--key-file", "key", "text"]).fails(1, "text holds data");
    assert_eq!(fs::read(scratch.path("text")).expect("the text"), b"precious");
    assert_eq!(fs::read(scratch.path("vol")).expect("the volume"), before);
    again.push("--yes");
    scratch.atrest(&again).ok();
    assert_ne!(fs::read(scratch.path("vol")).expect("the volume")[..4096], before[..4096]);
    // One hole holds nothing.
    scratch.bash("truncate -s 20M hole").ok();
    let mut hole = vec!["format", "--key-file", "key", "hole"];
    hole.extend(CHEAP);
    scratch.atrest(&hole).ok();
}

#[test]
fn no_permission_ends_with_2() {
    let scratch = Scratch::with_volume();
    scratch.bash("chmod 755 .; chmod 000 vol; cp key k2; chmod 644 k2").ok();
    let as_nobody = if needs::is_root() { "setpriv --reuid 65534 --regid 65534 --clear-groups" } else { "" };
    // The binary may lie where nobody else may look.
    scratch.bash("cp $ATREST ./atrest; chmod 755 atrest").ok();
    scratch.bash(&format!("{as_nobody} ./atrest info vol")).fails(2, "permission denied");
    scratch.bash("chmod 444 vol").ok();
    scratch.bash(&format!("{as_nobody} ./atrest info vol")).ok();
    scratch.bash(&format!("{as_nobody} ./atrest erase --yes vol")).fails(2, "permission denied");
}

#[test]
fn a_full_disk_is_named_and_leaves_no_half_made_file() {
    let scratch = Scratch::with_volume();
    // Files may grow to 2 MiB; the signal that usually ends the process is ignored, so the write fails.
    let limited = |line: &str| scratch.bash(&format!("trap '' XFSZ; ulimit -f 2048; {line}"));
    limited("$ATREST header backup vol backup").fails(4, "no space");
    assert!(!scratch.path("backup").exists());
    limited("$ATREST decrypt --key-file key vol plain").fails(4, "no space is left");
    limited("$ATREST format --size 20M --key-file key --pbkdf-force-iterations 1000 --pbkdf pbkdf2 new")
        .fails(4, "no space is left");
    assert!(!scratch.path("new").exists());
    scratch.bash("$ATREST info vol > /dev/full").fails(4, "no space");
}

#[test]
fn too_little_memory_ends_with_3_before_it_is_taken() {
    let scratch = Scratch::new();
    scratch.file("key", "k");
    let costly = ["--pbkdf", "argon2id", "--pbkdf-memory", "262144", "--pbkdf-force-iterations", "4"];
    scratch.atrest(&[&["format", "--size", "20M", "--key-file", "key", "vol"][..], &costly].concat()).ok();
    scratch.bash("ulimit -v 250000; $ATREST key test --key-file key vol").fails(3, "MiB of memory");
    let format =
        format!("ulimit -v 250000; $ATREST format --size 20M --key-file key new {}", costly.join(" "));
    scratch.bash(&format).fails(3, "MiB of memory");
    assert!(!scratch.path("new").exists());
}

#[test]
fn a_passphrase_opens_also_where_no_thread_can_be_started() {
    let scratch = Scratch::new();
    scratch.file("key", "k");
    let lanes = ["--pbkdf", "argon2id", "--pbkdf-memory", "1024", "--pbkdf-parallel", "4"];
    let format = ["format", "--size", "20M", "--key-file", "key", "vol", "--pbkdf-force-iterations", "4"];
    scratch.atrest(&[&format[..], &lanes].concat()).ok();
    scratch.bash("chmod 755 .; cp $ATREST ./atrest; chmod 755 atrest; chmod 644 key vol").ok();
    // The limit does not hold for root.
    let as_nobody = if needs::is_root() { "setpriv --reuid 65534 --regid 65534 --clear-groups" } else { "" };
    let limited = format!("{as_nobody} prlimit --nproc=1");
    scratch.bash(&format!("{limited} sh -c 'true & wait $!'")).fails(2, "fork");
    scratch.bash(&format!("{limited} ./atrest key test --key-file key vol")).ok();
}

#[test]
fn what_cannot_be_served_is_told_by_its_reason() {
    let scratch = Scratch::with_volume();
    scratch.bash("mkdir full && touch full/x && touch file").ok();
    let open = |face: &[&str]| scratch.atrest(&[&["open", "vol", "--key-file", "key"], face].concat());
    open(&["--nbd", "--name", "../x"]).fails(1, "not a name");
    open(&["--nbd", "file"]).fails(1, "not a socket");
    open(&["--nbd-tcp", "0.0.0.0:0"]).fails(1, "other machines");
    open(&["--fuse", "absent"]).fails(4, "absent");
    open(&["--fuse", "file"]).fails(1, "not a directory");
    open(&["--fuse", "full"]).fails(5, "not empty");
    assert!(!scratch.is_open("vol"));
}

#[test]
fn a_reader_that_goes_away_is_no_error_to_talk_about() {
    let scratch = Scratch::with_volume();
    let ran = scratch.bash("$ATREST info vol | true; echo ${PIPESTATUS[0]}").ok();
    assert_eq!(ran.stderr, "");
}

#[test]
fn no_letter_answers_a_question() {
    let scratch = Scratch::with_volume();
    for name in ["x.img", "raw"] {
        scratch.bash(&format!("truncate -s 4M {name} && mke2fs -q -t ext4 {name}")).ok();
    }
    scratch.bash("$ATREST header backup vol backup").ok();
    scratch.bash("$ATREST encrypt --key-file key x.img vol --yes").ok();
    let all = || ["x.img", "vol", "raw", "backup"].map(|name| fs::read(scratch.path(name)).expect("a file"));
    let before = all();
    let commands: [&[&str]; 8] = [
        &["format", "--key-file", "key", "x.img"],
        &["format", "--key-file", "key", "vol"],
        &["erase", "vol"],
        &["header", "restore", "vol", "backup"],
        &["key", "remove", "--key-file", "key", "vol"],
        &["key", "export", "--key-file", "key", "vol", "vk"],
        &["encrypt", "--key-file", "key", "raw", "vol"],
        &["decrypt", "--key-file", "key", "vol", "x.img"],
    ];
    for command in commands {
        for letters in [&["-y"][..], &["-q"], &["-qy"], &["-q", "-y"]] {
            // What asks for no passphrase has no --verify-passphrase.
            let asks_for_none = matches!(command[0], "erase");
            let says = if asks_for_none && letters.concat().contains('y') {
                "unexpected argument '-y'"
            } else {
                "there is no terminal to ask on"
            };
            scratch.atrest(&[command, letters].concat()).fails(1, says);
            assert!(all() == before, "{command:?} {letters:?} changed something");
            assert!(!scratch.path("vk").exists());
        }
    }
    let asked = scratch.atrest(&["format", "-q", "--key-file", "key", "x.img"]);
    let hint = "pass --yes if that is meant; -q is --quiet here, and answers no question";
    asked.fails(1, hint);
}

#[test]
fn a_header_larger_than_any_file_is_refused() {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    scratch.file("data", [0; 4096]);
    let sizes: [&[&str]; 2] = [
        &["--luks2-metadata-size", "9223372036854775808"],
        &["--luks2-metadata-size", "9223372036854775807", "--luks2-keyslots-size", "2"],
    ];
    for sizes in sizes {
        let command = ["format", "--key-file", "key", "--header", "h", "data"];
        scratch.atrest(&[&command[..], sizes].concat()).fails(1, "larger than any file");
        assert!(!scratch.path("h").exists());
    }
}

#[test]
fn a_key_of_a_fit_whose_file_has_no_text_for_a_name_needs_one() {
    let scratch = Scratch::new();
    scratch.file("kernel", [1; 4096]);
    scratch.bash("openssl genrsa -out key.pem 2048 && mv key.pem $'key\\xff.pem'").ok();
    let build =
        "$ATREST fit build --arch arm64 --load 0x80000 --kernel kernel --sign-key $'key\\xff.pem' -o out";
    scratch.bash(build).fails(1, "--key-name names the key");
    assert!(!scratch.path("out").exists());
    scratch.bash(&format!("{build} --key-name boot")).ok();
}
