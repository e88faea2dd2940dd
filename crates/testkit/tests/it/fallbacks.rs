//! A fallback hides an error: saturating arithmetic, zero or nothing in place of a number that does not fit. Where it can
//! happen it is a defect. Where it cannot, a comment says why, so that a reader can check it:
//!
//! * `// cannot overflow: both lie inside the device.` The comment begins with "cannot" and has a reason behind a colon.
//! * `// intended: unknown counts as nothing.` The fallback is the meaning.
//!
//! The comment stands at the end of the line, or above the statement. It covers the lines with fallbacks that follow
//! one another.

use std::fs;
use std::path::{Path, PathBuf};

use atrest_testkit::oracle::workspace;

/// Crates, each with the number of fallbacks that have no reason yet. A number may fall, never rise.
const CRATES: &[(&str, usize)] = &[
    ("attach", 0),
    ("boot", 0),
    ("bootimage", 0),
    ("capi", 0),
    ("cipher", 0),
    ("cli", 0),
    ("codec", 0),
    ("device", 0),
    ("engine", 0),
    ("filetree", 0),
    ("flash", 0),
    ("format", 0),
    ("inside", 0),
    ("kdf", 0),
    ("keyslot", 0),
    ("littlefs", 0),
    ("open", 0),
    ("probe", 0),
    ("cloud", 0),
    ("secret", 0),
    ("fido2", 0),
    ("tpm", 0),
    ("tree", 0),
    ("volume", 0),
];

/// What stands before the name of a module of tests.
const TESTS: &str = "#[cfg(test)]\nmod ";

/// How many lines a statement may have before its fallback.
const STATEMENT: usize = 4;

#[test]
fn every_fallback_says_why_it_is_none() {
    let mut wrong = Vec::new();
    for (name, most) in CRATES {
        let mut found = Vec::new();
        for path in sources(&workspace().join("crates").join(name).join("src")) {
            let text = fs::read_to_string(&path).expect("a source file");
            let shown =
                path.strip_prefix(workspace()).expect("a path in the workspace").display().to_string();
            found.extend(unexplained(&text).map(|(line, text)| format!("{shown}:{line}: {text}")));
        }
        println!("{name}: {} fallbacks without a reason, at most {most}", found.len());
        if found.len() > *most {
            wrong.push(format!("{name} has {}, at most {most}:\n{}", found.len(), found.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "fallbacks without `// cannot …: …` or `// intended: …`\n{}", wrong.join("\n"));
}

#[test]
fn a_fallback_without_a_reason_is_found() {
    const NONE: [usize; 0] = [];
    let lines = |text: &str| unexplained(text).map(|(line, _)| line).collect::<Vec<_>>();
    assert_eq!(lines("let a = b.saturating_add(c);\n"), [1]);
    assert_eq!(lines("let a = u32::try_from(b).unwrap_or(u32::MAX);\n"), [1]);
    assert_eq!(lines("let a = b.get(c..).unwrap_or(&[]);\nlet d = e.unwrap_or_default();\n"), [1, 2]);
    assert_eq!(lines("let a = b.checked_div(c).unwrap_or(0);\n"), [1]);
    assert_eq!(lines("fold(0, u64::saturating_add)\n"), [1]);
    assert_eq!(lines("// A comment that mentions saturating_add.\nlet a = 1;\n"), NONE);
    assert_eq!(lines("let a = b.unwrap_or(7);\n"), NONE);
    // With a reason at its end, above it, or above its statement.
    assert_eq!(lines("let a = b.saturating_add(c); // cannot overflow: both are bytes.\n"), NONE);
    assert_eq!(lines("// cannot overflow: both are bytes.\nlet a = b.saturating_add(c);\n"), NONE);
    assert_eq!(lines("// intended: nothing is known.\nlet a = b\n    .find()\n    .unwrap_or(0);\n"), NONE);
    // A reason covers what follows at once, and no more.
    let two =
        "// cannot overflow: both are bytes.\nlet a = b.saturating_add(c);\nlet d = e.saturating_add(f);\n";
    assert_eq!(lines(two), NONE);
    let later = "// cannot overflow: both are bytes.\nlet a = b.saturating_add(c);\nlet x = 1;\nlet d = e.saturating_add(f);\n";
    assert_eq!(lines(later), [4]);
    // A word is no reason.
    assert_eq!(lines("// cannot overflow\nlet a = b.saturating_add(c);\n"), [2]);
    assert_eq!(lines("// Adds.\nlet a = b.saturating_add(c);\n"), [2]);
    // Tests may do as they like, and nothing else may that stands behind the name of a file of tests.
    assert_eq!(lines("#[cfg(test)]\nmod tests;\nmod a;\nfn b() -> u8 { c.saturating_add(d) }\n"), [4]);
    assert_eq!(lines("#[cfg(test)]\nmod tests {\n    fn a() { b.saturating_add(c); }\n}\n"), NONE);
}

/// Line numbers and lines that have a fallback without a reason.
fn unexplained(text: &str) -> impl Iterator<Item = (usize, &str)> {
    // Lines that a reason still reaches, and whether it has met its fallback.
    let (mut reach, mut met) = (0, false);
    before_tests(text).lines().zip(1..).filter_map(move |(line, number)| {
        let trimmed = line.trim();
        if trimmed.starts_with("//") {
            if is_reason(trimmed) {
                (reach, met) = (STATEMENT, false);
            }
            return None;
        }
        let (code, comment) = trimmed.split_once(" // ").unwrap_or((trimmed, ""));
        if !has_fallback(code) {
            reach = if met { 0 } else { reach.saturating_sub(1) };
            return None;
        }
        met = true;
        let explained = reach > 0 || is_reason(&format!("// {comment}"));
        (!explained).then_some((number, trimmed))
    })
}

/// The part of a file before its own tests.
fn before_tests(text: &str) -> &str {
    let tests = text.match_indices(TESTS).find(|(at, _)| {
        let declared = text[at + TESTS.len()..].lines().next().unwrap_or_default();
        declared.ends_with('{')
    });
    tests.map_or(text, |(at, _)| &text[..at])
}

fn is_reason(comment: &str) -> bool {
    let comment = comment.trim_start_matches('/').trim();
    let reason = match comment.strip_prefix("intended") {
        Some(rest) => rest.strip_prefix(':'),
        None => {
            comment.strip_prefix("cannot ").and_then(|rest| rest.split_once(": ")).map(|(_, reason)| reason)
        }
    };
    reason.is_some_and(|reason| reason.trim().len() > 5)
}

fn has_fallback(code: &str) -> bool {
    let least_or_most = |argument: &str| {
        let argument = argument.split(')').next().unwrap_or(argument);
        argument == "0"
            || argument.starts_with("&[]")
            || argument.starts_with("&mut []")
            || argument.ends_with("::MAX")
            || argument.ends_with("::MIN")
    };
    code.contains("saturating_")
        || code.contains("unwrap_or_default")
        || code.split("unwrap_or(").skip(1).any(least_or_most)
}

/// The source files below a directory, without tests.
pub(crate) fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let paths: Vec<PathBuf> =
        fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path()).collect();
    // Files of their own that hold tests, by what their neighbours declare.
    let tests: Vec<String> =
        paths.iter().filter(|path| path.is_file()).flat_map(|path| declared(path)).collect();
    for path in paths {
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name in UTF-8");
        if name == "tests" || tests.iter().any(|tests| tests == name) {
            continue;
        }
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The modules of tests that a file declares and that have a file of their own.
fn declared(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).expect("a source file");
    let names = text.split(TESTS).skip(1).filter_map(|rest| rest.lines().next()?.strip_suffix(';'));
    names.map(str::to_owned).collect()
}
