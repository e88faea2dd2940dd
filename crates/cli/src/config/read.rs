//! From the text of the configuration file to what it says. Whatever is not understood is an error with its line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::keys::{KEYS, Key, Kind, SECRETS, close_to, is_name};
use super::{Config, Setting, Settings, Value};
use crate::args::secrets::PassphraseFrom;
use crate::failure::Failure;

/// What the text of `path` says.
///
/// # Errors
/// If it is no TOML, or has a key or a value that means nothing.
pub fn read(path: &Path, text: &str) -> Result<Config, Failure> {
    let reader = Reader { path, text };
    let table = DeTable::parse(text).map_err(|error| {
        // intended: an error without a place is one of the whole.
        let start = error.span().map_or(0, |span| span.start);
        reader.refused(start, error.message())
    })?;
    let mut config = Config { file: Some(path.to_owned()), ..Config::default() };
    for (name, value) in table.get_ref() {
        let at = name.span().start;
        match (&**name.get_ref(), value.get_ref()) {
            ("defaults", DeValue::Table(table)) => {
                config.defaults = reader.settings(table, |key| key.default, "[defaults]")?;
            }
            ("volumes", DeValue::Table(table)) => config.volumes = reader.volumes(table)?,
            ("defaults" | "volumes", _) => {
                return Err(reader.refused(at, &format!("{} is a table", name.get_ref())));
            }
            (other, _) => {
                let failure = reader.refused(at, &format!("there is no table or key \"{other}\" here"));
                return Err(failure.hint(
                    "the file has [defaults] and [volumes.NAME]; docs/CONFIG.md says what is in them",
                ));
            }
        }
    }
    Ok(config)
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        1 + self.text.bytes().take(at).filter(|byte| *byte == b'\n').count()
    }

    fn refused(&self, at: usize, what: &str) -> Failure {
        Failure::parameters(format!("{}, line {}: {what}", self.path.display(), self.line(at)))
    }

    fn volumes(&self, table: &DeTable<'_>) -> Result<BTreeMap<String, Settings>, Failure> {
        let mut volumes = BTreeMap::new();
        for (name, value) in table {
            let at = name.span().start;
            let name = &**name.get_ref();
            if !is_name(name) {
                return Err(self
                    .refused(at, &format!("a volume can't have the name \"{name}\""))
                    .hint("a name has up to 64 letters, digits, - and _, and does not begin with -"));
            }
            let DeValue::Table(table) = value.get_ref() else {
                return Err(self.refused(at, &format!("{name} is no table, as [volumes.{name}] would be")));
            };
            let settings = self.settings(table, |key| key.volume, &format!("[volumes.{name}]"))?;
            self.check(at, name, &settings)?;
            volumes.insert(name.to_owned(), settings);
        }
        Ok(volumes)
    }

    /// What one key alone does not tell.
    fn check(&self, at: usize, name: &str, settings: &Settings) -> Result<(), Failure> {
        if settings.text("path").is_none() {
            return Err(self
                .refused(at, &format!("the volume {name} has no path"))
                .hint("path = \"/dev/disk/by-uuid/…\", a file, or a URL"));
        }
        if let (Some(_), Some(_)) = (settings.text("key-file"), settings.text("passphrase-from")) {
            return Err(self.refused(at, &format!("{name}: key-file and passphrase-from exclude each other")));
        }
        let needs = match settings.text("face") {
            Some("fuse") => Some("directory"),
            Some("vhost-user") => Some("socket"),
            _ => None,
        };
        match needs.filter(|key| settings.text(key).is_none()) {
            Some(key) => Err(self.refused(at, &format!("{name}: its face needs a {key}"))),
            None => Ok(()),
        }
    }

    fn settings(
        &self,
        table: &DeTable<'_>,
        may: impl Fn(&Key) -> bool,
        of: &str,
    ) -> Result<Settings, Failure> {
        let mut settings = Settings::default();
        for (name, value) in table {
            let at = name.span().start;
            let word = &**name.get_ref();
            let Some(key) = KEYS.iter().find(|key| key.name == word && may(key)) else {
                let failure = self.refused(at, &format!("{of} has no key \"{word}\""));
                let known = KEYS.iter().filter(|key| may(key)).map(|key| key.name);
                return Err(match close_to(word, known) {
                    _ if SECRETS.contains(&&*word.to_ascii_lowercase()) => failure.hint(
                        "secrets do not belong into this file: passphrase-from or key-file says where one is",
                    ),
                    Some(near) => failure.hint(format!("did you mean {near}?")),
                    None => failure.hint("docs/CONFIG.md lists the keys"),
                });
            };
            let value = self.value(key, value)?;
            settings.values.insert(key.name, Setting { value, line: self.line(at) });
        }
        Ok(settings)
    }

    fn value(&self, key: &Key, value: &Spanned<DeValue<'_>>) -> Result<Value, Failure> {
        let refused = |what: &str| self.refused(value.span().start, &format!("{} {what}", key.name));
        match (key.kind, value.get_ref()) {
            (Kind::Flag, DeValue::Boolean(flag)) => Ok(Value::Flag(*flag)),
            (Kind::Flag, _) => Err(refused("is true or false")),
            (Kind::Number(most), DeValue::Integer(number)) => match unsigned(number).filter(|n| *n <= most) {
                Some(number) => Ok(Value::Number(number)),
                None => Err(refused(&format!("is a number from 0 to {most}"))),
            },
            (Kind::Number(_), _) => Err(refused("is a number, without quotes")),
            (_, DeValue::String(text)) if text.is_empty() || text.contains('\0') => Err(refused("is empty")),
            (Kind::OneOf(words), DeValue::String(text)) => match words.contains(&&**text) {
                true => Ok(Value::Text(text.to_string())),
                false => Err(refused(&format!("is none of {}", words.join(", ")))),
            },
            (Kind::Path | Kind::Place, DeValue::String(text)) => {
                let is_url = matches!(key.kind, Kind::Place) && atrest_open::is_url(Path::new(&**text));
                match if is_url { Some(PathBuf::from(&**text)) } else { whole(text) } {
                    Some(path) => Ok(Value::Text(path.to_string_lossy().into_owned())),
                    None => Err(refused("begins with / or ~/: it holds in every directory")),
                }
            }
            (Kind::Text, DeValue::String(text)) => {
                if key.name == "passphrase-from" {
                    text.parse::<PassphraseFrom>()
                        .map_err(|error| refused(&format!("means nothing: {error}")))?;
                }
                Ok(Value::Text(text.to_string()))
            }
            (_, _) => Err(refused("is text, in quotes")),
        }
    }
}

fn unsigned(number: &DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// A path that means the same in every directory.
fn whole(text: &str) -> Option<PathBuf> {
    if let Some(below) = text.strip_prefix("~/") {
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute())?;
        return Some(home.join(below));
    }
    Path::new(text).is_absolute().then(|| PathBuf::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        read(Path::new("/c.toml"), text).expect_err("refused").what().to_owned()
    }

    #[test]
    fn a_file_has_defaults_and_volumes() {
        let text = "[defaults]\nmax-kdf-time = 60\n\n[volumes.photos]\npath = \"/dev/sdx1\"\nface = \"nbd\"\nread-only = true\n";
        let config = read(Path::new("/c.toml"), text).expect("read");
        assert_eq!(config.max_kdf_time(), Some(60));
        let photos = &config.volumes["photos"];
        assert_eq!((photos.text("path"), photos.line("path")), (Some("/dev/sdx1"), 5));
        assert!(photos.flag("read-only") && !photos.flag("allow-discards"));
    }

    #[test]
    fn what_is_not_understood_is_named_with_its_line() {
        for (text, says) in [
            ("[defaults]\nmax-kdf-tim = 3", "/c.toml, line 2: [defaults] has no key \"max-kdf-tim\""),
            (
                "[volumes.a]\npath = \"/x\"\npassword = \"horse\"",
                "line 3: [volumes.a] has no key \"password\"",
            ),
            ("\n\n[volume.a]", "line 3: there is no table or key \"volume\" here"),
            ("[volumes.a]\npath = \"x\"", "line 2: path begins with / or ~/: it holds in every directory"),
            ("[volumes.a]\ntype = \"luks\"", "line 1: the volume a has no path"),
            ("[volumes.a]\npath = \"/x\"\ntype = \"luks9\"", "line 3: type is none of luks, plain"),
            ("[volumes.a]\npath = \"/x\"\nface = \"fuse\"", "line 1: a: its face needs a directory"),
            ("[volumes.\"a.img\"]\npath = \"/x\"", "line 1: a volume can't have the name \"a.img\""),
            ("[volumes.a]\npath = \"/x\"\nkey-slot = \"1\"", "line 3: key-slot is a number, without quotes"),
            ("[volumes.a]\npath = \"/x\"\nkey-slot = -1", "line 3: key-slot is a number from 0 to 31"),
            ("[volumes.a]\npath = \"/x\"\nread-only = 1", "line 3: read-only is true or false"),
            ("[volumes.a]\npath = [1]", "line 2: path is text, in quotes"),
            ("[volumes.a]\npath = \"/x\"\npath = \"/y\"", "line 3: "),
            ("[volumes.a\n", "line 1: "),
            ("volumes = 3", "line 1: volumes is a table"),
            (
                "[volumes.a]\npath = \"/x\"\nkey-file = \"/k\"\npassphrase-from = \"keyring:x\"",
                "line 1: a: key-file and passphrase-from exclude each other",
            ),
            (
                "[volumes.a]\npath = \"/x\"\npassphrase-from = \"horse\"",
                "line 3: passphrase-from means nothing",
            ),
        ] {
            assert!(said(text).contains(says), "{text}: {}", said(text));
            // What a file has in place of a secret's name may be the secret.
            assert!(!said(text).contains("\"horse\""), "{}", said(text));
        }
    }
}
