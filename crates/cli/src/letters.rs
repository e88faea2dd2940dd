//! Holds the one-letter options against cryptsetup's: a letter means the same here, or docs/CLI.md says that it does not.
//! People type what they know, and a letter that asks a question there must not destroy anything here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::CommandFactory;

use crate::args::Cli;
use crate::docs::each_command;

/// cryptsetup 2.6.1, `cryptsetup(8)` and `cryptsetup --help`: the long name of every letter.
const CRYPTSETUP: &[(char, &str)] = &[
    ('b', "size"),
    ('B', "block-size"),
    ('c', "cipher"),
    ('d', "key-file"),
    ('h', "hash"),
    ('i', "iter-time"),
    ('I', "integrity"),
    ('l', "keyfile-size"),
    ('M', "type"),
    ('N', "new"),
    ('o', "offset"),
    ('p', "skip"),
    ('q', "batch-mode"),
    ('r', "readonly"),
    ('s', "key-size"),
    ('S', "key-slot"),
    ('t', "timeout"),
    ('T', "tries"),
    ('v', "verbose"),
    ('V', "version"),
    ('y', "verify-passphrase"),
];

/// Letters that mean something else here, and the heading under which docs/CLI.md lists them.
const DECIDED: &[(char, &str)] = &[
    ('h', "help"),
    ('l', "long"),
    ('o', "output"),
    ('p', "parents"),
    ('p', "preserve"),
    ('q', "quiet"),
    ('r', "recursive"),
];
const HEADING: &str = "## Letters that differ from cryptsetup's\n";

/// Options that answer a question in advance or replace what is there: none has a letter.
const DESTROY: &[&str] =
    &["yes", "replace-other-volume", "replace-store", "drop-slot", "drop-others", "token-replace"];

#[test]
fn a_letter_means_what_it_means_to_cryptsetup_or_the_contract_says_that_it_does_not() {
    let theirs: BTreeMap<char, &str> = CRYPTSETUP.iter().copied().collect();
    let mut other = BTreeSet::new();
    let mut same = BTreeSet::new();
    letters(&mut |path, letter, long| {
        assert!(!DESTROY.contains(&long.as_str()), "{path}: -{letter} is short for --{long}, which destroys");
        match theirs.get(&letter) {
            Some(name) if *name == long => same.insert(letter),
            // A letter that cryptsetup does not have can't be mistaken for one of its own.
            None => false,
            Some(_) => other.insert((letter, long)),
        };
    });
    let decided: BTreeSet<_> = DECIDED.iter().map(|(letter, long)| (*letter, String::from(*long))).collect();
    assert_eq!(other, decided, "left: letters that differ from cryptsetup's; right: those that were decided");
    for letter in ['c', 'd', 'i', 's', 'S', 'V', 'y'] {
        assert!(same.contains(&letter), "-{letter} is cryptsetup's, and used to be ours");
    }
}

#[test]
fn the_contract_lists_each_letter_that_differs() {
    let document = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/CLI.md"));
    let document = document.expect("docs/CLI.md");
    let section = document.split_once(HEADING).expect("the heading").1;
    let section = section.split("\n## ").next().expect("the section");
    let theirs: BTreeMap<char, &str> = CRYPTSETUP.iter().copied().collect();
    for (letter, long) in DECIDED {
        let row = format!("| `-{letter}` | `--{long}` | `--{}` |", theirs[letter]);
        assert!(section.contains(&row), "docs/CLI.md does not say: {row}");
    }
    assert_eq!(section.matches("\n| `-").count(), DECIDED.len(), "docs/CLI.md lists others");
}

#[test]
fn the_table_of_letters_is_cryptsetups_own() {
    let help = atrest_testkit::oracle::Program::named("cryptsetup").arg("--help").ok().text();
    let mut told = BTreeSet::new();
    for line in help.lines() {
        let Some((letter, long)) =
            line.trim_start().strip_prefix('-').and_then(|line| line.split_once(", --"))
        else {
            continue;
        };
        let long = long.split([' ', '=']).next().expect("a name");
        if let (Some(letter), true) = (letter.chars().next(), letter.len() == 1 && letter != "?") {
            told.insert((letter, long.to_owned()));
        }
    }
    let table: BTreeSet<_> = CRYPTSETUP.iter().map(|(letter, long)| (*letter, String::from(*long))).collect();
    assert_eq!(told, table, "left: `cryptsetup --help`; right: the table in this file");
}

/// Calls `visit` with each command, letter and long name.
fn letters(visit: &mut dyn FnMut(&str, char, String)) {
    let mut visit_command = |path: &str, command: &clap::Command| {
        for arg in command.get_arguments() {
            let shorts = arg.get_short_and_visible_aliases().unwrap_or_default();
            let all = arg.get_all_short_aliases().unwrap_or_default();
            for letter in shorts.into_iter().chain(all) {
                visit(path, letter, arg.get_long().unwrap_or_default().to_owned());
            }
        }
        for letter in command.get_short_flag().into_iter().chain(command.get_all_short_flag_aliases()) {
            visit(path, letter, String::from("a command"));
        }
    };
    let mut root = Cli::command();
    root.build();
    visit_command("atrest", &root);
    each_command(&mut visit_command);
}
