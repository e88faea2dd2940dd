//! The kernel command line, in the dialects that people have: systemd's `luks.*` and `rd.luks.*`, dracut's `rd.luks.*`, and
//! mkinitcpio's `cryptdevice=`, `cryptkey=` and `crypto=`.

use std::path::Path;
use std::sync::Arc;

use super::mkinitcpio;
use super::notice::{Notice, Origin, Problem};
use super::requested::Requested;
use super::root::Boot;
use super::words;

/// What the kernel command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// Whether encrypted volumes are opened at all (`luks=`, `rd.luks=`).
    pub enabled: bool,
    /// Whether crypttab is read (`luks.crypttab=`, `rd.luks.crypttab=`).
    pub uses_crypttab: bool,
    /// What is said of volumes in systemd's and dracut's words.
    pub requested: Requested,
    /// mkinitcpio's volume.
    pub cryptdevice: mkinitcpio::CryptDevice,
    /// What init is asked for.
    pub boot: Boot,
    /// What is wrong with it.
    pub notices: Vec<Notice>,
}

impl CommandLine {
    /// Reads a command line as `/proc/cmdline` has it; `file` is for messages.
    pub fn parse(file: &Path, text: &str) -> Self {
        let file: Arc<Path> = file.into();
        let mut line = Self {
            enabled: true,
            uses_crypttab: true,
            requested: Requested::default(),
            cryptdevice: mkinitcpio::CryptDevice::default(),
            boot: Boot::default(),
            notices: Vec::new(),
        };
        let mut words = split(text).into_iter();
        for word in words.by_ref() {
            if word == "--" {
                break;
            }
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word.as_str(), None),
            };
            // The kernel takes the two for the same.
            let name = name.replace('_', "-");
            let origin = Origin::parameter(&file, &word);
            if let Err(problem) = line.add(&name, value, &origin) {
                line.notices.push(Notice { origin, problem });
            }
        }
        line.boot.arguments = words.collect();
        line
    }

    fn add(&mut self, name: &str, value: Option<&str>, origin: &Origin) -> Result<(), Problem> {
        // intended: no value is shown as an empty one.
        let bad = || Problem::ParameterValue { value: value.unwrap_or_default().into() };
        let switch = || value.map_or(Some(true), words::switch).ok_or_else(bad);
        match name.strip_prefix("rd.").unwrap_or(name) {
            "luks" => self.enabled = switch()?,
            "luks.crypttab" => self.uses_crypttab = switch()?,
            "cryptdevice" | "cryptkey" | "crypto" => return self.cryptdevice.add(name, value, origin),
            other => match other.strip_prefix("luks.") {
                Some(luks) => return self.requested.add(luks, value, origin),
                None => return self.boot.add(name, value),
            },
        }
        Ok(())
    }
}

/// Words, which double quotes hold together; the quotes go.
fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut quoted, mut begun) = (false, false);
    for c in text.chars() {
        match c {
            '"' => {
                quoted = !quoted;
                begun = true;
            }
            c if c.is_ascii_whitespace() && !quoted => {
                if begun {
                    words.push(core::mem::take(&mut word));
                }
                begun = false;
            }
            c => {
                word.push(c);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_words_together() {
        assert_eq!(split("a  b=c \"d e\" f=\"g h\"\n"), ["a", "b=c", "d e", "f=g h"]);
        assert_eq!(split(" \"open b"), ["open b"]);
        assert!(split(" \n").is_empty());
    }
}
