//! Each `SAFETY` line can be checked where it stands.

use std::fs;
use std::path::{Path, PathBuf};

use atrest_testkit::oracle::workspace;

#[test]
fn safety_lines_say_themselves_why() {
    let mut found = 0;
    let mut borrowed = Vec::new();
    for directory in ["bench", "crates", "firmware", "fuzz", "mutants", "tests"] {
        for file in sources(&workspace().join(directory)) {
            let text = fs::read_to_string(&file).expect("a source file");
            for (line, number) in text.lines().zip(1..).filter(|(line, _)| line.contains("// SAFETY")) {
                found += 1;
                if refers_elsewhere(line) {
                    borrowed.push(format!("{}:{number}", file.display()));
                }
            }
        }
    }
    assert!(found > 300, "only {found} SAFETY lines: are these the sources?");
    assert!(borrowed.is_empty(), "these say it by reference to others: {borrowed:#?}");
}

#[test]
fn a_line_that_says_as_above_is_found() {
    let marker = "// SAFETY";
    assert!(refers_elsewhere(&format!("{marker}: as above.")));
    assert!(refers_elsewhere(&format!("    {marker}: As above, and nobody else has it.")));
    assert!(!refers_elsewhere(&format!("{marker}: the caller has AVX2.")));
}

fn refers_elsewhere(line: &str) -> bool {
    line.to_lowercase().contains("as above")
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
