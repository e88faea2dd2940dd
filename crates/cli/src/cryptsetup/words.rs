//! What a command line asks cryptsetup for.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::action::Action;
use super::option::{OPTIONS, Opt, Value};
use crate::args::size::parse_size;
use crate::failure::Failure;
use crate::popt::{self, Given, Known, Line};

/// What is asked for.
#[derive(Debug)]
pub struct Request {
    pub action: Action,
    /// The type of volume that the action's name implies, or that --type says.
    pub kind: Option<String>,
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
    pub fn text(&self, name: &str) -> Option<&OsStr> {
        self.given.value(name)
    }

    /// All values of an option.
    pub fn texts(&self, name: &str) -> impl Iterator<Item = &OsStr> {
        self.given.values(name)
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
        self.given.count(name)
    }

    /// The names of the options that are there.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.given.options().map(|option| option.name)
    }

    /// The options that are there.
    pub fn options(&self) -> impl Iterator<Item = &'static Opt> {
        self.given.options()
    }

    /// The first operand: the device or the name.
    pub fn first(&self) -> &Path {
        Path::new(self.operands.first().map_or(OsStr::new(""), OsString::as_os_str))
    }

    /// The file with the volume key, by either name.
    pub fn volume_key_file(&self) -> Option<&OsStr> {
        self.text("volume-key-file").or_else(|| self.text("master-key-file"))
    }

    /// Whether the volume key itself is named.
    pub fn has_volume_key(&self) -> bool {
        self.volume_key_file().is_some() || self.has("volume-key-keyring")
    }

    /// Where the header lies: on the device, or in the file that --header names.
    pub fn header(&self) -> &Path {
        self.text("header").map_or_else(|| self.first(), Path::new)
    }
}

/// Reads the words behind the program's name.
pub fn read(words: impl Iterator<Item = OsString>) -> Result<Answer, Failure> {
    let Line { action, operands, mut given } = match popt::read("cryptsetup", OPTIONS, told, words)? {
        popt::Answer::Request(line) => line,
        popt::Answer::Text(text) => return Ok(Answer::Text(text)),
    };
    // What the program was told that re-encrypted before there was an action for it.
    given.rename(OPTIONS, "new", "encrypt");
    let (action, kind) = Action::named(&action)?;
    let mut request = Request { action, kind: kind.map(str::to_owned), operands, given };
    if request.kind.is_none() {
        request.kind = request.text("type").map(|kind| kind.to_string_lossy().into_owned());
    }
    Ok(Answer::Request(request))
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
            Value::Number => Some("NUMBER"),
            Value::Size => Some("SIZE"),
        }
    }

    fn wanted(&self, value: &OsStr) -> Option<&'static str> {
        let text = value.to_str();
        match self.value {
            Value::Number if text.is_none_or(|text| text.parse::<u64>().is_err()) => Some("whole number"),
            Value::Size if text.is_none_or(|text| parse_size(text).is_err()) => Some("size"),
            _ => None,
        }
    }
}

/// What `--help`, `--usage` and `--version` print.
fn told(name: &[u8]) -> Option<String> {
    let actions = Action::ALL.map(|action| (action.spelling().name, action.spelling().operands));
    popt::told(name, ("cryptsetup", "KEYRING "), actions, OPTIONS, ENDS)
}

const ENDS: &str = "\nExamples:\n  cryptsetup luksFormat disk.img\n  cryptsetup open disk.img secret\n  cryptsetup close secret\n\n\
                     What is not listed is refused by its name.";
