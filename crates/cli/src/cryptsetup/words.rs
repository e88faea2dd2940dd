//! A command line by cryptsetup's rules: options anywhere, `--name value` or `--name=value`, letters together, `--` before operands.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::action::Action;
use super::option::{OPTIONS, Opt, Value};
use crate::args::size::parse_size;
use crate::failure::Failure;

/// The version whose options and actions these are.
const LIKE: &str = "2.8";

/// What is asked for.
#[derive(Debug)]
pub struct Request {
    pub action: Action,
    /// The type of volume that the action's name implies, or that --type says.
    pub kind: Option<String>,
    pub operands: Vec<OsString>,
    given: Vec<Given>,
}

#[derive(Debug)]
struct Given {
    option: &'static Opt,
    value: Option<OsString>,
}

/// A request, or a text that answers the command line.
pub enum Answer {
    Request(Request),
    Text(String),
}

impl Request {
    /// Whether the option is there.
    pub fn has(&self, name: &str) -> bool {
        self.given.iter().any(|given| given.option.name == name)
    }

    /// The value of an option; the last one counts.
    pub fn text(&self, name: &str) -> Option<&OsStr> {
        self.given.iter().rev().find(|given| given.option.name == name)?.value.as_deref()
    }

    /// The value of an option that is a number. [`read`] has seen that it is one.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.to_str()?.parse().ok()
    }

    /// The value of an option that is a size, in bytes. [`read`] has seen that it is one.
    pub fn size(&self, name: &str) -> Option<u64> {
        parse_size(self.text(name)?.to_str()?).ok()
    }

    /// How often an option is there.
    pub fn count(&self, name: &str) -> usize {
        self.given.iter().filter(|given| given.option.name == name).count()
    }

    /// The names of the options that are there.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.given.iter().map(|given| given.option.name)
    }

    /// The options that are there.
    pub fn options(&self) -> impl Iterator<Item = &'static Opt> {
        self.given.iter().map(|given| given.option)
    }

    /// The first operand: the device or the name.
    pub fn first(&self) -> &Path {
        Path::new(self.operands.first().map_or(OsStr::new(""), OsString::as_os_str))
    }

    /// The file with the volume key, by either name.
    pub fn volume_key_file(&self) -> Option<&OsStr> {
        self.text("volume-key-file").or_else(|| self.text("master-key-file"))
    }

    /// Where the header lies: on the device, or in the file that --header names.
    pub fn header(&self) -> &Path {
        self.text("header").map_or_else(|| self.first(), Path::new)
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
            let option = option.ok_or_else(|| unknown(&word))?;
            given.push(with_value(option, value, &mut words)?);
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
        return Err(Failure::parameters("the action is missing").hint("`cryptsetup --help` lists them"));
    }
    let name = operands.remove(0);
    let (action, kind) = Action::named(&name.to_string_lossy())?;
    // The old name takes its operands the other way round.
    if name == "create" && operands.len() > 1 {
        operands.swap(0, 1);
    }
    let mut request = Request { action, kind: kind.map(str::to_owned), operands, given };
    if request.kind.is_none() {
        request.kind = request.text("type").map(|kind| kind.to_string_lossy().into_owned());
    }
    Ok(Answer::Request(request))
}

fn unknown(word: &OsStr) -> Failure {
    Failure::parameters(format!("{}: there is no such option", word.display()))
        .hint("`cryptsetup --help` lists them")
}

/// The option with its value: what stands behind `=`, or the next word.
fn with_value(
    option: &'static Opt,
    attached: Option<OsString>,
    words: &mut impl Iterator<Item = OsString>,
) -> Result<Given, Failure> {
    let name = option.name;
    let value = match (option.value, attached) {
        (Value::None, None) => None,
        (Value::None, Some(_)) => return Err(Failure::parameters(format!("--{name} takes no value"))),
        (_, Some(value)) => Some(value),
        (_, None) => {
            let next = words.next();
            Some(next.ok_or_else(|| Failure::parameters(format!("--{name} needs a value")))?)
        }
    };
    if let Some(value) = &value {
        let text = value.to_str();
        let fits = match option.value {
            Value::Number => text.is_some_and(|text| text.parse::<u64>().is_ok()),
            Value::Size => text.is_some_and(|text| parse_size(text).is_ok()),
            Value::None | Value::Text => true,
        };
        if !fits {
            let wanted = if option.value == Value::Size { "size" } else { "whole number" };
            return Err(Failure::parameters(format!("--{name} {}: that is no {wanted}", value.display())));
        }
    }
    Ok(Given { option, value })
}

/// What `--help`, `--usage` and `--version` print.
fn told(name: &[u8]) -> Option<String> {
    match name {
        b"version" | b"V" => {
            Some(format!("cryptsetup {LIKE} flags: KEYRING (atrest {})", env!("CARGO_PKG_VERSION")))
        }
        b"help" | b"usage" | b"?" => Some(help()),
        _ => None,
    }
}

fn help() -> String {
    let mut text = format!(
        "cryptsetup {LIKE} (atrest {})\nUsage: cryptsetup [OPTION...] <action> <action-specific>\n\n<action> is one of:\n",
        env!("CARGO_PKG_VERSION")
    );
    for action in Action::ALL {
        let spelling = action.spelling();
        let _ = writeln!(text, "\t{} {}", spelling.name, spelling.operands);
    }
    text.push_str("\nOptions:\n");
    for option in OPTIONS {
        let letter = option.letter.map_or_else(|| String::from("    "), |letter| format!("-{letter}, "));
        let value = match option.value {
            Value::None => "",
            Value::Text => "=STRING",
            Value::Number => "=NUMBER",
            Value::Size => "=SIZE",
        };
        let _ = writeln!(text, "  {letter}--{}{value}", option.name);
    }
    text.push_str(
        "\nExamples:\n  cryptsetup luksFormat disk.img\n  cryptsetup open disk.img secret\n  cryptsetup close secret\n",
    );
    text.push_str("\ndocs/CRYPTSETUP.md says which actions and options work here.");
    text
}
