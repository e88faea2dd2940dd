//! The rows that `atrest ls` prints. A directory may have a million of them: each is kept as few bytes as tell it.

use std::collections::HashMap;

use atrest_filetree::{Cursor, DisplayName, FileTree, Kind, Metadata, TreeError, TreePath, Wanted};
use serde_json::{Value, json};

use super::time;
use crate::amount::Human;
use crate::output::Output;

/// Entries that are asked for at once.
const PORTION: usize = 1024;

/// Rows, by name.
#[derive(Default)]
pub struct Rows {
    names: Vec<u8>,
    rows: Vec<Kept>,
    /// Why nothing more is known of some, by where their names begin.
    damage: HashMap<usize, TreeError>,
}

/// One of them.
struct Kept {
    /// Where its name begins, and how long that is.
    name: usize,
    len: usize,
    known: Option<Known>,
}

/// What is shown of a file beside its name.
#[derive(Clone, Copy)]
struct Known {
    kind: Kind,
    mode: u16,
    uid: u32,
    gid: u32,
    size: u64,
    modified: i64,
}

impl Known {
    fn of(metadata: &Metadata) -> Self {
        let Metadata { kind, mode, uid, gid, size, modified, .. } = *metadata;
        Self { kind, mode, uid, gid, size, modified: modified.seconds }
    }
}

impl Rows {
    /// The entries of a directory, with what is known of each if `looks` is set. One that is damaged takes no other along.
    pub fn of_directory(tree: &dyn FileTree, path: &TreePath, looks: bool) -> Result<Self, TreeError> {
        let mut all = Self::default();
        let wanted = Wanted { entries: PORTION, metadata: looks };
        let mut from = Cursor::START;
        loop {
            let portion = tree.list_from(path, from, wanted)?;
            let Some(last) = portion.last() else { break };
            from = last.next;
            for listed in portion {
                let name = all.add(&listed.entry.name);
                match listed.metadata {
                    Some(Ok(metadata)) => all.rows.push(Kept { known: Some(Known::of(&metadata)), ..name }),
                    Some(Err(error)) => {
                        all.damage.insert(name.name, error);
                        all.rows.push(name);
                    }
                    None => all.rows.push(name),
                }
            }
        }
        let Self { names, rows, .. } = &mut all;
        rows.sort_by(|a, b| name(names, a).cmp(name(names, b)));
        Ok(all)
    }

    /// What is no directory.
    pub fn of_one(name: &[u8], metadata: &Metadata) -> Self {
        let mut all = Self::default();
        let name = all.add(name);
        all.rows.push(Kept { known: Some(Known::of(metadata)), ..name });
        all
    }

    /// A row of which nothing is known but its name.
    fn add(&mut self, name: &[u8]) -> Kept {
        let start = self.names.len();
        self.names.extend_from_slice(name);
        Kept { name: start, len: name.len(), known: None }
    }

    /// All rows.
    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|row| Row {
            name: name(&self.names, row),
            known: row.known,
            link: None,
            damage: self.damage.get(&row.name).cloned(),
        })
    }
}

fn name<'a>(names: &'a [u8], row: &Kept) -> &'a [u8] {
    &names[row.name..row.name + row.len]
}

/// How sizes are shown.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// In KiB, MiB and so on, not in bytes.
    pub human: bool,
}

/// A row as it is shown.
pub struct Row<'a> {
    pub name: &'a [u8],
    known: Option<Known>,
    link: Option<Vec<u8>>,
    /// Why nothing more is known.
    pub damage: Option<TreeError>,
}

impl Row<'_> {
    /// Whether it is a link, whose target is shown beside it.
    pub fn is_link(&self) -> bool {
        self.known.is_some_and(|known| known.kind == Kind::Link)
    }

    /// With the target of a link, if it can be read, and a warning if something of it can't.
    pub fn look(mut self, tree: &dyn FileTree, path: &TreePath, output: &Output) -> Self {
        if self.is_link() {
            match tree.read_link(path) {
                Ok(target) => self.link = Some(target),
                Err(error) => self.damage = Some(error),
            }
        }
        if let Some(error) = &self.damage {
            output.warn(format!("{path}: {error}"));
        }
        self
    }

    /// As JSON, with its path if that is given.
    pub fn json(&self, path: Option<&TreePath>) -> Value {
        let name = path.and_then(TreePath::name).unwrap_or(self.name);
        let mut row = json!({ "name": String::from_utf8_lossy(name) });
        if let (Some(row), Some(path)) = (row.as_object_mut(), path) {
            row.insert("path".into(), path.to_string().into());
        }
        if let (Some(row), Some(damage)) = (row.as_object_mut(), &self.damage) {
            row.insert("error".into(), damage.to_string().into());
        }
        if let (Some(row), Some(known)) = (row.as_object_mut(), &self.known) {
            row.insert("kind".into(), known.kind.to_string().into());
            row.insert("size".into(), known.size.into());
            row.insert("mode".into(), format!("{:04o}", known.mode).into());
            row.insert("uid".into(), known.uid.into());
            row.insert("gid".into(), known.gid.into());
            row.insert("modified".into(), known.modified.into());
            if let Some(link) = &self.link {
                row.insert("target".into(), String::from_utf8_lossy(link).into());
            }
        }
        row
    }

    pub fn text(&self, long: Option<Sizes>) -> String {
        let name = DisplayName(self.name);
        let (known, sizes) = match (&self.known, long) {
            (Some(known), Some(sizes)) => (known, sizes),
            (None, Some(_)) => {
                return format!("?????????? {:>5} {:>5} {:>12} {:16} {name}\n", "?", "?", "?", "?");
            }
            (_, None) => return format!("{name}\n"),
        };
        let size = match sizes.human {
            true => Human(known.size).to_string(),
            false => known.size.to_string(),
        };
        // intended: what is no link has no target.
        let target = self.link.as_ref().map(|link| format!(" -> {}", DisplayName(link))).unwrap_or_default();
        format!(
            "{}{} {:>5} {:>5} {size:>12} {} {name}{target}\n",
            letter(known.kind),
            mode_text(known.mode),
            known.uid,
            known.gid,
            time::to_the_minute(known.modified),
        )
    }
}

fn letter(kind: Kind) -> char {
    match kind {
        Kind::File => '-',
        Kind::Directory => 'd',
        Kind::Link => 'l',
        Kind::Pipe => 'p',
        Kind::Socket => 's',
        Kind::CharDevice => 'c',
        Kind::BlockDevice => 'b',
    }
}

fn mode_text(mode: u16) -> String {
    (0..9).rev().map(|bit| if mode >> bit & 1 == 1 { ['x', 'w', 'r'][bit % 3] } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_written_as_ls_does() {
        assert_eq!(mode_text(0o750), "rwxr-x---");
        assert_eq!(mode_text(0o4644), "rw-r--r--");
    }
}
