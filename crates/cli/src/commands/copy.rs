//! `atrest cp`: files out of a volume, and into one.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use atrest_filetree::{
    CopyError, CopyOptions, CopySummary, Kind, LastLink, TreePath, copy_in, copy_in_stream, copy_out,
};
use indicatif::ProgressBar;
use serde_json::json;

use super::files;
use super::inside::{Listener, bytes_below, copy_failure, find, host_bytes_below, open_as_it_is, read_only};
use super::places::{Places, matching, split};
use super::text::counted;
use crate::amount::Bytes;
use crate::args::inside::CpArgs;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::{progress, streams};

/// What is copied where.
enum Way {
    Out { from: Places, to: PathBuf },
    In { from: Vec<PathBuf>, volume: PathBuf, to: PathBuf },
}

impl Way {
    fn of(words: &[PathBuf]) -> Result<Self, Failure> {
        let unclear = || {
            Failure::parameters("one side must be VOLUME:/path, and the other a path of this system")
                .hint("as in: atrest cp secret.img:/etc/hostname .")
        };
        let Some((to, from)) = words.split_last().filter(|(_, from)| !from.is_empty()) else {
            return Err(unclear());
        };
        let are_inside = from.iter().filter(|word| split(word).is_some()).count();
        match split(to) {
            None if are_inside == from.len() => {
                Ok(Self::Out { from: Places::with_paths(from, "cp")?, to: to.clone() })
            }
            Some((volume, to)) if are_inside == 0 => Ok(Self::In { from: from.to_vec(), volume, to }),
            _ => Err(unclear()),
        }
    }
}

pub fn cp(args: &CpArgs, output: &Output) -> Result<u8, Failure> {
    let way = Way::of(&args.paths)?;
    let (volume, inward) = match &way {
        Way::Out { from, .. } => (&from.volume, false),
        Way::In { volume, .. } => (volume, true),
    };
    let is_stream = match &way {
        Way::Out { to, .. } => streams::is_stream(to),
        Way::In { from, .. } => from.iter().any(|from| streams::is_stream(from)),
    };
    if is_stream && (args.recursive || args.preserve) {
        return Err(Failure::parameters("\"-\" is one file, without directories and permissions")
            .hint("leave --recursive and --preserve out, or name a path"));
    }
    if is_stream && args.paths.len() > 2 {
        return Err(Failure::parameters("\"-\" is one file: name one source")
            .hint("`atrest cat` writes several files, one after the other"));
    }
    let mut source = match is_stream && inward {
        true => Some(streams::input(&args.unlock.secret)?),
        false => None,
    };
    let tree = open_as_it_is(volume, &args.unlock, &args.partition, inward, output)?;
    let tree = &*tree;
    if inward && args.keep_going {
        return Err(Failure::parameters("--keep-going is for copies out of a volume"));
    }
    // What can't be made can be overwritten.
    if inward && !tree.about().writable && (is_stream || !tree.overwrites()) {
        return Err(read_only(tree.about().name, volume));
    }
    let options = CopyOptions {
        recursive: args.recursive,
        overwrite: output.says_yes(),
        preserve_permissions: args.preserve,
        keep_going: args.keep_going,
    };
    let bar = |count: &dyn Fn() -> u64| match progress::is_drawn(output) {
        true => progress::bytes_bar(count(), output),
        // Looking at all of a tree for nobody would only take time.
        false => ProgressBar::hidden(),
    };
    let mut done = CopySummary::default();
    let mut count = |copied: Result<CopySummary, CopyError>| -> Result<(), Failure> {
        add(&mut done, copied.map_err(copy_failure)?);
        Ok(())
    };
    match &way {
        Way::Out { from, to } => {
            let entries = from.paths.iter().map(|path| matching(tree, path, LastLink::Keep));
            let entries = entries.collect::<Result<Vec<_>, _>>()?.concat();
            if is_stream {
                let [entry] = &*entries else { return Err(several_to("-")) };
                return files::print(tree, entry, output).map(|()| 0);
            }
            if entries.len() > 1 && !to.is_dir() {
                return Err(several_to(&to.display().to_string()));
            }
            files::refuse_equal(entries.iter().filter_map(TreePath::name), &to.display(), false)?;
            let mut listener = Listener::new(bar(&|| bytes_below(tree, &entries)), output);
            for entry in &entries {
                count(copy_out(tree, entry, to, &options, &mut listener))?;
            }
            listener.end();
        }
        Way::In { from, to, .. } => {
            let place = find(tree, to, LastLink::Follow)?;
            let is_dir = tree.metadata(&place).is_ok_and(|found| found.kind == Kind::Directory);
            if from.len() > 1 && !is_dir {
                return Err(several_to(&to.display().to_string()));
            }
            let names = from.iter().filter_map(|from| from.file_name()).map(OsStr::as_bytes);
            files::refuse_equal(names, &place, files::folds_case(tree))?;
            let bar = if is_stream { progress::bytes_count(output) } else { bar(&|| host_bytes_below(from)) };
            let mut listener = Listener::new(bar, output);
            if let Some(source) = &mut source {
                count(copy_in_stream(source, tree, &place, &options, &mut listener))?;
            } else {
                for from in from {
                    count(copy_in(from, tree, &place, &options, &mut listener))?;
                }
            }
            listener.end();
        }
    }
    report(&done, args.keep_going, output)?;
    Ok(if done.failed == 0 { 0 } else { Code::Device as u8 })
}

fn several_to(to: &str) -> Failure {
    Failure::parameters(format!("{to}: several can be copied into a directory only"))
        .hint("name a directory that is there")
}

fn add(sum: &mut CopySummary, more: CopySummary) {
    let CopySummary { files, directories, links, bytes, skipped, failed } = more;
    sum.files += files;
    sum.directories += directories;
    sum.links += links;
    sum.bytes += bytes;
    sum.skipped += skipped;
    sum.failed += failed;
}

fn report(done: &CopySummary, keeps_going: bool, output: &Output) -> Result<(), Failure> {
    let left_out = match keeps_going {
        true => format!("; {} left out", done.failed + done.skipped),
        false => String::new(),
    };
    output.done(
        &json!({
            "files": done.files, "directories": done.directories, "links": done.links,
            "bytes": done.bytes, "skipped": done.skipped, "failed": done.failed,
        }),
        &format!(
            "{}, {}, {}, {}{left_out}",
            counted(done.files, "file", "files"),
            counted(done.directories, "directory", "directories"),
            counted(done.links, "link", "links"),
            Bytes(done.bytes),
        ),
    )
}
