//! `/etc/crypttab`: a volume a line, in fields that are separated by spaces and tabs: name, device, key file, options. The last two
//! can be left out. systemd's and Debian's manual pages crypttab(5) differ in options, not in this.

use std::path::Path;
use std::sync::Arc;

use super::entry::Entry;
use super::escape::unescape;
use super::notice::{Notice, Origin, Problem};

/// What a crypttab asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crypttab {
    /// The volumes, in the order of the file.
    pub entries: Vec<Entry>,
    /// What is wrong with it.
    pub notices: Vec<Notice>,
}

impl Crypttab {
    /// Reads a crypttab. A line that makes no sense is left out; it costs nobody the others.
    pub fn parse(file: &Path, text: &str) -> Self {
        let file: Arc<Path> = file.into();
        let mut crypttab = Self::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let origin = Origin::line(&file, number + 1);
            crypttab.entries.extend(read_line(line, &origin, &mut crypttab.notices));
        }
        crypttab
    }
}

fn read_line(line: &str, origin: &Origin, notices: &mut Vec<Notice>) -> Option<Entry> {
    let mut add = |problem| notices.push(Notice { origin: origin.clone(), problem });
    let mut fields = line.split_ascii_whitespace();
    let mut decoded = || {
        let field = fields.next()?;
        Some(unescape(field).ok_or_else(|| Problem::BadEscape { text: field.into() }))
    };
    let (name, source, key) = (decoded(), decoded(), decoded());
    // intended: options need not be there.
    let options = fields.next().unwrap_or_default();
    // A comment at the end of a line is one only for people.
    if fields.next().is_some_and(|field| !field.starts_with('#')) {
        add(Problem::MoreFields);
    }
    let (Some(name), Some(source)) = (name, source) else {
        add(Problem::FewFields);
        return None;
    };
    let mut keep = |field: Result<String, Problem>| field.map_err(&mut add).ok();
    let (name, source) = (keep(name), keep(source));
    let key = keep(key.unwrap_or_else(|| Ok("none".into())));
    let (name, source, key) = (name?, source?, key?);
    let options = if options.starts_with('#') { "" } else { options };
    Entry::read(&name, &source, &key, options, origin, notices)
}
