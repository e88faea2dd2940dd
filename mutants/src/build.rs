//! Builds the tests of the copy with cargo, and reads what the compiler says.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::suite::Program;

/// An error of the compiler.
pub struct CompilerError {
    /// Where it is: those places first that the compiler calls primary.
    pub spans: Vec<Span>,
    /// The path of a function that a constant calls and that is not `const`.
    pub not_const: Option<String>,
    /// What the compiler prints.
    pub text: String,
}

/// A place in a file.
pub struct Span {
    /// The file, from the root of the copy.
    pub file: String,
    /// The bytes.
    pub bytes: Range<usize>,
    /// Whether the compiler calls it primary.
    pub primary: bool,
}

/// What came of a build.
pub enum Built {
    /// The test programs.
    Programs(Vec<Program>),
    /// Why there are none.
    Errors(Vec<CompilerError>),
}

/// Packages whose tests start `atrest` or `atrest-init`.
const STARTING: [&str; 3] = ["atrest-attach", "atrest-cli", "atrest-testkit"];

/// Builds the tests of `packages`, and the programs that those tests start.
pub fn build(copy: &Path, target: &Path, packages: &BTreeSet<&str>) -> Result<Built, String> {
    let mut words = vec!["--tests"];
    words.extend(packages.iter().flat_map(|package| ["--package", package]));
    let built = build_one(copy, target, packages, &words)?;
    if matches!(built, Built::Programs(_)) && STARTING.iter().any(|package| packages.contains(package)) {
        let words = ["--bins", "--package", "atrest-cli", "--package", "atrest-boot"];
        if let Built::Errors(errors) = build_one(copy, target, packages, &words)? {
            return Ok(Built::Errors(errors));
        }
    }
    Ok(built)
}

fn build_one(copy: &Path, target: &Path, packages: &BTreeSet<&str>, words: &[&str]) -> Result<Built, String> {
    let mut command = Command::new("cargo");
    command.current_dir(copy).args(["build", "--keep-going", "--offline", "--message-format", "json"]);
    command.args(words).arg("--target-dir").arg(target);
    command.env_remove("RUSTFLAGS").env_remove("CARGO_TARGET_DIR");
    let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output();
    let output = output.map_err(|error| format!("cargo: {error}"))?;
    let (mut errors, mut programs) = (Vec::new(), Vec::new());
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        match message["reason"].as_str() {
            Some("compiler-message") if message["message"]["level"] == "error" => {
                errors.extend(compiler_error(copy, &message["message"]));
            }
            Some("compiler-artifact") if message["profile"]["test"] == true => {
                programs
                    .extend(program(&message).filter(|program| packages.contains(program.package.as_str())));
            }
            _ => {}
        }
    }
    match (output.status.success(), errors.is_empty()) {
        (true, _) => Ok(Built::Programs(programs)),
        (false, false) => Ok(Built::Errors(errors)),
        (false, true) => Err(format!("cargo build: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

fn compiler_error(copy: &Path, message: &Value) -> Option<CompilerError> {
    let mut spans = Vec::new();
    collect(copy, message, &mut spans);
    // "aborting due to 3 previous errors" has no place.
    if spans.is_empty() {
        return None;
    }
    spans.sort_by_key(|span| !span.primary);
    // "cannot call non-const associated function `Layout::new` in constants"
    let quoted = message["message"].as_str().and_then(|text| text.split('`').nth(1));
    let not_const =
        quoted.filter(|_| message["code"]["code"] == "E0015").and_then(|path| path.rsplit("::").next());
    let text = message["rendered"].as_str().unwrap_or_default().into();
    Some(CompilerError { spans, not_const: not_const.map(String::from), text })
}

fn collect(copy: &Path, message: &Value, spans: &mut Vec<Span>) {
    for span in message["spans"].as_array().into_iter().flatten() {
        let primary = span["is_primary"] == true;
        let mut span = span;
        // What a macro made is where the macro was called.
        loop {
            spans.extend(place(copy, span, primary));
            span = &span["expansion"]["span"];
            if span.is_null() {
                break;
            }
        }
    }
}

fn place(copy: &Path, span: &Value, primary: bool) -> Option<Span> {
    let file = Path::new(span["file_name"].as_str()?);
    let file = file.strip_prefix(copy).unwrap_or(file).to_str()?.to_owned();
    let byte = |name: &str| span[name].as_u64().map(|byte| byte as usize);
    Some(Span { file, bytes: byte("byte_start")?..byte("byte_end")?, primary })
}

fn program(message: &Value) -> Option<Program> {
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    // `path+file:///…/crates/flash#atrest-flash@0.1.0`, or without the name where the directory has it.
    let directory = manifest.parent()?.to_owned();
    Some(Program {
        package: format!("atrest-{}", directory.file_name()?.to_str()?),
        name: message["target"]["name"].as_str()?.into(),
        path: message["executable"].as_str()?.into(),
        directory,
    })
}
