//! A whole lower directory, decrypted into a new directory on all cores. What fails is left out and named.

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use atrest_filetree::{
    CopyError, CopyOptions, CopyProgress, CopySummary, FileTree, Kind, Metadata, Step, TreePath, Visit, Walk,
    WalkError, copy_out,
};
use rustix::fs::{AtFlags, CWD, Mode, Timespec, Timestamps};

use super::{HEADER_LEN, LowerTree};

/// What was exported, and what was not.
#[derive(Debug, Default)]
pub struct ExportSummary {
    /// Regular files.
    pub files: u64,
    /// Directories, without the root.
    pub directories: u64,
    /// Symbolic links.
    pub links: u64,
    /// Bytes of contents.
    pub bytes: u64,
    /// Devices, pipes and sockets.
    pub skipped: u64,
    /// What could not be decrypted or copied.
    pub failed: Vec<(TreePath, CopyError)>,
}

/// Is told what an export does, by any thread.
pub trait ExportProgress: Sync {
    /// The tree was looked through, and its lower files have room for so many bytes of contents.
    fn begins(&self, bytes: u64);

    /// So many bytes more were copied.
    fn advanced(&self, bytes: u64);
}

/// Decrypts everything below the root of `tree` into `destination`, which is made.
///
/// # Errors
/// [`CopyError::Host`] if `destination` can't be made, also if it exists. What fails afterwards is in
/// [`ExportSummary::failed`].
pub fn export(
    tree: &LowerTree,
    destination: &Path,
    preserve_permissions: bool,
    progress: &dyn ExportProgress,
) -> Result<ExportSummary, CopyError> {
    let mut plan = Plan::default();
    make_directory(destination)?;
    plan.make(tree, destination);
    progress.begins(plan.bytes);
    let options = CopyOptions { preserve_permissions, ..CopyOptions::default() };
    let summary = Mutex::new(plan.summary);
    rayon_core::scope(|scope| {
        for (path, to) in &plan.leaves {
            let summary = &summary;
            let options = &options;
            scope.spawn(move |_| {
                let copied = copy_out(tree, path, to, options, &mut Told(progress));
                let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
                match copied {
                    Ok(copied) => summary.add(&copied),
                    Err(error) => summary.failed.push((path.clone(), error)),
                }
            });
        }
    });
    let mut summary = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    // The deepest first: what is made in a directory changes its time.
    for (path, to, metadata) in plan.directories.iter().rev() {
        if let Err(error) = finish_directory(to, metadata, preserve_permissions) {
            summary.failed.push((path.clone(), error));
        }
    }
    summary.failed.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(summary)
}

/// What is to be copied once the directories are there.
#[derive(Default)]
struct Plan {
    leaves: Vec<(TreePath, PathBuf)>,
    directories: Vec<(TreePath, PathBuf, Metadata)>,
    /// Of contents, as far as the sizes of lower files tell.
    bytes: u64,
    summary: ExportSummary,
}

impl Plan {
    /// Makes the directories and notes what is to be in them.
    fn make(&mut self, tree: &LowerTree, destination: &Path) {
        let mut walk = Walk::by_names(tree, &TreePath::root());
        while let Some(step) = walk.next() {
            match step {
                Ok(Step::Enter(visit)) if visit.path.is_root() => {}
                Ok(Step::Enter(visit)) => {
                    if let Err(error) = self.directory(tree, &visit.path, destination) {
                        self.summary.failed.push((visit.path, error));
                        walk.leave_out();
                    }
                }
                Ok(Step::Leave(_)) => {}
                Ok(Step::Leaf(visit)) => self.leaf(tree, visit, destination),
                Err(error) => self.failed(error),
            }
        }
    }

    fn directory(&mut self, tree: &LowerTree, path: &TreePath, destination: &Path) -> Result<(), CopyError> {
        let to = destination.join(OsStr::from_bytes(path.as_bytes()));
        let metadata = tree.metadata(path).map_err(|error| CopyError::Tree { path: path.clone(), error })?;
        make_directory(&to)?;
        // intended: a count for people.
        self.summary.directories = self.summary.directories.saturating_add(1);
        self.directories.push((path.clone(), to, metadata));
        Ok(())
    }

    fn leaf(&mut self, tree: &LowerTree, visit: Visit, destination: &Path) {
        let to = destination.join(OsStr::from_bytes(visit.path.as_bytes()));
        match visit.kind {
            Kind::File => {
                // intended: an estimate; the copy itself reports the error.
                let len = tree.lower_len(&visit.path).unwrap_or(0);
                // intended: an estimate for people.
                self.bytes = self.bytes.saturating_add(len.saturating_sub(HEADER_LEN));
                self.leaves.push((visit.path, to));
            }
            Kind::Link => self.leaves.push((visit.path, to)),
            // intended: a count for people.
            _ => self.summary.skipped = self.summary.skipped.saturating_add(1),
        }
    }

    fn failed(&mut self, error: WalkError) {
        let path = match &error {
            WalkError::Tree { path, .. }
            | WalkError::TooDeep { path, .. }
            | WalkError::Twice { second: path, .. } => path.clone(),
            _ => TreePath::root(),
        };
        self.summary.failed.push((path, error.into()));
    }
}

impl ExportSummary {
    fn add(&mut self, copied: &CopySummary) {
        // intended: a count for people.
        self.files = self.files.saturating_add(copied.files);
        // intended: a count for people.
        self.links = self.links.saturating_add(copied.links);
        // intended: a count for people.
        self.bytes = self.bytes.saturating_add(copied.bytes);
        // intended: a count for people.
        self.skipped = self.skipped.saturating_add(copied.skipped);
    }
}

struct Told<'a>(&'a dyn ExportProgress);

impl CopyProgress for Told<'_> {
    fn advanced(&mut self, bytes: u64) {
        self.0.advanced(bytes);
    }
}

fn make_directory(path: &Path) -> Result<(), CopyError> {
    DirBuilder::new().mode(0o700).create(path).map_err(|error| CopyError::Host {
        path: path.to_owned(),
        errno: error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error()),
    })
}

fn finish_directory(path: &Path, metadata: &Metadata, preserve: bool) -> Result<(), CopyError> {
    let host =
        |errno: rustix::io::Errno| CopyError::Host { path: path.to_owned(), errno: errno.raw_os_error() };
    if preserve {
        let umask = rustix::process::umask(Mode::empty());
        rustix::process::umask(umask);
        let mode = Mode::from_raw_mode(u32::from(metadata.mode) & 0o777) & !umask;
        rustix::fs::chmod(path, mode).map_err(host)?;
    }
    let time = Timespec { tv_sec: metadata.modified.seconds, tv_nsec: metadata.modified.nanoseconds.into() };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(host)
}
