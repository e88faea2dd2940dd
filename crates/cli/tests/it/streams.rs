//! `-`: standard input and standard output in pipes, and what can't go through one.

use crate::common::terminal::{Terminal, ends};
use crate::common::{CHEAP, Scratch};
use atrest_testkit::Random;

/// A volume `vol` whose plaintext has 4 MiB, and `raw`, which fits.
fn volume() -> Scratch {
    let scratch = Scratch::with_volume();
    scratch.file("raw", Random::new(5).bytes(4 << 20));
    scratch
}

#[test]
fn what_comes_from_a_pipe_is_in_the_volume() {
    let scratch = volume();
    for len in [1, 100_001, 1 << 20, (1 << 20) + 512, 4 << 20] {
        let before = format!("$ATREST decrypt --yes --key-file key vol before && head -c {len} raw > part");
        scratch.bash(&before).ok();
        let ran = scratch.bash("cat part | $ATREST encrypt --yes --key-file key - vol").ok();
        assert!(ran.stdout.contains(&format!("{len} byte")), "{}", ran.stdout);
        scratch.bash("$ATREST decrypt --yes --key-file key vol after").ok();
        let (before, part, after) = (scratch.read("before"), scratch.read("part"), scratch.read("after"));
        assert!(after[..len] == part && after[len..] == before[len..], "{len} bytes");
    }
    // In small pieces, by a writer that takes its time, and as JSON.
    let slowly = "(for part in 1 2 3; do printf $part; sleep 0.1; done) | $ATREST encrypt --json --yes --key-file key - vol";
    assert_eq!(scratch.bash(slowly).ok().json()["bytes"], 3);
    scratch.bash("$ATREST decrypt --key-file key vol - | head -c 3 | grep -qx 123").ok();
}

#[test]
fn a_stream_that_is_too_long_is_an_error_and_asked_about_first() {
    let scratch = volume();
    scratch.bash("mkfs.ext4 -q -F other 4M && $ATREST encrypt --key-file key other vol").ok();
    scratch.bash("cat raw | $ATREST encrypt --key-file key - vol").fails(1, "holds a filesystem (ext4)");
    scratch.bash("$ATREST decrypt --key-file key vol plain && cmp other plain").ok();
    let long = "(cat raw; echo) | $ATREST encrypt --yes --key-file key - vol";
    let ran = scratch.bash(long).fails(4, "the stream goes on behind the 4194304 bytes");
    assert!(ran.stderr.contains("make a larger volume"), "{}", ran.stderr);
    scratch.bash("$ATREST decrypt --yes --key-file key vol plain && cmp raw plain").ok();
}

#[test]
fn the_plaintext_goes_through_pipes() {
    let scratch = volume();
    scratch.bash("$ATREST encrypt --key-file key raw vol").ok();
    let ran = scratch.bash("$ATREST decrypt --key-file key vol - | cmp - raw").ok();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
    scratch.bash("$ATREST decrypt --key-file key vol - > plain && cmp raw plain").ok();
    // The whole way: out of one volume into another one with another key.
    scratch
        .bash(&format!(
            "echo new > other && $ATREST format --size 20M {} --key-file other second",
            CHEAP.join(" ")
        ))
        .ok();
    scratch
        .bash("set -o pipefail; $ATREST decrypt --key-file key vol - | $ATREST encrypt --key-file other - second")
        .ok();
    scratch.bash("$ATREST decrypt --key-file other second - | cmp - raw").ok();
    // The passphrase comes by a descriptor, the data by standard input.
    scratch.bash("cat raw | $ATREST encrypt --yes --key-file /dev/fd/3 - vol 3< key").ok();
}

#[test]
fn a_reader_that_has_seen_enough_ends_it_without_a_word() {
    let scratch = volume();
    for command in
        ["decrypt --key-file key vol -", "cat --key-file key vol /big", "cp --key-file key vol:/big -"]
    {
        if command.starts_with("cat") {
            scratch
                .bash("truncate -s 4M fat && mkfs.vfat fat && head -c 2M raw > big && mcopy -i fat big ::big")
                .ok();
            scratch.bash("$ATREST encrypt --yes --key-file key fat vol").ok();
        }
        let ran = scratch.bash(&format!("$ATREST {command} | head -c 10 > begin; exit ${{PIPESTATUS[0]}}"));
        assert_eq!((ran.code, ran.stderr.as_str()), (141, ""), "{command}");
        assert_eq!(scratch.read("begin").len(), 10);
    }
    scratch
        .bash("$ATREST decrypt --key-file key vol - > /dev/full")
        .fails(4, "standard output: no space is left");
}

#[test]
fn files_go_into_a_volume_and_out_of_it_through_pipes() {
    let scratch = volume();
    scratch.bash("truncate -s 4M fat && mkfs.vfat fat && $ATREST encrypt --key-file key fat vol").ok();
    scratch.bash("mkdir files && head -c 300000 raw > files/part && cp key files").ok();
    scratch.bash("set -o pipefail; tar c files | $ATREST cp --key-file key - vol:/backup.tar").ok();
    scratch.bash("$ATREST cat --key-file key vol /backup.tar | tar d").ok();
    scratch.bash("$ATREST cp --key-file key vol:/backup.tar - | tar d").ok();
    scratch.bash("$ATREST decrypt --key-file key vol plain && fsck.vfat -n plain").ok();
    scratch.bash("mtype -i plain ::/backup.tar | tar d").ok();

    let short = "echo short | $ATREST cp --key-file key";
    scratch.bash(&format!("{short} - vol:/backup.tar")).fails(5, "/backup.tar: it exists already");
    scratch.bash(&format!("{short} --yes - vol:/backup.tar")).ok();
    assert_eq!(scratch.bash("$ATREST cat --key-file key vol /backup.tar").ok().stdout, "short\n");
    scratch.bash(&format!("{short} - vol:/")).fails(4, "directory");
    scratch.bash(&format!("{short} -r - vol:/x")).fails(1, "without directories");
    scratch.bash("$ATREST cp --key-file key vol:/ -").fails(4, "directory");
    scratch.bash("head -c 5M /dev/zero | $ATREST cp --key-file key - vol:/large").fails(4, "no space");
    assert_eq!(scratch.bash("$ATREST ls --key-file key vol").ok().stdout, "backup.tar\n");

    scratch.bash("mkfs.ext4 -q -F ext4 4M && $ATREST encrypt --yes --key-file key ext4 vol").ok();
    scratch.bash(&format!("{short} - vol:/x")).fails(1, "ext4 can only be read here");
}

#[test]
fn a_volume_on_standard_input_is_a_file() {
    let scratch = volume();
    scratch.bash("mkdir files && echo hello > files/hello && mkfs.ext4 -q -d files ext4 4M").ok();
    scratch.bash("$ATREST encrypt --key-file key ext4 vol").ok();
    scratch.bash("$ATREST decrypt --key-file key - plain < vol && cmp ext4 plain").ok();
    scratch.bash("$ATREST decrypt --key-file key - - < vol | cmp - ext4").ok();
    assert_eq!(scratch.bash("$ATREST cat --key-file key - /hello < vol").ok().stdout, "hello\n");
    let ran = scratch.bash("cat vol | $ATREST cat --key-file key - /hello");
    let ran = ran.fails(1, "can't be read at any place");
    assert!(ran.stderr.contains("< FILE"), "{}", ran.stderr);
}

#[test]
fn a_luks_volume_passes_through_a_pipe_in_order() {
    for kind in ["luks1", "luks2"] {
        let scratch = Scratch::with_volume_of(kind);
        scratch.file("raw", Random::new(5).bytes(4 << 20));
        // A LUKS1 volume of this size holds more.
        scratch
            .bash("$ATREST encrypt --yes --key-file key raw vol && $ATREST decrypt --key-file key vol whole")
            .ok();
        scratch.bash("cat vol | $ATREST decrypt --key-file key - - | cmp - whole").ok();
        scratch.bash("cat vol | $ATREST decrypt --key-file key - new && cmp whole new").ok();
        assert_eq!(scratch.mode("new"), 0o600);
        let again = scratch.bash("cat vol | $ATREST decrypt --key-file key - new");
        again.fails(5, "new: it exists already");
        // In small pieces that come slowly.
        let slowly = "(head -c 5000; sleep 0.1; cat) < vol | dd bs=1000 status=none";
        scratch.bash(&format!("{slowly} | $ATREST decrypt --key-file key - - | cmp - whole")).ok();
        scratch.bash("cat vol | $ATREST decrypt --key-file raw - no").fails(2, "passphrase");
        scratch.bash("cat raw raw raw | $ATREST decrypt --key-file key - no").fails(4, "not a LUKS volume");
        scratch.bash("cat vol | $ATREST decrypt --resume --key-file key - no").fails(1, "can't be resumed");
        let plain = "--type plain --cipher aes-xts-plain64 --key-size 512 --key-file key - no";
        scratch.bash(&format!("cat vol | $ATREST decrypt {plain}")).fails(1, "a LUKS volume alone");
        assert!(!scratch.path("no").exists());
        // One that ends within a data unit (its sector size), and within the header.
        let short = scratch.read("whole").len() - if kind == "luks1" { 512 } else { 4096 };
        let ran = scratch.bash("head -c -100 vol | $ATREST decrypt --key-file key - short");
        ran.fails(4, &format!("only the first {short} bytes of plaintext are there"));
        assert!(scratch.read("short") == scratch.read("whole")[..short]);
        scratch.bash("head -c 3000 vol | $ATREST decrypt --key-file key - no").fails(4, "cut off");
        // The header is whole, and the data would begin later.
        let before_data = if kind == "luks1" { "2097151" } else { "16777215" };
        let ran = scratch.bash(&format!("head -c {before_data} vol | $ATREST decrypt --key-file key - none"));
        ran.fails(4, "only the first 0 bytes of plaintext are there");
    }
    // Its size is in the header.
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse");
    scratch.bash("truncate -s 20M vol").ok();
    scratch.bash("cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 vol key").ok();
    scratch.bash("cat vol | $ATREST decrypt --key-file key - - > piped && $ATREST decrypt --key-file key vol whole").ok();
    scratch.bash("cmp piped whole").ok();
}

#[test]
fn data_and_passphrase_do_not_share_standard_input() {
    let scratch = volume();
    let before = scratch.read("vol");
    for (command, from) in [
        ("encrypt --yes --key-file - - vol", "raw"),
        ("encrypt --yes --key-file /dev/stdin - vol", "raw"),
        ("encrypt --yes --passphrase-fd 0 - vol", "raw"),
        ("encrypt --yes --volume-key-file - - vol", "raw"),
        ("decrypt --key-file - - out", "vol"),
        ("cat --key-file - - /x", "vol"),
        ("cp --key-file - - vol:/x", "raw"),
    ] {
        let ran = scratch.bash(&format!("$ATREST {command} < {from}"));
        let ran = ran.fails(1, "the data and the passphrase can't both come from standard input");
        assert!(ran.stderr.contains("--passphrase-fd N"), "{}", ran.stderr);
    }
    scratch.bash("$ATREST encrypt --yes --resume --key-file key - vol < raw").fails(1, "can't be resumed");
    scratch.bash("$ATREST decrypt --resume --key-file key vol - > out").fails(1, "can't be resumed");
    scratch.bash("$ATREST decrypt --json --key-file key vol - > out").fails(1, "leave --json out");
    assert_eq!(scratch.read("out"), b"");
    assert!(scratch.read("vol") == before);
    // A file of that name has a directory.
    scratch.bash("cp raw ./- && $ATREST encrypt --key-file key ./- vol < /dev/null").ok();
    scratch.bash("rm ./- && $ATREST decrypt --key-file key vol ./- > out && cmp raw ./-").ok();
}

#[test]
fn a_terminal_is_asked_for_the_passphrase_while_data_come_from_a_pipe() {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse");
    let format = ["format", "--size", "20M", "--key-file", "key", "vol"];
    scratch.atrest(&[&format[..], &CHEAP].concat()).ok();
    scratch.file("raw", Random::new(5).bytes(4 << 20));
    let mut bash = scratch.command("bash");
    bash.args(["-c", "cat raw | $0 encrypt - vol", env!("CARGO_BIN_EXE_atrest")]);
    let mut terminal = Terminal::new();
    let child = terminal.start(&bash);
    terminal.shows("assphrase for vol: ");
    terminal.hides();
    terminal.types(b"correct horse\n");
    assert_eq!(ends(child).code(), Some(0));
    scratch.bash("$ATREST decrypt --key-file key vol - | cmp - raw").ok();
}

#[test]
fn a_terminal_gets_no_disk_and_gives_none() {
    let scratch = volume();
    let mut terminal = Terminal::new();
    let child = terminal.start(&scratch.atrest_command(&["decrypt", "--key-file", "key", "vol", "-"]));
    terminal.shows("that is a terminal");
    terminal.shows("--yes");
    assert_eq!(ends(child).code(), Some(1));
    let child =
        terminal.start(&scratch.atrest_command(&["encrypt", "--yes", "--key-file", "key", "-", "vol"]));
    terminal.shows("that is a terminal");
    assert_eq!(ends(child).code(), Some(1));
    // Who insists gets it: its first bytes are zeros, which a terminal does not show.
    scratch.bash("(printf shown; head -c 1M /dev/zero) | $ATREST encrypt --yes --key-file key - vol").ok();
    let child =
        terminal.start(&scratch.atrest_command(&["decrypt", "--yes", "--key-file", "key", "vol", "-"]));
    terminal.shows("shown");
    drop(terminal);
    assert_ne!(ends(child).code(), Some(0), "its terminal went away");
}
