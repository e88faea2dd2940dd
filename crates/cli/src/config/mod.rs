//! The configuration file: defaults, and volumes by their names. docs/CONFIG.md is its published form.

mod apply;
mod file;
mod keys;
mod login;
mod read;
mod show;
mod way;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use apply::apply;
pub use login::at_login;
pub use show::show;

use crate::failure::Failure;

/// What the file says.
#[derive(Debug, Default)]
pub struct Config {
    /// Where it is, if there is one.
    file: Option<PathBuf>,
    defaults: Settings,
    volumes: BTreeMap<String, Settings>,
}

/// Keys of one table, and what they are set to.
#[derive(Debug, Default)]
pub struct Settings {
    values: BTreeMap<&'static str, Setting>,
}

/// A value, and the line that it is on.
#[derive(Clone, Debug)]
struct Setting {
    value: Value,
    line: usize,
}

/// What a key can be set to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Text(String),
    Number(u64),
    Flag(bool),
}

impl Config {
    /// Reads the file that `named` names, or the environment, or the one in its usual place.
    ///
    /// # Errors
    /// If a file that is named is not there, if others could have written it, and if it is not as docs/CONFIG.md says.
    pub fn load(named: Option<&Path>) -> Result<Self, Failure> {
        match file::read(named)? {
            Some((path, text)) => read::read(&path, &text),
            None => Ok(Self::default()),
        }
    }

    /// Seconds that a key derivation may take, where nothing else is asked for.
    pub fn max_kdf_time(&self) -> Option<u64> {
        self.defaults.number("max-kdf-time")
    }

    /// The names of volumes, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.volumes.keys().map(String::as_str)
    }

    fn at(&self, line: usize) -> String {
        let file = self.file.as_deref().unwrap_or(Path::new("the configuration")); // intended: there is one.
        format!("{}, line {line}", file.display())
    }
}

impl Settings {
    fn text(&self, key: &str) -> Option<&str> {
        match self.values.get(key).map(|setting| &setting.value) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        self.text(key).map(PathBuf::from)
    }

    fn number(&self, key: &str) -> Option<u64> {
        match self.values.get(key).map(|setting| &setting.value) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    fn flag(&self, key: &str) -> bool {
        matches!(self.values.get(key).map(|setting| &setting.value), Some(Value::Flag(true)))
    }

    fn line(&self, key: &str) -> usize {
        // intended: what is set has a line.
        self.values.get(key).map_or(0, |setting| setting.line)
    }
}
