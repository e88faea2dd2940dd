//! What a command line asks veritysetup for.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::option::{Action, EXCLUSIVE, OPTIONS, Opt, Value};
use crate::failure::Failure;
use crate::popt::{self, Given, Known, Line};

/// What is asked for.
#[derive(Debug)]
pub struct Request {
    pub action: Action,
    pub operands: Vec<OsString>,
    given: Given<Opt>,
}

/// A request, or a text that answers the command line.
pub type Answer = popt::Answer<Request>;

impl Request {
    /// Whether the option is there.
    pub fn has(&self, name: &str) -> bool {
        self.given.has(name)
    }

    /// The value of an option; the last one counts.
    pub fn value(&self, name: &str) -> Option<&OsStr> {
        self.given.value(name)
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
    let Line { action: name, operands, given } = match popt::read("veritysetup", OPTIONS, told, words)? {
        popt::Answer::Request(line) => line,
        popt::Answer::Text(text) => return Ok(Answer::Text(text)),
    };
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
    let wrong = |option: &&Opt| !option.with.is_empty() && !option.with.contains(&request.action);
    if let Some(option) = request.given.options().find(wrong) {
        return Err(Failure::parameters(format!("--{} does not go with {name}", option.name)));
    }
    let acts = ["restart-on-corruption", "panic-on-corruption"].iter().any(|name| request.has(name));
    if request.has("error-as-corruption") && !acts {
        return Err(Failure::parameters(
            "--error-as-corruption needs --restart-on-corruption or --panic-on-corruption",
        ));
    }
    match EXCLUSIVE.iter().find(|(one, other)| request.has(one) && request.has(other)) {
        Some((one, other)) => Err(Failure::parameters(format!("--{one} and --{other} exclude one another"))),
        None => Ok(()),
    }
}

impl Known for Opt {
    fn name(&self) -> &'static str {
        self.name
    }

    fn letter(&self) -> Option<char> {
        self.letter
    }

    fn value(&self) -> Option<&'static str> {
        match self.value {
            Value::None => None,
            Value::Text => Some("STRING"),
            Value::Number(_) => Some("NUMBER"),
        }
    }

    fn wanted(&self, value: &OsStr) -> Option<&'static str> {
        let number = value.to_str().and_then(|text| text.parse::<u64>().ok());
        let fits = match self.value {
            Value::Number(32) => number.is_some_and(|number| u32::try_from(number).is_ok()),
            Value::Number(_) => number.is_some(),
            Value::None | Value::Text => true,
        };
        (!fits).then_some("whole number")
    }
}

/// What `--help`, `--usage` and `--version` print.
fn told(name: &[u8]) -> Option<String> {
    let actions = Action::ALL.iter().map(|(_, name, operands, _)| (*name, *operands));
    popt::told(name, ("veritysetup", ""), actions, OPTIONS, ENDS)
}

const ENDS: &str = "\nHash: sha256, data block (bytes): 4096, hash block (bytes): 4096, salt size: 32, hash format: 1\n\
                     What is not listed is refused by its name.";
