//! Colour on a terminal, only where it means something: errors are red, warnings yellow. `NO_COLOR`, `TERM=dumb` and anything that
//! is no terminal get none.

use std::io::{IsTerminal, stderr};

/// What is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// It failed.
    Error,
    /// It went on, but somebody should know.
    Warning,
}

/// `text` for standard error, in the colour of what it means.
pub fn marked(text: &str, meaning: Meaning) -> String {
    match is_wanted(stderr().is_terminal(), |name| {
        std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    }) {
        true => painted(text, meaning),
        false => text.to_owned(),
    }
}

fn painted(text: &str, meaning: Meaning) -> String {
    let code = match meaning {
        Meaning::Error => "1;31",
        Meaning::Warning => "1;33",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// Whether a stream takes colour, by the environment (<https://no-color.org>).
fn is_wanted(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    let says_no = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = variable("TERM").is_none_or(|value| value == "dumb");
    is_terminal && !says_no && !is_dumb
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(set: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| set.iter().find(|(of, _)| *of == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn colour_is_for_terminals_of_people_who_want_it() {
        assert!(is_wanted(true, of(&[("TERM", "xterm")])));
        assert!(is_wanted(true, of(&[("TERM", "xterm"), ("NO_COLOR", "")])));
        assert!(!is_wanted(false, of(&[("TERM", "xterm")])));
        assert!(!is_wanted(true, of(&[("TERM", "xterm"), ("NO_COLOR", "1")])));
        assert!(!is_wanted(true, of(&[("TERM", "dumb")])));
        assert!(!is_wanted(true, of(&[])));
        assert_eq!(painted("atrest:", Meaning::Error), "\x1b[1;31matrest:\x1b[0m");
    }
}
