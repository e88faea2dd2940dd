//! A command line by veritysetup's rules: options anywhere, `--name value` or `--name=value`, letters together, `--` before operands.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::option::{Action, EXCLUSIVE, OPTIONS, Opt, Value};
use crate::failure::Failure;

/// The version whose options and actions these are.
const LIKE: &str = "2.8";

/// What is asked for.
#[derive(Debug)]
pub struct Request {
    pub action: Action,
    pub operands: Vec<OsString>,
    given: Vec<(&'static Opt, Option<OsString>)>,
}

/// A request, or a text that answers the command line.
pub enum Answer {
    Request(Request),
    Text(String),
}

impl Request {
    /// Whether the option is there.
    pub fn has(&self, name: &str) -> bool {
        self.given.iter().any(|(option, _)| option.name == name)
    }

    /// The value of an option; the last one counts.
    pub fn value(&self, name: &str) -> Option<&OsStr> {
        self.given.iter().rev().find(|(option, _)| option.name == name)?.1.as_deref()
    }

    /// The value of an option as text.
    pub fn text(&self, name: &str) -> Option<String> {
        self.value(name).map(|value| value.to_string_lossy().into_owned())
    }

    /// The value of an option that is a number. [`read`] has seen that it is one.
    pub fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        self.value(name)?.to_str()?.parse().ok()
    }

    /// An operand; [`read`] has counted those that must be there.
    pub fn operand(&self, at: usize) -> &Path {
        Path::new(self.operands.get(at).map_or(OsStr::new(""), OsString::as_os_str))
    }
}

/// Reads the words behind the program's name.
pub fn read(words: impl Iterator<Item = OsString>) -> Result<Answer, Failure> {
    let mut words = words;
    let (mut given, mut operands) = (Vec::new(), Vec::new());
    while let Some(word) = words.next() {
        let bytes = word.as_bytes();
        if bytes == b"--" {
            operands.extend(words.by_ref());
        } else if let Some(long) = bytes.strip_prefix(b"--") {
            let (name, value) = match long.iter().position(|byte| *byte == b'=') {
                Some(at) => (&long[..at], Some(OsString::from_vec(long[at + 1..].to_vec()))),
                None => (long, None),
            };
            if let Some(text) = told(name) {
                return Ok(Answer::Text(text));
            }
            let option = OPTIONS.iter().find(|option| option.name.as_bytes() == name);
            given.push(with_value(option.ok_or_else(|| unknown(&word))?, value, &mut words)?);
        } else if bytes.len() > 1 && bytes[0] == b'-' {
            let mut letters = &bytes[1..];
            while let Some((letter, rest)) = letters.split_first() {
                if let Some(text) = told(&[*letter]) {
                    return Ok(Answer::Text(text));
                }
                let option = OPTIONS.iter().find(|option| option.letter == Some(char::from(*letter)));
                let option = option.ok_or_else(|| unknown(&word))?;
                letters = rest;
                let attached = match option.value {
                    Value::None => None,
                    _ if rest.is_empty() => None,
                    _ => {
                        letters = b"";
                        let value = rest.strip_prefix(b"=").unwrap_or(rest);
                        Some(OsString::from_vec(value.to_vec()))
                    }
                };
                given.push(with_value(option, attached, &mut words)?);
            }
        } else {
            operands.push(word);
        }
    }
    if operands.is_empty() {
        return Err(Failure::parameters("the action is missing").hint("`veritysetup --help` lists them"));
    }
    let name = operands.remove(0).to_string_lossy().into_owned();
    // The old name takes its operands the other way round.
    if name == "create" && operands.len() > 1 {
        operands.swap(0, 1);
    }
    let action = Action::named(&name).ok_or_else(|| {
        Failure::parameters(format!("{name}: there is no such action"))
            .hint("`veritysetup --help` lists them")
    })?;
    let request = Request { action, operands, given };
    check(&request)?;
    Ok(Answer::Request(request))
}

/// Which options go together, as veritysetup has it.
fn check(request: &Request) -> Result<(), Failure> {
    let spelling = Action::ALL.iter().find(|(action, ..)| *action == request.action);
    let Some((_, name, operands, at_least)) = spelling else { unreachable!("all are there") };
    if request.operands.len() < *at_least {
        return Err(Failure::parameters(format!("{name} needs {operands}")));
    }
    let wrong = |(option, _): &&(&Opt, _)| !option.with.is_empty() && !option.with.contains(&request.action);
    if let Some((option, _)) = request.given.iter().find(wrong) {
        return Err(Failure::parameters(format!("--{} does not go with {name}", option.name)));
    }
    match EXCLUSIVE.iter().find(|(one, other)| request.has(one) && request.has(other)) {
        Some((one, other)) => Err(Failure::parameters(format!("--{one} and --{other} exclude one another"))),
        None => Ok(()),
    }
}

fn unknown(word: &OsStr) -> Failure {
    Failure::parameters(format!("{}: there is no such option", word.display()))
        .hint("`veritysetup --help` lists them")
}

/// The option with its value: what stands behind `=`, or the next word.
fn with_value(
    option: &'static Opt,
    attached: Option<OsString>,
    words: &mut impl Iterator<Item = OsString>,
) -> Result<(&'static Opt, Option<OsString>), Failure> {
    let name = option.name;
    let value = match (option.value, attached) {
        (Value::None, None) => return Ok((option, None)),
        (Value::None, Some(_)) => return Err(Failure::parameters(format!("--{name} takes no value"))),
        (_, Some(value)) => value,
        (_, None) => words.next().ok_or_else(|| Failure::parameters(format!("--{name} needs a value")))?,
    };
    let number = value.to_str().and_then(|text| text.parse::<u64>().ok());
    let fits = match option.value {
        Value::Number(32) => number.is_some_and(|number| u32::try_from(number).is_ok()),
        Value::Number(_) => number.is_some(),
        Value::None | Value::Text => true,
    };
    match fits {
        true => Ok((option, Some(value))),
        false => Err(Failure::parameters(format!("--{name} {}: that is no whole number", value.display()))),
    }
}

/// What `--help`, `--usage` and `--version` print.
fn told(name: &[u8]) -> Option<String> {
    match name {
        b"version" | b"V" => {
            Some(format!("veritysetup {LIKE} flags: (atrest {})", env!("CARGO_PKG_VERSION")))
        }
        b"help" | b"usage" | b"?" => Some(help()),
        _ => None,
    }
}

fn help() -> String {
    let mut text = format!(
        "veritysetup {LIKE} (atrest {})\nUsage: veritysetup [OPTION...] <action> <action-specific>\n\n<action> is one of:\n",
        env!("CARGO_PKG_VERSION")
    );
    for (_, name, operands, _) in Action::ALL {
        // cannot fail: it goes into a string.
        let _ = writeln!(text, "\t{name} {operands}");
    }
    text.push_str("\nOptions:\n");
    for option in OPTIONS {
        let letter = option.letter.map_or_else(|| String::from("    "), |letter| format!("-{letter}, "));
        let value = match option.value {
            Value::None => "",
            Value::Text => "=STRING",
            Value::Number(_) => "=NUMBER",
        };
        let _ = writeln!(text, "  {letter}--{}{value}", option.name);
    }
    text.push_str(
        "\nHash: sha256, data block (bytes): 4096, hash block (bytes): 4096, salt size: 32, hash format: 1\n",
    );
    text.push_str("docs/VERITY.md says which actions and options work here.");
    text
}
