//! Holds the help of every command: short, narrow, with examples that the parser takes.

use clap::Command;

use super::*;
use crate::docs::each_command;

const LINES: usize = 40;
const COLUMNS: usize = 100;

/// The names of all commands, groups among them.
fn paths() -> Vec<String> {
    let mut paths = vec!["atrest".to_owned()];
    each_command(&mut |path, _| paths.push(path.to_owned()));
    paths
}

/// What is printed for these words.
fn printed(words: &[&str]) -> String {
    printed_in(COLUMNS, words)
}

fn printed_in(columns: usize, words: &[&str]) -> String {
    let definitions = shaped(Cli::command(), columns);
    definitions.try_get_matches_from(words).expect_err("help").render().to_string()
}

#[test]
fn the_short_help_of_every_command_fits_a_screen_and_has_two_examples() {
    let mut faults = Vec::new();
    for path in paths() {
        let words: Vec<&str> = path.split(' ').chain(["-h"]).collect();
        let text = printed(&words);
        let (lines, columns) =
            (text.lines().count(), text.lines().map(|line| line.chars().count()).max().unwrap_or(0));
        if lines > LINES || columns > COLUMNS {
            faults.push(format!("{path} -h: {lines} lines of {columns} columns"));
        }
        let shown = text.split_once("Examples:\n").map_or("", |(_, shown)| shown);
        let count = shown
            .lines()
            .filter(|line| line.starts_with("  "))
            .map(examples_parse)
            .sum::<Result<usize, String>>()
            .unwrap_or_else(|error| {
                faults.push(error);
                2
            });
        if count < 2 {
            faults.push(format!("{path} -h: {count} examples"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn on_a_narrow_screen_what_a_command_does_stands_under_its_name() {
    let text = printed_in(40, &["atrest", "-h"]);
    assert!(
        text.contains("\n  format\n      Make a volume, a flash card or a\n      sealed volume\n"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
}

#[test]
fn the_first_examples_of_a_command_fit_a_line() {
    each_command(&mut |path, definition| {
        for example in examples(definition).iter().take(2) {
            assert!(example.chars().count() <= COLUMNS - 2, "{path}: {example}");
        }
    });
}

#[test]
fn the_long_help_has_every_option_and_its_examples_are_taken() {
    each_command(&mut |path, definition: &Command| {
        let words: Vec<&str> = path.split(' ').chain(["--help"]).collect();
        let text = printed(&words);
        for arg in definition.get_arguments().filter(|arg| !arg.is_hide_set()) {
            if let Some(long) = arg.get_long() {
                assert!(text.contains(&format!("--{long}")), "{path} --help has no --{long}");
            }
        }
        for example in examples(definition) {
            examples_parse(&example).unwrap_or_else(|error| panic!("{error}"));
        }
    });
}

#[test]
fn options_of_special_formats_stand_in_groups_of_their_own() {
    let short = printed(&["atrest", "open", "-h"]);
    let long = printed(&["atrest", "open", "--help"]);
    for option in [
        "--tcrypt-hidden",
        "--veracrypt-pim",
        "--protect-hidden",
        "--single-snapshot",
        "--store",
        "--assume-torn",
        "--iv-large-sectors",
    ] {
        assert!(!short.contains(option), "open -h shows {option}");
        let (before, _) = long.split_once(option).unwrap_or_else(|| panic!("open --help has no {option}"));
        let heading = before.lines().rfind(|line| line.ends_with(':') && !line.starts_with(' '));
        assert!(
            heading.is_some_and(|heading| heading.contains("--type")
                || heading.contains("ealed")
                || heading.contains("Expected")
                || heading.contains("Volume")),
            "{option} stands under {heading:?}"
        );
    }
}

#[test]
fn a_narrow_terminal_gets_whole_words() {
    for words in [&["atrest", "-h"][..], &["atrest", "open", "-h"], &["atrest", "key", "add", "-h"]] {
        let told = printed_in(40, words);
        let usage_and_examples = |line: &&str| !line.contains("atrest") && !line.starts_with("Usage");
        for line in told.lines().filter(usage_and_examples) {
            let longest = line.split(' ').map(str::len).max().unwrap_or(0);
            assert!(line.chars().count() <= 40.max(longest + 10), "{line}");
        }
    }
}
