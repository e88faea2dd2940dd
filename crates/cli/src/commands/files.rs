//! `atrest ls`, `cat`, `mkdir`, `rm`, `mv` and `df`.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use atrest_filetree::{
    FileTree, IfExists, Kind, LastLink, Metadata, Step, Stop, TreeError, TreePath, Walk, remove,
};
use indicatif::ProgressBar;
use serde_json::json;

use super::inside::{at, copy_failure, exists, find, inner_failure, open};
use super::listing::{Rows, Sizes};
use super::places::{Places, matching};
use super::text::counted;
use crate::amount::Bytes;
use crate::args::inside::{CatArgs, DfArgs, LsArgs, MkdirArgs, MvArgs, RmArgs};
use crate::failure::{Code, Failure};
use crate::output::{Line, Output};
use crate::{progress, streams};

pub fn ls(args: &LsArgs, output: &Output) -> Result<u8, Failure> {
    let Places { volume, mut paths } = Places::of(&args.places, "ls")?;
    if paths.is_empty() {
        paths.push("/".into());
    }
    let tree = open(&volume, &args.unlock, &args.partition, false, output)?;
    let tree = &*tree;
    let (mut directories, mut others) = (Vec::new(), Vec::new());
    for path in &paths {
        for entry in matching(tree, path, LastLink::Follow)? {
            let metadata = tree.metadata(&entry).map_err(at(path))?;
            let list = if metadata.kind == Kind::Directory { &mut directories } else { &mut others };
            list.push((entry, metadata));
        }
    }
    let mut list = List {
        tree,
        output,
        long: args.long.then_some(Sizes { human: args.human_readable }),
        told: args.recursive || directories.len() + others.len() > 1,
        begun: false,
        damaged: false,
    };
    output.report_by(|line| {
        for (path, metadata) in &others {
            list.one(path, metadata, line)?;
        }
        for (path, _) in &directories {
            match args.recursive {
                true => list.everything_below(path, line)?,
                false => list.directory(path, line)?,
            }
        }
        Ok(())
    })?;
    Ok(if list.damaged { Code::Device as u8 } else { 0 })
}

/// Prints a line.
type Print<'p> = &'p mut dyn FnMut(Line<'_>) -> Result<(), Failure>;

/// What `ls` prints.
struct List<'a> {
    tree: &'a dyn FileTree,
    output: &'a Output,
    /// Whether more than names is shown, and how.
    long: Option<Sizes>,
    /// Names do not say where the files are: their paths are told.
    told: bool,
    /// Something is printed already.
    begun: bool,
    /// Something of a file could not be read.
    damaged: bool,
}

impl List<'_> {
    /// What is no directory.
    fn one(&mut self, path: &TreePath, metadata: &Metadata, line: Print<'_>) -> Result<(), Failure> {
        let whole = [b"/", path.as_bytes()].concat();
        let name = path.name().filter(|_| !self.told).unwrap_or(&whole);
        let rows = Rows::of_one(name, metadata);
        self.rows(&rows, |_| Ok(path.clone()), line)
    }

    fn directory(&mut self, path: &TreePath, line: Print<'_>) -> Result<(), Failure> {
        // Names alone need no look at each file.
        let looks = self.long.is_some() || self.output.is_json();
        let rows = Rows::of_directory(self.tree, path, looks).map_err(|error| inner_failure(path, error))?;
        if self.told {
            if self.begun {
                line(Line::Heading(""))?;
            }
            line(Line::Heading(&format!("{path}:")))?;
        }
        self.rows(&rows, |name| path.join(name).map_err(|error| inner_failure(path, error.into())), line)
    }

    /// A directory and those in it. What is damaged takes nothing else along.
    fn everything_below(&mut self, path: &TreePath, line: Print<'_>) -> Result<(), Failure> {
        for step in Walk::by_names(self.tree, path) {
            match step {
                Ok(Step::Enter(visit)) => self.directory(&visit.path, line)?,
                Ok(_) => {}
                Err(error) => {
                    self.damaged = true;
                    self.output.warn(copy_failure(error.into()).what());
                }
            }
        }
        Ok(())
    }

    fn rows(
        &mut self,
        rows: &Rows,
        path_of: impl Fn(&[u8]) -> Result<TreePath, Failure>,
        line: Print<'_>,
    ) -> Result<(), Failure> {
        self.begun = true;
        for row in rows.iter() {
            let path = path_of(row.name)?;
            let row = row.look(self.tree, &path, self.output);
            self.damaged |= row.damage.is_some();
            let told = self.told.then_some(&path);
            line(Line::Row(&|| row.json(told), &|| row.text(self.long)))?;
        }
        Ok(())
    }
}

pub fn cat(args: &CatArgs, output: &Output) -> Result<(), Failure> {
    let Places { volume, paths } = Places::with_paths(&args.places, "cat")?;
    let volume = streams::volume(&volume, &args.unlock.secret)?;
    let tree = open(&volume, &args.unlock, &args.partition, false, output)?;
    for path in &paths {
        for entry in matching(&*tree, path, LastLink::Follow)? {
            print(&*tree, &entry, output)?;
        }
    }
    Ok(())
}

/// Writes a file to standard output.
pub fn print(tree: &dyn FileTree, path: &TreePath, output: &Output) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    // On a terminal the file itself shows how far it is.
    let bar = match (out.is_terminal(), tree.metadata(path)) {
        (false, Ok(found)) => progress::bytes_bar(found.size, output),
        _ => ProgressBar::hidden(),
    };
    let mut failure = None;
    let read = tree.read_to(path, &mut |piece| {
        bar.inc(piece.len() as u64);
        out.write_all(piece).map_err(|error| {
            failure = Some(error);
            Stop
        })
    });
    bar.finish_and_clear();
    if let Some(error) = failure {
        return Err(Failure::io(&error));
    }
    read.map_err(|error| inner_failure(path, error))?;
    Ok(out.flush()?)
}

pub fn mkdir(args: &MkdirArgs, output: &Output) -> Result<(), Failure> {
    let Places { volume, paths } = Places::with_paths(&args.places, "mkdir")?;
    let tree = open(&volume, &args.unlock, &args.partition, true, output)?;
    for path in &paths {
        make_dir(&*tree, path, args.parents)?;
    }
    tree.flush().map_err(at(&volume))?;
    let made: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
    // What was one path before there could be several is one still.
    let data = if let [one] = &*made { json!({ "made": one }) } else { json!({ "made": made }) };
    let verb = if made.len() == 1 { "is" } else { "are" };
    output.done(&data, &format!("{} {verb} made", made.join(", ")))
}

fn make_dir(tree: &dyn FileTree, path: &Path, parents: bool) -> Result<(), Failure> {
    let found = find(tree, path, LastLink::Follow).or_else(|failure| match parents {
        true => TreePath::parse(path.as_os_str().as_bytes()).map_err(|error| at(path)(error.into())),
        false => Err(failure),
    })?;
    let mut missing = vec![found];
    while let Some(parent) = missing.last().filter(|_| parents).and_then(TreePath::parent) {
        missing.push(parent);
    }
    while let Some(path) = missing.pop() {
        match tree.make_dir(&path) {
            Err(TreeError::Exists) if parents && is_dir(tree, &path) => {}
            Err(TreeError::Exists) => {
                return Err(Failure::new(Code::Busy, format!("{path}: it exists already")));
            }
            made => made.map_err(|error| inner_failure(&path, error))?,
        }
    }
    Ok(())
}

fn is_dir(tree: &dyn FileTree, path: &TreePath) -> bool {
    tree.metadata(path).is_ok_and(|found| found.kind == Kind::Directory)
}

/// Every entry that is named, before anything is changed: a name that is missing stops a command that would do half of its work.
fn all_of(tree: &dyn FileTree, paths: &[impl AsRef<Path>]) -> Result<Vec<TreePath>, Failure> {
    let mut entries = Vec::new();
    for path in paths {
        for entry in matching(tree, path.as_ref(), LastLink::Keep)? {
            tree.metadata(&entry).map_err(at(path.as_ref()))?;
            entries.push(entry);
        }
    }
    Ok(entries)
}

pub fn rm(args: &RmArgs, output: &Output) -> Result<(), Failure> {
    let Places { volume, paths } = Places::with_paths(&args.places, "rm")?;
    let tree = open(&volume, &args.unlock, &args.partition, true, output)?;
    let mut removed = 0;
    for entry in all_of(&*tree, &paths)? {
        removed += remove(&*tree, &entry, args.recursive).map_err(|error| copy_failure(error.into()))?;
    }
    tree.flush().map_err(at(&volume))?;
    output.done(&json!({ "removed": removed }), &format!("{} removed", counted(removed, "entry", "entries")))
}

pub fn mv(args: &MvArgs, output: &Output) -> Result<(), Failure> {
    let Places { volume, mut paths } = Places::with_paths(&args.places, "mv")?;
    let (Some(destination), false) = (paths.pop(), paths.is_empty()) else {
        return Err(Failure::parameters("what is moved, or where to, is missing")
            .hint("as in: atrest mv card.img:/old.txt card.img:/new.txt"));
    };
    let tree = open(&volume, &args.unlock, &args.partition, true, output)?;
    let tree = &*tree;
    let to = find(tree, &destination, LastLink::Follow)?;
    let into = is_dir(tree, &to);
    let entries = all_of(tree, &paths)?;
    if entries.len() > 1 && !into {
        return Err(Failure::parameters(format!("{to}: several can be moved into a directory only"))
            .hint(format!("make it first: atrest mkdir {}:{to}", volume.display())));
    }
    let mut targets = Vec::new();
    for from in &entries {
        let to = match from.name().filter(|_| into) {
            Some(name) => to.join(name).map_err(|error| inner_failure(&to, error.into()))?,
            None => to.clone(),
        };
        if is_at_or_above(from, &to) {
            return Err(Failure::parameters(format!(
                "{from} can't be moved to {to}, which is the same or in it"
            )));
        }
        targets.push(to);
    }
    refuse_equal(entries.iter().filter_map(TreePath::name), &to, folds_case(tree))?;
    let if_exists = if output.says_yes() { IfExists::Replace } else { IfExists::Fail };
    for (from, to) in entries.iter().zip(&targets) {
        tree.rename(from, to, if_exists).map_err(|error| match error {
            TreeError::Exists => exists(to),
            error => inner_failure(from, error),
        })?;
    }
    tree.flush().map_err(at(&volume))?;
    output.done(
        &json!({ "moved": entries.len() }),
        &format!("{} moved", counted(entries.len() as u64, "entry", "entries")),
    )
}

/// Whether `path` is `other`, or a directory in which that lies.
fn is_at_or_above(path: &TreePath, other: &TreePath) -> bool {
    let mut below = other.components();
    path.components().all(|name| below.next() == Some(name))
}

/// Whether letters count alike in either case in the names of a filesystem.
pub fn folds_case(tree: &dyn FileTree) -> bool {
    matches!(tree.about().name, "FAT12" | "FAT16" | "FAT32" | "exFAT" | "NTFS")
}

/// Refuses files of which two would have one name in the directory `to`: the one that comes last would take the other's place.
pub fn refuse_equal<'a>(
    names: impl Iterator<Item = &'a [u8]>,
    to: &impl Display,
    folds_case: bool,
) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    for name in names {
        // A name that is none is refused where it is used.
        let Ok(place) = TreePath::parse(name) else { continue };
        let counts = match folds_case {
            true => String::from_utf8_lossy(name).to_lowercase().into_bytes(),
            false => name.to_vec(),
        };
        if !seen.insert(counts) {
            let place = place.to_string();
            let name = place.trim_start_matches('/');
            return Err(Failure::parameters(format!("two files named {name} would be in {to}"))
                .hint("take one of them to another directory or name first"));
        }
    }
    Ok(())
}

pub fn df(args: &DfArgs, output: &Output) -> Result<(), Failure> {
    let tree = open(&args.volume, &args.unlock, &args.partition, false, output)?;
    let (about, space) = (tree.about(), tree.space().map_err(at(&args.volume))?);
    // cannot overflow: a filesystem lies inside its device.
    let bytes = |blocks: u64| blocks.saturating_mul(space.block_size.into());
    let (size, free) = (bytes(space.blocks), bytes(space.free));
    // cannot overflow: readers count no more free blocks than there are.
    let used = size.saturating_sub(free);
    output.report(
        &json!({
            "filesystem": about.name, "block_size": space.block_size, "blocks": space.blocks, "free_blocks": space.free,
            "size": size, "used": used, "free": free,
        }),
        &format!("{}: {}, {} used, {} free ({} of {})", about.name, Bytes(size), Bytes(used), Bytes(free), counted(space.blocks, "block", "blocks"), space.block_size),
    )
}
