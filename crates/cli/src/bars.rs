//! Bars of text, which are as long as a figure is large, and how much room there is for them.

use std::io::IsTerminal;
use std::os::fd::AsFd;

/// Parts of a character cell, from an eighth to all of it.
const PARTS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
/// Columns where there is no terminal that says how many.
const USUAL: usize = 80;

/// A bar of at most `room` columns for `value` of `most`, on a linear scale. Without `blocks` it is made of `#`.
pub fn bar(value: f64, most: f64, room: usize, blocks: bool) -> String {
    let share = if most > 0.0 && value.is_finite() { (value / most).clamp(0.0, 1.0) } else { 0.0 };
    let eighths = (share * (room * 8) as f64).round() as usize;
    if !blocks {
        return "#".repeat(eighths.div_ceil(8));
    }
    let mut text: String = std::iter::repeat_n('█', eighths / 8).collect();
    text.extend((eighths % 8).checked_sub(1).and_then(|part| PARTS.get(part)));
    text
}

/// The columns of a stream.
pub fn columns(out: &(impl IsTerminal + AsFd)) -> usize {
    if !out.is_terminal() {
        return USUAL;
    }
    // A terminal that does not know its size says 0.
    let size = rustix::termios::tcgetwinsize(out).map_or(0, |size| usize::from(size.ws_col));
    if size == 0 { USUAL } else { size }
}

/// Whether the character set has block characters, by the environment: `LC_ALL=C` has none.
pub fn has_blocks() -> bool {
    blocks_by(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
}

fn blocks_by(variable: impl Fn(&str) -> Option<String>) -> bool {
    let mut set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable);
    set.find(|value| !value.is_empty()).is_some_and(|value| {
        let value = value.to_ascii_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_figure_is_large() {
        assert_eq!(bar(8.0, 8.0, 4, true), "████");
        assert_eq!(bar(5.0, 8.0, 4, true), "██▌");
        assert_eq!(bar(0.01, 8.0, 4, true), "");
        assert_eq!(bar(5.0, 8.0, 4, false), "###");
        assert_eq!(bar(9.0, 8.0, 4, false), "####");
        for (value, most) in [(1.0, 0.0), (f64::NAN, 1.0), (f64::INFINITY, 1.0), (-1.0, 1.0)] {
            assert_eq!(bar(value, most, 4, true), "");
        }
    }

    #[test]
    fn the_first_locale_that_is_set_says_which_characters_there_are() {
        let of = |set: &[(&str, &str)]| {
            let set: Vec<(String, String)> = set.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect();
            blocks_by(|name| set.iter().find(|(of, _)| of == name).map(|(_, value)| value.clone()))
        };
        assert!(of(&[("LANG", "de_DE.UTF-8")]));
        assert!(of(&[("LC_ALL", "C.utf8"), ("LANG", "C")]));
        assert!(of(&[("LC_ALL", ""), ("LANG", "en_GB.utf8")]));
        assert!(!of(&[("LC_ALL", "C"), ("LANG", "en_GB.UTF-8")]));
        assert!(!of(&[("LC_CTYPE", "POSIX")]));
        assert!(!of(&[]));
    }
}
