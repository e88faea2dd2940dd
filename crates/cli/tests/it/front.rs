//! The front door: what a person meets who types at a shell. Completion, colour, the screen of `bench`, and options of another format.

use std::path::Path;

use crate::common::Scratch;
use crate::common::terminal::{Terminal, ends};

#[test]
fn tab_completes_open_volumes_keyslots_and_ciphers_in_bash() {
    let scratch = Scratch::with_volume();
    let name = scratch.session();
    scratch.atrest(&["open", "vol", "--nbd", "--daemon", "--key-file", "key", "--name", &name]).ok();

    let (mut terminal, child) = Terminal::completing_bash(&scratch, &[]);
    for (typed, shown) in [
        ("atrest key kill vol \t", "kill vol 0".to_owned()),
        ("atrest open vol --key-slot=\t", "--key-slot=0".to_owned()),
        ("atrest format -c aes-cbc-e\t", "aes-cbc-essiv:sha256".to_owned()),
        ("atrest format -c aes-cbc-essiv:\t", "essiv:sha256".to_owned()),
        ("atrest reenc\t", "atrest reencrypt".to_owned()),
        ("atrest info --metad\t", "--metadata".to_owned()),
        (&format!("atrest close {}\t", &name[..name.len() - 2])[..], format!("close {name}")),
    ] {
        terminal.completes(typed, &shown);
    }
    terminal.types(b"exit\n");
    assert!(ends(child).success());
    scratch.atrest(&["close", &name]).ok();
    // A volume that is closed is offered no more.
    let told = scratch.atrest(&["complete", "--", "atrest", "close", &name]).ok();
    assert_eq!(told.stdout, "");
}

#[test]
fn completion_asks_nothing_and_says_nothing_where_nothing_is_known() {
    let scratch = Scratch::with_volume();
    scratch.file("noise", [0x5a; 4096]);
    for words in [
        &["atrest", "key", "kill", "noise", ""][..],
        &["atrest", "key", "kill", "missing", ""],
        &["atrest", "key", "kill", ".", ""],
        &["atrest", "open", "vol", "--key-file", ""],
        &["atrest"],
        &[],
        &["atrest", "nothing", "--like", "it"],
    ] {
        let told = scratch.atrest(&[&["complete", "--"], words].concat()).ok();
        assert_eq!((told.stdout.as_str(), told.stderr.as_str()), ("", ""), "{words:?}");
    }
    let slots = scratch.atrest(&["complete", "--json", "--", "atrest", "key", "kill", "vol", ""]).ok().json();
    assert_eq!(slots, serde_json::json!(["0"]));
    let free =
        scratch.atrest(&["complete", "--", "atrest", "key", "add", "vol", "--new-key-slot", ""]).ok().stdout;
    assert_eq!(free, "1\n2\n3\n4\n5\n6\n7\n");
}

/// What a command shows on a terminal of its own.
fn on_a_terminal(scratch: &Scratch, words: &[&str], variables: &[(&str, &str)]) -> Terminal {
    let mut terminal = Terminal::new();
    let mut command = scratch.atrest_command(words);
    command.env("TERM", "xterm").env_remove("NO_COLOR");
    command.envs(variables.iter().copied());
    let child = terminal.start(&command);
    terminal.shows("-h` shows what it takes");
    assert_eq!(ends(child).code(), Some(1));
    terminal
}

#[test]
fn every_error_begins_alike_and_is_coloured_only_where_that_is_wanted() {
    let scratch = Scratch::new();
    let red = "\x1b[1;31matrest:\x1b[0m ";
    assert!(on_a_terminal(&scratch, &["info"], &[]).has_shown(red));
    for variables in [&[("NO_COLOR", "1")][..], &[("TERM", "dumb")]] {
        let terminal = on_a_terminal(&scratch, &["info"], variables);
        assert!(
            terminal.has_shown("atrest: the following required arguments") && !terminal.has_shown("\x1b[")
        );
    }
    // The parser's errors and ours, in a file: no colour, the same beginning.
    for words in [&["info"][..], &["info", "missing"], &["luksOpen", "a", "b"], &["info", "--nothing", "x"]] {
        let told = scratch.atrest(words);
        assert!(told.stderr.starts_with("atrest: ") && !told.stderr.contains("error:"), "{}", told.stderr);
        assert!((1..=2).contains(&told.stderr.lines().count()), "{}", told.stderr);
    }
    let told = scratch.atrest(&["info", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&told.stderr).expect("one line of JSON");
    assert_eq!((told.code, &error["error"]["code"]), (1, &serde_json::json!(1)));
}

#[test]
fn bench_shows_one_screen_of_letters_that_the_locale_has() {
    let scratch = Scratch::new();
    let text = scratch.bash("LC_ALL=C $ATREST bench").ok().stdout;
    assert!((10..=25).contains(&text.lines().count()), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.is_ascii() && text.contains("####"), "{text}");
    scratch.atrest(&["bench", "--all", "--cipher", "aes-ecb"]).fails(1, "--all");
}

#[test]
fn options_of_another_format_are_refused_and_the_message_names_theirs() {
    let scratch = Scratch::with_volume();
    std::fs::create_dir(scratch.path("empty")).expect("a directory");
    for (words, code, says) in [
        (&["open", "vol", "--nbd", "--tcrypt-hidden"][..], 1, "--type tcrypt"),
        (&["open", "vol", "--nbd", "--protect-hidden"], 1, "--type tcrypt"),
        (&["open", "vol", "--nbd", "--iv-large-sectors"], 1, "plain mode"),
        (&["open", "vol", "--nbd", "--without-freshness", "--key-file", "key"], 1, "sealed"),
        (&["open", "vol", "--nbd", "--snapshot", "a", "--key-file", "key"], 1, "sealed volumes"),
        (&["ls", "vol", "--wrapped-passphrase", "x", "--key-file", "key"], 1, "eCryptfs directories"),
        (
            &["mount", "vol", "empty", "--ecryptfs-passthrough", "--key-file", "key"],
            1,
            "eCryptfs directories",
        ),
        (&["format", "new", "--size", "20M", "--store", "s"], 1, "--type sealed"),
        (&["format", "new", "--size", "20M", "--erase-size", "4096"], 1, "--type flash"),
        (&["format", "new", "--size", "20M", "--hidden-size", "1M"], 1, "--type veracrypt"),
        (&["format", "new", "--size", "20M", "--garlic", "4"], 1, "Catena"),
        (&["format", "new", "--size", "20M", "--type", "flash", "--integrity", "hmac-sha256"], 1, "LUKS"),
    ] {
        scratch.atrest(words).fails(code, says);
    }
    assert!(!Path::new(&scratch.path("new")).exists(), "a file was made");
    // An encrypted card has no fscrypt inside.
    scratch.file("master", [7; 32]);
    let card = [
        "format",
        "card",
        "--type",
        "flash",
        "--size",
        "1M",
        "--kdf",
        "pbkdf2",
        "--pbkdf-force-iterations",
        "1000",
        "--key-file",
        "key",
    ];
    scratch.atrest(&card).ok();
    scratch.atrest(&["ls", "card", "--key-file", "key", "--fscrypt-key", "master"]).fails(1, "LittleFS");
    scratch
        .atrest(&["ls", "card", "--key-file", "key", "--wrapped-passphrase", "x"])
        .fails(1, "eCryptfs directories");
}
