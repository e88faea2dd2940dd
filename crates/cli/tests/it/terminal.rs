//! The question for a passphrase, on a terminal of the test's own: which bytes count, and what is left behind.

use crate::common::terminal::{Terminal, ends};
use crate::common::{CHEAP, Scratch};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

/// A volume that opens with these bytes.
fn volume(passphrase: &[u8]) -> Scratch {
    let scratch = Scratch::new();
    scratch.file("key", passphrase);
    let args = ["format", "--size", "20M", "--key-file", "key", "vol"];
    scratch.atrest(&[&args[..], &CHEAP].concat()).ok();
    scratch
}

#[test]
fn every_typed_byte_counts() {
    let passphrase = b"a\tb\xe9c\x1b[A\xff\xc3";
    let scratch = volume(passphrase);
    let mut terminal = Terminal::new();
    for program in ["atrest", "cryptsetup"] {
        let child = if program == "atrest" {
            terminal.start(&scratch.atrest_command(&["key", "test", "vol"]))
        } else {
            let mut peer = scratch.command("cryptsetup");
            terminal.start(peer.args(["open", "--test-passphrase", "vol"]))
        };
        terminal.shows("assphrase for");
        terminal.shows(": ");
        terminal.hides();
        terminal.types(passphrase);
        terminal.types(b"\n");
        assert_eq!(ends(child).code(), Some(0), "{program}");
        assert!(terminal.echoes(), "{program}");
    }
}

#[test]
fn somebody_who_types_nothing_is_waited_for_as_long_as_cryptsetup_waits() {
    let scratch = volume(b"secret");
    std::fs::create_dir(scratch.path("named")).expect("made");
    symlink(env!("CARGO_BIN_EXE_atrest"), scratch.path("named/cryptsetup")).expect("a link");
    let ours = scratch.path("named/cryptsetup").display().to_string();
    for program in ["cryptsetup", &ours] {
        let mut terminal = Terminal::new();
        let mut command = scratch.command(program);
        let begun = Instant::now();
        let child = terminal.start(command.args(["open", "--test-passphrase", "--timeout", "1", "vol"]));
        terminal.shows(": ");
        terminal.hides();
        assert_eq!(ends(child).code(), Some(1), "{program}");
        assert!(begun.elapsed() >= Duration::from_secs(1), "{program} waits");
        assert!(terminal.echoes(), "{program}");
    }
}

#[test]
fn a_signal_ends_it_only_after_echo_is_on_again() {
    let scratch = volume(b"secret");
    let signals: [(i32, &[u8]); 6] = [(2, b"\x03"), (3, b"\x1c"), (2, b""), (3, b""), (15, b""), (1, b"")];
    for (signal, key) in signals {
        let mut terminal = Terminal::new();
        let before = terminal.modes().local_modes;
        let child = terminal.start(&scratch.atrest_command(&["key", "test", "vol"]));
        terminal.shows(": ");
        assert!(!terminal.echoes());
        terminal.types(b"half a pass");
        if key.is_empty() {
            scratch.tool("kill", &[&format!("-{signal}"), &child.id().to_string()]).ok();
        } else {
            terminal.types(key);
        }
        let status = ends(child);
        assert_eq!(status.signal(), Some(signal), "{status}");
        assert_eq!(terminal.modes().local_modes, before, "after signal {signal}");
        assert_eq!(terminal.left(), 0, "after signal {signal}");
    }
}

#[test]
fn a_stopped_question_is_asked_again() {
    let scratch = volume(b"secret");
    let mut terminal = Terminal::new();
    let mut shell = scratch.command("bash");
    let line = "set -m; $ATREST key test vol; stty -a; echo stopped; fg; echo code $?";
    shell.args(["-c", line]).env("ATREST", env!("CARGO_BIN_EXE_atrest"));
    let child = terminal.start(&shell);
    terminal.shows("for vol: ");
    terminal.types(b"wrong\x1a");
    terminal.shows(" echo ");
    terminal.shows("stopped");
    terminal.shows("for vol: ");
    assert!(!terminal.echoes());
    terminal.types(b"secret\n");
    terminal.shows("code 0");
    assert_eq!(ends(child).code(), Some(0));
    assert!(terminal.echoes());
}

#[test]
fn a_typed_passphrase_has_512_bytes_at_most() {
    let scratch = volume(&[b'x'; 512]);
    for (len, code) in [(512, 0), (513, 1), (2000, 1)] {
        let mut terminal = Terminal::new();
        let child = terminal.start(&scratch.atrest_command(&["key", "test", "vol"]));
        terminal.shows(": ");
        terminal.types(&vec![b'x'; len]);
        terminal.types(b"\n");
        assert_eq!(ends(child).code(), Some(code), "{len} bytes");
        assert!(terminal.echoes());
        assert_eq!(terminal.left(), 0, "of {len} bytes");
    }
}

#[test]
fn the_end_of_input_is_no_passphrase() {
    let scratch = volume(b"secret");
    let mut terminal = Terminal::new();
    let child = terminal.start(&scratch.atrest_command(&["key", "test", "vol"]));
    terminal.shows(": ");
    terminal.types(b"\x04");
    terminal.shows("no passphrase was typed");
    assert_eq!(ends(child).code(), Some(1));
    assert!(terminal.echoes());
}

#[test]
fn typed_words_are_brought_into_their_normal_form() {
    let scratch = volume(b"abandon act zoo actress");
    let tries: [(&[&str], &[u8], i32); 4] = [
        (&["--words"], b"abandon act zoo actress\n", 0),
        (&["--words"], b"  ABAN act\tZoo   actres \n", 0),
        // Without the option the bytes are the passphrase.
        (&[], b"abandon act zoo actress\n", 0),
        (&[], b"aban act zoo actr\n", 1),
    ];
    for (options, typed, code) in tries {
        let mut terminal = Terminal::new();
        let child = terminal.start(&scratch.atrest_command(&[&["key", "test", "vol"], options].concat()));
        terminal.shows("for vol: ");
        terminal.hides();
        terminal.types(typed);
        if code != 0 {
            // It opened nothing, so it is asked for again.
            terminal.shows("for vol: ");
            terminal.hides();
            terminal.types(b"\x04");
        }
        assert_eq!(ends(child).code(), Some(code), "{}", String::from_utf8_lossy(typed));
        assert!(terminal.echoes());
    }
}

#[test]
fn a_typed_word_that_is_none_is_named_by_its_place() {
    let scratch = volume(b"abandon act zoo actress");
    let mut terminal = Terminal::new();
    let child = terminal.start(&scratch.atrest_command(&["key", "test", "--words", "vol"]));
    terminal.shows("for vol: ");
    terminal.hides();
    terminal.types(b"abandon act zoo actros\n");
    terminal.shows("word 4 is not in the list of words");
    // This standard error is the terminal.
    terminal.shows("did you mean \"across\", \"action\" or \"actor\"?");
    // It is asked for again, until nothing is typed.
    terminal.shows("for vol: ");
    terminal.hides();
    terminal.types(b"\x04");
    assert_eq!(ends(child).code(), Some(1));

    let mut terminal = Terminal::new();
    let mut shell = scratch.command("bash");
    shell.args(["-c", "$ATREST key test --words vol 2> log; echo code $?"]);
    shell.env("ATREST", env!("CARGO_BIN_EXE_atrest"));
    let child = terminal.start(&shell);
    terminal.shows("for vol: ");
    terminal.hides();
    terminal.types(b"abandon act zoo actros\n");
    terminal.shows("for vol: ");
    terminal.hides();
    terminal.types(b"\x04");
    terminal.shows("code 1");
    assert_eq!(ends(child).code(), Some(0));
    let log = std::fs::read_to_string(scratch.path("log")).expect("text");
    assert!(log.contains("word 4 is not"), "{log}");
    assert!(["across", "action", "actros"].iter().all(|word| !log.contains(word)), "{log}");
}

#[test]
fn new_words_are_compared_in_their_normal_form() {
    let scratch = volume(b"secret");
    let mut terminal = Terminal::new();
    let args = ["key", "add", "vol", "--key-file", "key", "--new-words"];
    let child = terminal.start(&scratch.atrest_command(&[&args[..], &CHEAP].concat()));
    for typed in [&b"zoo ZONE aban\n"[..], b"zoo zone   abandon\n"] {
        terminal.shows(": ");
        terminal.hides();
        terminal.types(typed);
    }
    assert_eq!(ends(child).code(), Some(0));
    scratch.file("words", b"zoo zone abandon");
    scratch.atrest(&["key", "test", "vol", "--key-file", "words"]).ok();
}

#[test]
fn a_made_passphrase_is_words_of_the_list_and_says_what_it_is_worth() {
    let scratch = Scratch::new();
    let text = scratch.atrest(&["passphrase"]).ok();
    let words: Vec<_> = text.stdout.trim_end().split(' ').collect();
    assert_eq!(words.len(), 10);
    let list = include_str!("../../../kdf/src/words/english.txt");
    assert!(words.iter().all(|word| list.lines().any(|listed| listed == *word)), "{words:?}");
    assert!(text.stderr.contains("10 words, 110 bits of entropy"), "{}", text.stderr);
    let json = scratch.atrest(&["passphrase", "--words", "12", "--json"]).ok();
    let start = json.stdout.strip_prefix("{\"passphrase\":\"").expect("JSON");
    let (words, rest) = start.split_once('"').expect("JSON");
    assert_eq!(words.split(' ').count(), 12);
    assert_eq!(rest, ",\"words\":12,\"entropy_bits\":132}\n");
    assert_ne!(scratch.atrest(&["passphrase"]).ok().stdout, text.stdout);
    scratch.atrest(&["passphrase", "--words", "5"]).fails(1, "words");
}

#[test]
fn a_wrong_passphrase_can_be_typed_three_times() {
    let scratch = volume(b"secret");
    for commands in [["key", "test", "vol"], ["ls", "vol", "/"]] {
        let mut terminal = Terminal::new();
        let child = terminal.start(&scratch.atrest_command(&commands));
        for left in [2, 1, 0] {
            terminal.shows("Passphrase for vol: ");
            terminal.hides();
            terminal.types(b"wrong\n");
            if left > 0 {
                terminal.shows("no keyslot opens with this passphrase; try again");
            }
        }
        terminal.shows("wrong passphrase: no keyslot opens with it");
        assert_eq!(ends(child).code(), Some(2), "{commands:?}");
    }
}

#[test]
fn the_passphrase_of_a_protector_is_asked_for_again_if_it_is_wrong() {
    let scratch = Scratch::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tree/tests/protectors/make.sh");
    scratch.bash(&format!("unshare --mount --propagation private bash '{script}' \"$PWD\"")).ok();
    let mut terminal = Terminal::new();
    let cat = ["cat", "data.img", "/custom/file", "--fscrypt-protector", "mine"];
    let child = terminal.start(&scratch.atrest_command(&cat));
    for typed in ["correct horse \n", "correct horse\n"] {
        terminal.shows("Passphrase of protector ");
        terminal.shows(" (passphrase \"mine\"): ");
        terminal.hides();
        terminal.types(typed.as_bytes());
    }
    terminal.shows("what custom holds");
    assert!(ends(child).success());
}

#[test]
fn verify_passphrase_asks_twice_and_stops_where_the_two_differ() {
    let scratch = volume(b"secret");
    let plain = ["--type", "plain", "-c", "aes-xts-plain64", "-s", "256", "--hash", "sha256"];
    scratch.bash("truncate -s 1M plain").ok();
    let decrypt = [&["decrypt", "plain", "out"][..], &plain].concat();
    let cases: [(&[&str], i32); 2] = [(&["key", "test", "vol"], 0), (&decrypt, 0)];
    for (args, code) in cases {
        for letter in ["-y", "--verify-passphrase"] {
            let typed = [args, &[letter]].concat();
            let mut terminal = Terminal::new();
            let child = terminal.start(&scratch.atrest_command(&typed));
            for prompt in ["Passphrase for ", " once more: "] {
                terminal.shows(prompt);
                terminal.hides();
                terminal.types(b"secret\n");
            }
            assert_eq!(ends(child).code(), Some(code), "{typed:?}");
            scratch.bash("rm -f out").ok();

            let mut terminal = Terminal::new();
            let child = terminal.start(&scratch.atrest_command(&typed));
            for (prompt, line) in [("Passphrase for ", "secret\n"), (" once more: ", "Secret\n")] {
                terminal.shows(prompt);
                terminal.hides();
                terminal.types(line.as_bytes());
            }
            terminal.shows("the two passphrases differ; nothing was changed");
            assert_eq!(ends(child).code(), Some(2), "{typed:?}");
            assert!(!scratch.path("out").exists());
        }
        // Without it, once.
        let mut terminal = Terminal::new();
        let child = terminal.start(&scratch.atrest_command(args));
        terminal.shows("Passphrase for ");
        terminal.hides();
        terminal.types(b"secret\n");
        assert_eq!(ends(child).code(), Some(code), "{args:?}");
        scratch.bash("rm -f out").ok();
    }
}

#[test]
fn verify_passphrase_answers_no_question() {
    let scratch = Scratch::new();
    scratch.bash("truncate -s 20M x.img && mke2fs -q -t ext4 x.img").ok();
    let before = std::fs::read(scratch.path("x.img")).expect("the image");
    let mut terminal = Terminal::new();
    let child = terminal.start(&scratch.atrest_command(&["format", "-y", "x.img"]));
    terminal.shows("Type YES in capital letters to go on: ");
    terminal.types(b"y\n");
    terminal.shows("not confirmed; nothing was changed");
    assert_eq!(ends(child).code(), Some(1));
    assert!(std::fs::read(scratch.path("x.img")).expect("the image") == before);
}

/// How often a key is derived with the memory that the volume asks for, by what the system is asked to map.
fn derivations(trace: &str) -> usize {
    let whole = |line: &&str| {
        let len =
            line.split_once("mmap(NULL, ").and_then(|(_, rest)| rest.split_once(',')).map(|(len, _)| len);
        // Memory that is used, and of a size that nothing else has.
        line.contains("PROT_READ|PROT_WRITE")
            && len
                .and_then(|len| len.parse::<u64>().ok())
                .is_some_and(|len| (69 << 20..70 << 20).contains(&len))
    };
    trace.lines().filter(whole).count()
}

#[test]
fn what_is_typed_is_derived_no_more_often_than_needed() {
    let costly = [
        "--pbkdf",
        "argon2id",
        "--pbkdf-memory",
        "70656",
        "--pbkdf-parallel",
        "1",
        "--pbkdf-force-iterations",
        "4",
    ];
    let scratch = Scratch::new();
    scratch.file("key", b"secret");
    scratch.atrest(&[&["format", "--size", "20M", "--key-file", "key", "vol"][..], &costly].concat()).ok();
    let add = [&["key", "add", "vol"][..], &costly].concat();
    // What is typed at which question, and how many passphrases there are to derive.
    let runs: [(&[&str], &[&str], usize); 4] = [
        (&["key", "test", "vol"], &["secret"], 1),
        (&add, &["secret", "second", "second"], 2),
        (&["key", "kill", "vol", "1"], &["secret"], 1),
        (&["key", "export", "vol", "exported", "--yes"], &["secret"], 1),
    ];
    for (args, typed, expected) in runs {
        let mut traced = scratch.command("strace");
        traced
            .args(["-f", "-qq", "-o", "trace", "-e", "trace=mmap", env!("CARGO_BIN_EXE_atrest")])
            .args(args);
        let mut terminal = Terminal::new();
        let child = terminal.start(&traced);
        for line in typed {
            terminal.shows(": ");
            terminal.hides();
            terminal.types(format!("{line}\n").as_bytes());
        }
        assert_eq!(ends(child).code(), Some(0), "{args:?}");
        let trace = std::fs::read_to_string(scratch.path("trace")).expect("a trace");
        assert_eq!(derivations(&trace), expected, "{args:?}");
    }
}
