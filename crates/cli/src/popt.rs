//! A command line as cryptsetup and veritysetup read theirs: options anywhere, `--name value` or `--name=value`, letters together, `--`
//! before operands.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitCode;

use crate::failure::Failure;

/// What has to be known of an option to read it.
pub trait Known {
    /// Its name, without the two dashes.
    fn name(&self) -> &'static str;
    /// Its letter.
    fn letter(&self) -> Option<char>;
    /// What stands for the value in the help, or `None` if none follows.
    fn value(&self) -> Option<&'static str>;
    /// What a value should have been, if it is not.
    fn wanted(&self, value: &OsStr) -> Option<&'static str>;
}

/// What `--help`, `--usage` and `--version` of `program` print. Actions come with their operands, and `ends` is behind the options.
pub fn told<O: Known>(
    name: &[u8],
    (program, flags): (&str, &str),
    actions: impl IntoIterator<Item = (&'static str, &'static str)>,
    options: &[O],
    ends: &str,
) -> Option<String> {
    let ours = env!("CARGO_PKG_VERSION");
    match name {
        b"version" | b"V" => return Some(format!("{program} {LIKE} flags: {flags}(atrest {ours})")),
        b"help" | b"usage" | b"?" => {}
        _ => return None,
    }
    let mut text = format!(
        "{program} {LIKE} (atrest {ours})\nUsage: {program} [OPTION...] <action> <action-specific>\n\n<action> is one of:\n"
    );
    for (name, operands) in actions {
        text.push_str(&format!("\t{name} {operands}\n"));
    }
    text.push_str("\nOptions:\n");
    for option in options {
        let letter = option.letter().map_or_else(|| String::from("    "), |letter| format!("-{letter}, "));
        let value = option.value().map_or_else(String::new, |value| format!("={value}"));
        text.push_str(&format!("  {letter}--{}{value}\n", option.name()));
    }
    text.push_str(ends);
    Some(text)
}

/// The version whose options and actions these are.
const LIKE: &str = "2.8";

/// The options that a command line has, with their values.
#[derive(Debug)]
pub struct Given<O: 'static>(Vec<(&'static O, Option<OsString>)>);

/// A request, or a text that answers the command line.
pub enum Answer<R> {
    Request(R),
    Text(String),
}

/// A command line: the name of the action, its operands, and the options.
pub struct Line<O: 'static> {
    pub action: String,
    pub operands: Vec<OsString>,
    pub given: Given<O>,
}

impl<O: Known> Given<O> {
    /// Whether the option is there.
    pub fn has(&self, name: &str) -> bool {
        self.count(name) > 0
    }

    /// How often an option is there.
    pub fn count(&self, name: &str) -> usize {
        self.options().filter(|option| option.name() == name).count()
    }

    /// The value of an option; the last one counts.
    pub fn value(&self, name: &str) -> Option<&OsStr> {
        self.0.iter().rev().find(|(option, _)| option.name() == name)?.1.as_deref()
    }

    /// An old name of an option, which has no value, is from now on the new one.
    pub fn rename(&mut self, options: &'static [O], old: &str, new: &str) {
        let Some(named) = options.iter().find(|option| option.name() == new) else { return };
        self.0.iter_mut().filter(|(option, _)| option.name() == old).for_each(|(option, _)| *option = named);
    }

    /// All values of an option, in their order.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &OsStr> {
        self.0
            .iter()
            .filter(move |(option, _)| option.name() == name)
            .filter_map(|(_, value)| value.as_deref())
    }

    /// The options that are there.
    pub fn options(&self) -> impl Iterator<Item = &'static O> {
        self.0.iter().map(|(option, _)| *option)
    }
}

impl<R> Answer<R> {
    /// The request; or the program's exit code, once the text is printed.
    ///
    /// # Errors
    /// The exit code.
    pub fn request(answer: Result<Self, Failure>) -> Result<R, ExitCode> {
        match answer {
            Ok(Self::Request(request)) => Ok(request),
            Ok(Self::Text(text)) => {
                // If nobody reads the help there is nobody to tell.
                let _ = writeln!(std::io::stdout(), "{text}");
                Err(ExitCode::SUCCESS)
            }
            Err(failure) => {
                failure.print(false);
                Err(ExitCode::from(failure.code()))
            }
        }
    }
}

/// Reads the words behind the name of `program`. `told` has the texts of options that are answered by one.
pub fn read<O: Known>(
    program: &str,
    options: &'static [O],
    told: impl Fn(&[u8]) -> Option<String>,
    mut words: impl Iterator<Item = OsString>,
) -> Result<Answer<Line<O>>, Failure> {
    let (mut given, mut operands) = (Vec::new(), Vec::new());
    let listed = |failure: Failure| failure.hint(format!("`{program} --help` lists them"));
    let unknown =
        |word: &OsStr| listed(Failure::parameters(format!("{}: there is no such option", word.display())));
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
            let option = options.iter().find(|option| option.name().as_bytes() == name);
            given.push(with_value(option.ok_or_else(|| unknown(&word))?, value, &mut words)?);
        } else if bytes.len() > 1 && bytes[0] == b'-' {
            let mut letters = &bytes[1..];
            while let Some((letter, rest)) = letters.split_first() {
                if let Some(text) = told(&[*letter]) {
                    return Ok(Answer::Text(text));
                }
                let option = options.iter().find(|option| option.letter() == Some(char::from(*letter)));
                let option = option.ok_or_else(|| unknown(&word))?;
                letters = rest;
                let mut attached = None;
                if option.value().is_some() && !rest.is_empty() {
                    letters = b"";
                    attached = Some(OsString::from_vec(rest.strip_prefix(b"=").unwrap_or(rest).to_vec()));
                }
                given.push(with_value(option, attached, &mut words)?);
            }
        } else {
            operands.push(word);
        }
    }
    if operands.is_empty() {
        return Err(listed(Failure::parameters("the action is missing")));
    }
    let action = operands.remove(0).to_string_lossy().into_owned();
    // The old name takes its operands the other way round.
    if action == "create" && operands.len() > 1 {
        operands.swap(0, 1);
    }
    Ok(Answer::Request(Line { action, operands, given: Given(given) }))
}

/// The option with its value: what stands behind `=`, or the next word.
fn with_value<O: Known>(
    option: &'static O,
    attached: Option<OsString>,
    words: &mut impl Iterator<Item = OsString>,
) -> Result<(&'static O, Option<OsString>), Failure> {
    let name = option.name();
    let value = match (option.value().is_some(), attached) {
        (false, None) => return Ok((option, None)),
        (false, Some(_)) => return Err(Failure::parameters(format!("--{name} takes no value"))),
        (true, Some(value)) => value,
        (true, None) => words.next().ok_or_else(|| Failure::parameters(format!("--{name} needs a value")))?,
    };
    match option.wanted(&value) {
        None => Ok((option, Some(value))),
        Some(wanted) => {
            Err(Failure::parameters(format!("--{name} {}: that is no {wanted}", value.display())))
        }
    }
}
