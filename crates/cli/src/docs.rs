//! Holds docs/CLI.md and the clap definitions together: the reference part of the document is exactly what
//! [`reference`] makes of the definitions. `ATREST_BLESS=1 cargo test -p atrest-cli docs` writes it anew.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};

use crate::args::Cli;

const BEGIN: &str = "<!-- reference: begin (written by the test in crates/cli/src/docs.rs) -->\n";
const END: &str = "<!-- reference: end -->\n";

#[test]
fn the_published_reference_lists_every_command_and_option() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/CLI.md");
    let document = std::fs::read_to_string(&path).expect("docs/CLI.md can be read");
    let (head, rest) = document.split_once(BEGIN).expect("docs/CLI.md has the begin marker");
    let (published, tail) = rest.split_once(END).expect("docs/CLI.md has the end marker");
    let defined = reference();
    if std::env::var_os("ATREST_BLESS").is_some() {
        std::fs::write(&path, format!("{head}{BEGIN}{defined}{END}{tail}"))
            .expect("docs/CLI.md can be written");
    } else {
        assert!(
            published == defined,
            "docs/CLI.md differs from the definitions; run with ATREST_BLESS=1 and look"
        );
    }
}

#[test]
fn every_command_explains_itself_and_shows_an_example() {
    each_command(&mut |path, command| {
        assert!(command.get_about().is_some(), "{path} says nothing about itself");
        if command.get_subcommands().next().is_none() {
            let examples = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            assert!(examples.contains("Examples:\n  ") && examples.contains(path), "{path} has no example");
        }
        for arg in own_args(command) {
            assert!(arg.get_help().is_some(), "{path}: {} is not explained", arg.get_id());
        }
    });
    Cli::command().debug_assert();
}

#[test]
fn no_option_takes_a_secret() {
    each_command(&mut |path, command| {
        for long in command.get_arguments().filter_map(Arg::get_long) {
            assert!(!["passphrase", "password", "key", "volume-key"].contains(&long), "{path} --{long}");
        }
    });
}

/// The reference part of docs/CLI.md.
fn reference() -> String {
    let mut out = String::new();
    let mut shared: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    each_command(&mut |path, command| {
        if command.get_subcommands().next().is_some() {
            return;
        }
        let _ = writeln!(
            out,
            "### {path}\n\n{}\n",
            command.get_about().map(ToString::to_string).unwrap_or_default()
        );
        let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for arg in own_args(command) {
            match arg.get_help_heading() {
                None => {
                    let _ = writeln!(out, "* `{}` {}", synopsis(arg), help(arg));
                }
                Some(heading) => {
                    groups
                        .entry(heading)
                        .or_default()
                        .push(format!("`--{}`", arg.get_long().unwrap_or_default()));
                    shared.entry(String::from(heading)).or_default().insert(synopsis(arg), help(arg));
                }
            }
        }
        for (heading, names) in groups {
            let _ = writeln!(out, "* {heading}: {}", names.join(" "));
        }
        out.push('\n');
    });
    out.push_str("### Options shared by several commands\n\n");
    for (heading, options) in shared {
        let _ = writeln!(out, "{heading}:\n");
        for (synopsis, help) in options {
            let _ = writeln!(out, "* `{synopsis}` {help}");
        }
        out.push('\n');
    }
    let _ = writeln!(out, "Global options:\n");
    for arg in Cli::command().get_arguments().filter(|arg| arg.is_global_set()) {
        let _ = writeln!(out, "* `{}` {}", synopsis(arg), help(arg));
    }
    out.push('\n');
    out.lines().map(wrapped).collect()
}

/// The longest line of a page.
const WIDTH: usize = 120;

/// A line of Markdown as several, of which the later ones go on with an item of a list.
fn wrapped(line: &str) -> String {
    let (mut out, mut length) = (String::new(), 0);
    let indent = if line.starts_with("* ") { "  " } else { "" };
    for (number, word) in line.split(' ').enumerate() {
        let width = word.chars().count();
        // A line must not begin with what begins a list or a heading.
        let begins_something = ["-", "+", "*"].contains(&word)
            || word.starts_with(['#', '|', '>'])
            || word.trim_end_matches(['.', ')']).parse::<u32>().is_ok();
        if number > 0 && length + 1 + width > WIDTH - 4 && !begins_something {
            out.push('\n');
            out.push_str(indent);
            length = indent.len();
        } else if number > 0 {
            out.push(' ');
            length += 1;
        }
        out.push_str(word);
        length += width;
    }
    out.push('\n');
    out
}

/// Calls `visit` with each command and its full name, without clap's own `help`.
pub(crate) fn each_command(visit: &mut dyn FnMut(&str, &Command)) {
    fn walk(path: &str, command: &Command, visit: &mut dyn FnMut(&str, &Command)) {
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            let path = format!("{path} {}", sub.get_name());
            visit(&path, sub);
            walk(&path, sub, visit);
        }
    }
    let mut root = Cli::command();
    root.build();
    walk("atrest", &root, visit);
}

fn own_args(command: &Command) -> impl Iterator<Item = &Arg> {
    command
        .get_arguments()
        .filter(|arg| !arg.is_global_set() && !["help", "version"].contains(&arg.get_id().as_str()))
}

fn synopsis(arg: &Arg) -> String {
    let values: Vec<&str> =
        arg.get_value_names().unwrap_or_default().iter().map(|name| name.as_str()).collect();
    let takes_values = arg.get_num_args().is_some_and(|range| range.max_values() > 0);
    let possible: Vec<String> =
        arg.get_possible_values().iter().map(|value| String::from(value.get_name())).collect();
    let value = if possible.is_empty() { values.join(" ") } else { possible.join("|") };
    let optional_value = arg.get_num_args().is_some_and(|range| range.min_values() == 0);
    let mut text = match (arg.get_long(), arg.get_short()) {
        (Some(long), Some(short)) => format!("--{long}, -{short}"),
        (Some(long), None) => format!("--{long}"),
        _ if arg.is_required_set() => value.clone(),
        _ => format!("[{value}]"),
    };
    if arg.get_long().is_some() && takes_values {
        let _ = if optional_value { write!(text, " [{value}]") } else { write!(text, " {value}") };
    }
    text
}

fn help(arg: &Arg) -> String {
    let mut text = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if arg.get_num_args().is_some_and(|range| range.max_values() > 0) && !defaults.is_empty() {
        let _ = write!(text, " [default: {}]", defaults.join(" "));
    }
    text
}
