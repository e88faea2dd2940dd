//! A copy of the repository in which the mutants are built: what git tracks or would track, as it is in the working tree,
//! or a commit.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The source, and the copy.
pub struct Tree {
    /// The root of the repository.
    pub repository: PathBuf,
    /// The commit that is copied. None means the working tree.
    pub revision: Option<String>,
    /// The root of the source: that of the repository, or where the commit is checked out.
    pub root: PathBuf,
    /// The root of the copy.
    pub copy: PathBuf,
}

impl Tree {
    /// The working tree of `repository`, or a commit of it, which is checked out in `work`.
    pub fn new(repository: &Path, revision: Option<String>, work: &Path) -> Result<Self, String> {
        let (repository, copy) = (repository.to_owned(), work.join("tree"));
        fs::create_dir_all(&copy).map_err(|error| format!("{}: {error}", copy.display()))?;
        let root = match &revision {
            None => repository.clone(),
            Some(revision) => check_out(&repository, revision, &work.join("commit"))?,
        };
        Ok(Self { repository, revision, root, copy })
    }

    /// Makes the copy equal to the repository. `changed` has the text of files that differ in it.
    ///
    /// A file that is as it should be is not written again, so that cargo builds no more than it must.
    pub fn copy(&self, changed: &BTreeMap<String, String>) -> Result<(), String> {
        let listed = match &self.revision {
            None => self.git(&["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?,
            Some(revision) => self.git(&["ls-tree", "-r", "-z", "--name-only", revision])?,
        };
        let mut wanted = BTreeSet::new();
        for name in listed.split('\0').filter(|name| !name.is_empty()) {
            let (from, to) = (self.root.join(name), self.copy.join(name));
            // Git lists files that were deleted, and directories that are repositories of their own.
            let Ok(kind) = from.symlink_metadata() else { continue };
            if kind.is_dir() {
                continue;
            }
            wanted.insert(to.clone());
            let copied = match changed.get(name) {
                Some(text) => write(&to, text.as_bytes()),
                None if kind.is_symlink() => link(&from, &to),
                None => copy(&from, &to),
            };
            copied.map_err(|error| format!("{name}: {error}"))?;
        }
        remove_others(&self.copy, &wanted).map_err(|error| format!("{}: {error}", self.copy.display()))
    }

    /// Writes one file of the copy.
    pub fn write(&self, name: &str, text: &str) -> Result<(), String> {
        write(&self.copy.join(name), text.as_bytes()).map_err(|error| format!("{name}: {error}"))
    }

    /// Returns the text of a file of the repository.
    pub fn read(&self, name: &str) -> Result<String, String> {
        fs::read_to_string(self.root.join(name)).map_err(|error| format!("{name}: {error}"))
    }

    /// Returns the number of the last commit, cut to 64 bits.
    pub fn commit(&self) -> Result<u64, String> {
        let commit = self.git(&["rev-parse", self.revision.as_deref().unwrap_or("HEAD")])?;
        let digits = commit.get(..16).ok_or("git names no commit")?;
        u64::from_str_radix(digits, 16).map_err(|_| "git names no commit".into())
    }

    fn git(&self, arguments: &[&str]) -> Result<String, String> {
        let git = Command::new("git").arg("-C").arg(&self.repository).args(arguments).output();
        let git = git.map_err(|error| format!("git: {error}"))?;
        if !git.status.success() {
            return Err(format!("git: {}", String::from_utf8_lossy(&git.stderr)));
        }
        String::from_utf8(git.stdout).map_err(|_| "git lists a name that is not UTF-8".into())
    }
}

/// Writes the files of a commit into `directory`, and returns it.
fn check_out(repository: &Path, revision: &str, directory: &Path) -> Result<PathBuf, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{revision} can't be checked out: {error}");
    let _ = fs::remove_dir_all(directory);
    fs::create_dir_all(directory).map_err(|error| failed(&error))?;
    let mut archive = Command::new("git");
    archive.arg("-C").arg(repository).args(["archive", "--format=tar", revision]).stdout(Stdio::piped());
    let mut archive = archive.spawn().map_err(|error| failed(&error))?;
    let files = archive.stdout.take().ok_or("git has no output")?;
    let unpacked = Command::new("tar").arg("-x").arg("-C").arg(directory).stdin(files).status();
    let archived = archive.wait().map_err(|error| failed(&error))?;
    match unpacked.map_err(|error| failed(&error))?.success() && archived.success() {
        true => Ok(directory.to_owned()),
        false => Err(failed(&"git archive")),
    }
}

fn write(to: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if fs::read(to).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    fs::write(to, bytes)
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    let bytes = fs::read(from)?;
    write(to, &bytes)?;
    let permissions = from.metadata()?.permissions();
    if to.metadata()?.permissions() != permissions {
        fs::set_permissions(to, permissions)?;
    }
    Ok(())
}

fn link(from: &Path, to: &Path) -> std::io::Result<()> {
    let target = fs::read_link(from)?;
    if fs::read_link(to).is_ok_and(|present| present == target) {
        return Ok(());
    }
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    let _ = fs::remove_file(to);
    std::os::unix::fs::symlink(target, to)
}

/// Removes files that are no longer in the repository. The lock file is the copy's own.
fn remove_others(directory: &Path, wanted: &BTreeSet<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
        if kind.is_dir() {
            if !path.ends_with("target") {
                remove_others(&path, wanted)?;
            }
        } else if !wanted.contains(&path) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
