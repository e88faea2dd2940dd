//! Comments that hold where they stand, whatever is moved around them.

use std::fs;
use std::path::{Path, PathBuf};

use atrest_testkit::oracle::workspace;

#[test]
fn safety_lines_say_themselves_why() {
    let lines = lines();
    let safety = lines.iter().filter(|line| line.text.contains("// SAFETY"));
    assert!(safety.clone().count() > 300, "are these the sources?");
    let borrowed: Vec<&str> =
        safety.filter(|line| is_borrowed_reason(&line.text)).map(|line| &*line.place).collect();
    assert!(borrowed.is_empty(), "these say it by reference to others: {borrowed:#?}");
}

#[test]
fn documentation_says_what_an_item_is_and_not_what_it_resembles() {
    let lines = lines();
    let begins =
        lines.windows(2).filter(|pair| !is_documentation(&pair[0].text) && is_documentation(&pair[1].text));
    assert!(begins.clone().count() > 3000, "are these the sources?");
    let borrowed: Vec<&str> = begins
        .map(|pair| &pair[1])
        .filter(|line| is_comparison(&line.text))
        .map(|line| &*line.place)
        .collect();
    assert!(borrowed.is_empty(), "these begin with another item: {borrowed:#?}");
}

#[test]
fn what_is_borrowed_is_found() {
    let marker = "// SAFETY";
    assert!(is_borrowed_reason(&format!("{marker}: as above.")));
    assert!(is_borrowed_reason(&format!("    {marker}: As above, and nobody else has it.")));
    assert!(!is_borrowed_reason(&format!("{marker}: the caller has AVX2.")));
    for text in ["The same for paths.", "As [`open`], to read.", "As `open`."] {
        assert!(is_comparison(&format!("    /// {text}")), "{text}");
    }
    assert!(!is_comparison("    /// Opens a path. As [`open`] does, it follows links."));
}

fn is_borrowed_reason(line: &str) -> bool {
    line.to_lowercase().contains("as above")
}

fn is_documentation(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("///") && !line.starts_with("////")
}

fn is_comparison(line: &str) -> bool {
    let text = line.trim_start().trim_start_matches('/').trim_start();
    ["The same", "As [", "As `"].iter().any(|begin| text.starts_with(begin))
}

struct Line {
    place: String,
    text: String,
}

/// All lines of all our sources.
fn lines() -> Vec<Line> {
    let mut lines = Vec::new();
    for directory in ["bench", "crates", "firmware", "fuzz", "mutants", "tests"] {
        for file in sources(&workspace().join(directory)) {
            let text = fs::read_to_string(&file).expect("a source file");
            let line = |(text, number): (&str, usize)| Line {
                place: format!("{}:{number}", file.display()),
                text: text.to_owned(),
            };
            lines.extend(text.lines().zip(1..).map(line));
        }
    }
    lines
}

/// The Rust files below a directory, without what is built.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("readable").path();
        if path.is_dir() && !path.ends_with("target") {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}
