//! What `-h` and `--help` show. The definitions in [`args`](crate::args) hold everything; `-h` shows what most people need of it.
//!
//! * [`short`]: `-h` of one command: its first options, each in one sentence, and two examples.
//! * [`front`]: `atrest -h` and `atrest --help`, with the commands in groups.
//!
//! Nothing here changes what a command line means, so a command line that is no question after help never comes here.

mod front;
pub mod short;

use std::io::IsTerminal as _;

use clap::{Command, CommandFactory};

use crate::args::Cli;

const WIDEST: usize = 100;

/// The definitions, as help shows them.
pub fn command() -> Command {
    shaped(Cli::command(), columns())
}

/// The definitions with less in `-h`, for a screen of so many columns. They must not be built yet: whether there is more in `--help` is
/// looked at then.
fn shaped(root: Command, columns: usize) -> Command {
    front::shaped(short::shaped(root), columns).term_width(columns)
}

/// The columns of the terminal; otherwise what COLUMNS says. More than [`WIDEST`] make lines that are hard to read.
fn columns() -> usize {
    let out = std::io::stdout();
    let known = out.is_terminal().then(|| crate::bars::columns(&out));
    let told = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0);
    known.or_else(told).map_or(WIDEST, |columns| columns.min(WIDEST))
}

/// The lines below "Examples:" in the long help of a command. An example that goes on in the next line is one.
pub fn examples(command: &Command) -> Vec<String> {
    let text = behind_long_help(command);
    let Some((_, lines)) = text.split_once("Examples:\n") else { return Vec::new() };
    let mut examples: Vec<String> = Vec::new();
    for line in lines.lines().map(|line| line.strip_prefix("  ").unwrap_or(line)) {
        match examples.last_mut().filter(|example| example.ends_with('\\')) {
            Some(example) => {
                example.push('\n');
                example.push_str(line);
            }
            None => examples.push(line.to_owned()),
        }
    }
    examples
}

fn behind_long_help(command: &Command) -> String {
    // intended: a command without a longer help has no examples.
    command.get_after_long_help().map(ToString::to_string).unwrap_or_default()
}

/// What the long help says in front of its examples.
pub fn notes(command: &Command) -> String {
    let text = behind_long_help(command);
    let notes = text.split_once("Examples:\n").map_or(text.as_str(), |(notes, _)| notes);
    notes.trim().to_owned()
}

/// How many command lines of `atrest` an example has, each of which must be one that the parser takes.
#[cfg(all(test, feature = "whole"))]
pub fn examples_parse(example: &str) -> Result<usize, String> {
    use clap::Parser;

    let mut count = 0;
    for words in words::commands(example) {
        let Some(first) = words.iter().position(|word| word == "atrest") else { continue };
        let words = &words[first..];
        // `Cli` takes them as the shell hands them over.
        Cli::try_parse_from(words).map_err(|error| format!("{example}: {error}"))?;
        count += 1;
    }
    Ok(count)
}

#[cfg(all(test, feature = "whole"))]
mod words;

#[cfg(all(test, feature = "whole"))]
mod tests;
