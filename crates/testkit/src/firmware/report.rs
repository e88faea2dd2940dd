//! What programs print, `what,number,figure` in each line, and the figures that they are held to.

use std::fs;
use std::path::Path;

use super::{BOARDS, boards, is_blessed};

/// The last number of the line that begins with `what`.
pub fn figure(output: &str, what: &str) -> u64 {
    let line = output.lines().find_map(|line| line.trim().strip_prefix(what)?.strip_prefix(','));
    let line = line.unwrap_or_else(|| panic!("no {what} in:\n{output}"));
    line.rsplit(',').next().and_then(|figure| figure.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

/// FNV-1a: how programs tell what they have read, derived or encrypted.
pub fn fnv(bytes: &[u8]) -> u64 {
    let hash = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    u64::from(bytes.iter().fold(0x811c_9dc5_u32, hash))
}

/// Figures that were counted: a line for each program, fields with tabs between, of which the first `names` say which it is.
pub struct Counted<'a> {
    /// The lines.
    pub lines: &'a str,
    /// How many fields are names.
    pub names: usize,
    /// What the others are.
    pub what: &'a str,
}

impl Counted<'_> {
    /// Holds them against the committed ones, within 3 % and line by line. With ATREST_BLESS set they are written there before. Gives them
    /// by name.
    pub fn hold(&self, committed: &Path) -> Vec<(String, Vec<u64>)> {
        self.hold_those(committed, is_of_this_run)
    }

    /// Holds them against those of the committed ones that this run counts, otherwise like [`hold`](Self::hold).
    pub fn hold_those(&self, committed: &Path, is_counted: impl Fn(&str) -> bool) -> Vec<(String, Vec<u64>)> {
        if is_blessed() {
            fs::write(committed, self.lines).expect("the figures can be written");
        }
        println!("{}\n{}", self.what, self.lines);
        self.compared(&read(committed), is_counted)
            .unwrap_or_else(|worse| panic!("{}: {worse}", committed.display()))
    }

    /// The figures by name, or what is worse in them than in the lines `expected`.
    fn compared(
        &self,
        expected: &str,
        is_counted: impl Fn(&str) -> bool,
    ) -> Result<Vec<(String, Vec<u64>)>, String> {
        let (counted, mut expected) = (self.parse(self.lines), self.parse(expected));
        expected.retain(|(name, _)| is_counted(name));
        if counted.len() != expected.len() {
            return Err(format!("{} lines, {} before", counted.len(), expected.len()));
        }
        for ((name, is), (expected, was)) in counted.iter().zip(&expected) {
            if (name, is.len()) != (expected, was.len()) {
                return Err(format!("{} figures of {name}, {} of {expected} before", is.len(), was.len()));
            }
            if is.iter().zip(was).any(|(is, was)| is * 100 > was * 103) {
                return Err(format!("{name}: {is:?}, {was:?} before: {}", self.what));
            }
        }
        Ok(counted)
    }

    fn parse(&self, lines: &str) -> Vec<(String, Vec<u64>)> {
        let line = |line: &str| {
            let fields: Vec<&str> = line.split('\t').collect();
            let (names, figures) = fields.split_at(self.names);
            let figure = |figure: &&str| figure.parse().unwrap_or_else(|_| panic!("{line}"));
            (names.join(" "), figures.iter().map(figure).collect())
        };
        lines.lines().map(line).collect()
    }
}

/// Whether this run counts what is called so: names of figures begin with that of a board.
pub fn is_of_this_run(name: &str) -> bool {
    let board = BOARDS.iter().find(|board| name.starts_with(board.name));
    boards().iter().any(|chosen| board.is_none_or(|board| board.name == chosen.name))
}

/// Holds a document against the rows of a table in it, whose head is `head`. With ATREST_BLESS set they are written there before.
pub fn hold_table(document: &Path, head: &str, rows: &str) {
    if is_blessed() {
        let text = read(document);
        let (before, rest) = text.split_once(head).expect("a table");
        let (_, after) = rest.split_once("\n\n").expect("text behind the table");
        fs::write(document, format!("{before}{head}{rows}\n{after}")).expect("the table can be written");
    }
    assert!(read(document).contains(&format!("{head}{rows}\n")), "{} has other figures", document.display());
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_percent_more_is_taken_and_no_more() {
        let held = |lines| {
            Counted { lines, names: 2, what: "bytes" }.compared("256\txts\t1000\t500\n", is_of_this_run)
        };
        assert_eq!(held("256\txts\t1030\t400\n"), Ok(vec![("256 xts".to_owned(), vec![1030, 400])]));
        for (lines, worse) in [
            ("256\txts\t1031\t400\n", "256 xts: [1031, 400], [1000, 500] before: bytes"),
            ("256\txts\t1000\t516\n", "256 xts: [1000, 516], [1000, 500] before: bytes"),
            ("512\txts\t1000\t500\n", "2 figures of 512 xts, 2 of 256 xts before"),
            ("256\txts\t1000\n", "1 figures of 256 xts, 2 of 256 xts before"),
            ("", "0 lines, 1 before"),
        ] {
            assert_eq!(held(lines), Err(worse.to_owned()));
        }
    }

    #[test]
    fn figures_of_a_board_that_did_not_run_are_not_expected() {
        for board in &BOARDS {
            let ran = boards().iter().any(|chosen| chosen.name == board.name);
            assert_eq!(is_of_this_run(&format!("{} card", board.name)), ran, "{}", board.name);
        }
        assert!(is_of_this_run("256 1000"), "a figure of no board");
        assert!(!boards().is_empty());
    }

    #[test]
    fn a_line_is_found_by_its_first_word() {
        assert_eq!(figure("read,10,77\nreader,1,2\n", "read"), 77);
        assert!(std::panic::catch_unwind(|| figure("reader,1,2\n", "read")).is_err());
        // Of the reference implementation's page: FNV-1a of "a".
        assert_eq!(fnv(b"a"), 0xe40c_292c);
    }
}
