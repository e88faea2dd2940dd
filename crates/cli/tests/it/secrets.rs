//! Where passphrases come from: files, parts of files, pipes, descriptors, a terminal.

use crate::common::terminal::{Terminal, ends};
use crate::common::{CHEAP, Scratch};

fn format(scratch: &Scratch, name: &str, secret: &[&str], input: &[u8]) {
    let mut args = vec!["format", "--size", "20M", name];
    args.extend(CHEAP);
    args.extend(secret);
    scratch.atrest_with_input(&args, input).ok();
}

/// cryptsetup must take `passphrase`, byte for byte.
fn opens_in_cryptsetup(scratch: &Scratch, name: &str, passphrase: &[u8]) {
    scratch.file("exact", passphrase);
    scratch.tool("cryptsetup", &["open", "--test-passphrase", "--key-file", "exact", name]).ok();
}

#[test]
fn each_source_gives_exactly_the_bytes_that_the_contract_says() {
    let scratch = Scratch::new();
    scratch.file("key", "0123456789\n");
    format(&scratch, "a", &["--key-file", "key"], b"");
    opens_in_cryptsetup(&scratch, "a", b"0123456789\n");
    format(&scratch, "b", &["--key-file", "-"], b"over stdin\n");
    opens_in_cryptsetup(&scratch, "b", b"over stdin\n");
    format(&scratch, "c", &["--passphrase-fd", "0"], b"over fd\n");
    opens_in_cryptsetup(&scratch, "c", b"over fd");
    format(&scratch, "d", &["--key-file", "key", "--keyfile-offset", "2", "--keyfile-size", "4"], b"");
    opens_in_cryptsetup(&scratch, "d", b"2345");
    format(&scratch, "e", &["--key-file", "-", "--keyfile-offset", "3", "--keyfile-size", "2"], b"abcdefgh");
    opens_in_cryptsetup(&scratch, "e", b"de");
    format(&scratch, "f", &["--passphrase-fd", "0"], b"two lines\nstay\n\n");
    opens_in_cryptsetup(&scratch, "f", b"two lines\nstay\n");
}

#[test]
fn any_descriptor_can_carry_a_passphrase() {
    let scratch = Scratch::with_volume();
    scratch.bash("$ATREST key test --passphrase-fd 7 vol 7< <(cat key; echo)").ok();
    scratch.bash("$ATREST key test --passphrase-fd 3 vol 3<<< 'correct horse'").fails(2, "wrong passphrase");
    let cheap = CHEAP.join(" ");
    scratch
        .bash(&format!("$ATREST key add vol --key-file key --new-passphrase-fd 4 {cheap} 4<<< second"))
        .ok();
    scratch.bash("$ATREST key test --passphrase-fd 9 vol 9<<< second").ok();
    scratch.atrest(&["key", "test", "--passphrase-fd", "77", "vol"]).fails(1, "77 is not open");
    scratch
        .atrest(&["key", "add", "--key-file", "-", "--new-passphrase-fd", "0", "vol"])
        .fails(1, "standard input");
}

#[test]
fn key_files_that_cannot_be_right_are_refused() {
    let scratch = Scratch::with_volume();
    scratch.file("empty", "");
    scratch.file("large", vec![1; (8 << 20) + 1]);
    let test = |args: &[&str]| scratch.atrest(&[&["key", "test", "vol"], args].concat());
    test(&["--key-file", "empty"]).fails(1, "is it the right file");
    test(&["--key-file", "absent"]).fails(1, "asked for on the terminal");
    test(&["--key-file", "large"]).fails(1, "at most 8388608");
    test(&["--key-file", "."]).fails(1, "directory");
    test(&["--key-file", "key", "--keyfile-size", "500"]).fails(1, "ends after 14 of 500 bytes");
    test(&["--key-file", "key", "--keyfile-offset", "500"]).fails(1, "--keyfile-offset not too large");
    test(&["--key-file", "large", "--keyfile-size", "100"]).fails(2, "wrong passphrase");
    scratch.bash("chmod 644 key").ok();
    test(&["--key-file", "key"]).ok().fails(0, "every user can read the key file");
    assert_eq!(test(&["--key-file", "key", "--quiet"]).ok().stderr, "");
}

#[test]
fn nothing_to_read_is_no_passphrase() {
    let scratch = Scratch::with_volume();
    let says = "nothing can be read from file descriptor";
    scratch.bash("$ATREST key test --passphrase-fd 0 vol <&-").fails(1, says);
    scratch.bash("$ATREST key test --passphrase-fd 0 vol </dev/null").fails(1, says);
    scratch.bash("$ATREST key test --passphrase-fd 3 vol 3</dev/null").fails(1, says);
    scratch.bash("$ATREST key test --key-file - vol </dev/null").fails(1, "empty");
    // An empty line is an empty passphrase.
    scratch.bash("echo | $ATREST key test --passphrase-fd 0 vol").fails(2, "wrong passphrase");
}

#[test]
fn a_command_does_not_get_what_the_passphrase_came_from() {
    let scratch = Scratch::with_volume();
    let run = |secret: &str, child: &str, from: &str| {
        scratch.bash(&format!("$ATREST open vol --nbd {secret} --run bash -c '{child}' {from}"))
    };
    // `--passphrase-fd` leaves one newline out.
    scratch.file("line", "correct horse\n\n");
    for (secret, child, from) in [
        ("--passphrase-fd 3", "cat /proc/self/fd/3; echo ran", "3<line"),
        ("--key-file /dev/fd/3", "cat /proc/self/fd/3; echo ran", "3<key"),
        ("--key-file -", "cat /proc/self/fd/0; echo ran", "<key"),
        ("--passphrase-fd 0", "cat /proc/self/fd/0; echo ran", "<line"),
    ] {
        let ran = run(secret, child, from);
        assert!(!ran.stdout.contains("correct horse"), "{secret} {from}: {}", ran.stdout);
        assert!(ran.stdout.contains("ran"), "{secret} {from}: {}", ran.stderr);
    }
}

/// At each question a line is typed; then the program says this and ends with this code.
#[track_caller]
fn at_a_terminal(
    scratch: &Scratch,
    args: &[&str],
    typed: &[(&str, &str)],
    says: &str,
    code: i32,
) -> Terminal {
    let mut terminal = Terminal::new();
    let child = terminal.start(&scratch.atrest_command(args));
    for (question, line) in typed {
        terminal.shows(question);
        terminal.shows(": ");
        terminal.types(format!("{line}\n").as_bytes());
    }
    terminal.shows(says);
    assert_eq!(ends(child).code(), Some(code));
    terminal
}

#[test]
fn a_terminal_asks_twice_for_a_new_passphrase_and_never_shows_it() {
    let scratch = Scratch::new();
    let format = [&["format", "--size", "20M", "vol"][..], &CHEAP].concat();
    let twice = |second| [("New passphrase for vol", "open sesame"), ("once more", second)];
    let terminal = at_a_terminal(&scratch, &format, &twice("open sesamE"), "the two passphrases differ", 2);
    assert!(!terminal.has_shown("sesam"));
    assert!(!scratch.path("vol").exists());
    let terminal = at_a_terminal(&scratch, &format, &twice("open sesame"), "vol", 0);
    assert!(!terminal.has_shown("sesam"));
    assert!(scratch.path("vol").exists());
    let test = ["key", "test", "vol"];
    let again = "try again";
    let tries = [("for vol", "one"), (again, "two"), (again, "open sesame")];
    at_a_terminal(&scratch, &test, &tries, "keyslot 0", 0);
    let tries = [("for vol", "one"), (again, "two"), (again, "three")];
    at_a_terminal(&scratch, &test, &tries, "wrong passphrase", 2);
    opens_in_cryptsetup(&scratch, "vol", b"open sesame");
}

#[test]
fn a_terminal_must_say_yes_in_capitals() {
    let scratch = Scratch::with_volume();
    let asks = "Type YES in capital letters";
    at_a_terminal(&scratch, &["erase", "vol"], &[(asks, "yes")], "not confirmed", 1);
    scratch.atrest(&["key", "test", "--key-file", "key", "vol"]).ok();
    at_a_terminal(&scratch, &["erase", "vol"], &[(asks, "YES")], "1 keyslot wiped", 0);
    scratch.atrest(&["key", "test", "--key-file", "key", "vol"]).fails(1, "erased");
}

#[test]
fn an_offset_counts_from_where_standard_input_stands() {
    let scratch = Scratch::with_volume();
    scratch.file("stream", b"headerskipcorrect horse\n");
    let test = "$ATREST key test --key-file - --keyfile-offset 4 vol";
    scratch.bash(&format!("{{ dd bs=6 count=1 status=none > /dev/null; {test}; }} < stream")).ok();
}
