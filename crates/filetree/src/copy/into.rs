//! From the host into a tree. Links on the host are not followed below the path that the user named.

use std::ffi::{CStr, OsStr};
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{CopyError, CopyOptions, CopyProgress, CopySummary, PIECE, at, host, host_names};
use crate::error::TreeError;
use crate::path::TreePath;
use crate::tree::{FileTree, Kind, Stop, Timestamp};
use crate::walk::{MAX_DEPTH, WalkError};

/// Copies the host's file or directory `from` to the entry `to` of the tree, or into it if that is a directory, and makes
/// the result durable. Symbolic links, devices and the like are left out and counted as skipped.
///
/// # Errors
/// * [`CopyError::Host`]: `from` or something below it can't be opened, read or listed.
/// * [`CopyError::Tree`] with [`TreeError::IsADirectory`] for a directory unless [`CopyOptions::recursive`] is set, with
///   [`TreeError::NotAFile`] for anything else that is no file, with [`TreeError::Exists`] for a file that is there unless
///   [`CopyOptions::overwrite`] is set, with [`TreeError::OtherSize`] and [`TreeError::ReadOnly`] where files are only
///   overwritten in place, and with what [`FileTree`]'s methods fail with.
/// * [`CopyError::Walk`]: directories of the host are nested more than [`MAX_DEPTH`] deep.
pub fn copy_in(
    from: &Path,
    tree: &dyn FileTree,
    to: &TreePath,
    options: &CopyOptions,
    progress: &mut dyn CopyProgress,
) -> Result<CopySummary, CopyError> {
    // The user's own path: a link at its end counts. NONBLOCK: a pipe without a writer must not hang us.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let source = rustix::fs::openat(CWD, from, flags, Mode::empty()).map_err(|e| host(from, e))?;
    let stat = rustix::fs::fstat(&source).map_err(|e| host(from, e))?;
    let target = match tree.metadata(to) {
        Ok(found) if found.kind == Kind::Directory => match from.file_name() {
            Some(name) => to.join(name.as_bytes()).map_err(|e| at(to, e))?,
            None => to.clone(),
        },
        Ok(_) | Err(TreeError::NotFound) => to.clone(),
        Err(error) => return Err(at(to, error)),
    };
    let mut copy = Copy { tree, options, progress, summary: CopySummary::default() };
    match Kind::of_mode(stat.st_mode) {
        Kind::Directory if !options.recursive => return Err(at(&target, TreeError::IsADirectory)),
        Kind::Directory => copy.directory(source, &target, from, 0)?,
        Kind::File => copy.file(&source, &stat, &target, from)?,
        _ => return Err(at(&target, TreeError::NotAFile)),
    }
    tree.flush().map_err(|e| at(&target, e))?;
    Ok(copy.summary)
}

/// Copies a stream, until it ends, to the file `to` of the tree, and makes the result durable. How long it is nobody knows
/// before. Its time of the last change is that of the copy.
///
/// # Errors
/// * [`CopyError::Host`]: the stream can't be read. It is called `-`.
/// * [`CopyError::Tree`] with [`TreeError::IsADirectory`] if `to` is one, with [`TreeError::Exists`] for a file that is there
///   unless [`CopyOptions::overwrite`] is set, with [`TreeError::ReadOnly`] where files are only overwritten in place, and with
///   what [`FileTree`]'s methods fail with.
pub fn copy_in_stream(
    source: &mut dyn Read,
    tree: &dyn FileTree,
    to: &TreePath,
    options: &CopyOptions,
    progress: &mut dyn CopyProgress,
) -> Result<CopySummary, CopyError> {
    if !tree.about().writable {
        return Err(at(to, TreeError::ReadOnly));
    }
    match tree.metadata(to) {
        Ok(found) if found.kind == Kind::Directory => return Err(at(to, TreeError::IsADirectory)),
        Ok(_) if !options.overwrite => return Err(at(to, TreeError::Exists)),
        Ok(_) | Err(TreeError::NotFound) => {}
        Err(error) => return Err(at(to, error)),
    }
    let mut failure = None;
    let copied = tree.write_from(to, &mut |buf| {
        let len = loop {
            match source.read(buf) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let len = len.map_err(|error| {
            failure = Some(error);
            Stop
        })?;
        progress.advanced(len as u64);
        Ok(len)
    });
    if let Some(error) = failure {
        // intended: what has no number is a failure of its own.
        let errno = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
        return Err(CopyError::Host { path: "-".into(), errno });
    }
    let bytes = copied.map_err(|e| at(to, e))?;
    tree.flush().map_err(|e| at(to, e))?;
    Ok(CopySummary { files: 1, bytes, ..CopySummary::default() })
}

struct Copy<'a> {
    tree: &'a dyn FileTree,
    options: &'a CopyOptions,
    progress: &'a mut dyn CopyProgress,
    summary: CopySummary,
}

impl Copy<'_> {
    fn directory(
        &mut self,
        dir: OwnedFd,
        to: &TreePath,
        shown: &Path,
        depth: usize,
    ) -> Result<(), CopyError> {
        if depth >= MAX_DEPTH {
            return Err(WalkError::TooDeep { path: to.clone(), limit: MAX_DEPTH }.into());
        }
        self.progress.started(to, Kind::Directory, 0);
        if !to.is_root() {
            match self.tree.make_dir(to) {
                Ok(()) => {}
                Err(TreeError::Exists) => match self.tree.metadata(to) {
                    Ok(found) if found.kind == Kind::Directory => {}
                    Ok(_) => return Err(at(to, TreeError::NotADirectory)),
                    Err(error) => return Err(at(to, error)),
                },
                Err(error) => return Err(at(to, error)),
            }
        }
        for name in host_names(&dir).map_err(|e| host(shown, e))? {
            let path = to.join(name.to_bytes()).map_err(|e| at(to, e))?;
            let shown = shown.join(OsStr::from_bytes(name.to_bytes()));
            self.child(dir.as_fd(), &name, &path, &shown, depth)?;
        }
        self.summary.directories += 1;
        Ok(())
    }

    fn child(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &CStr,
        to: &TreePath,
        shown: &Path,
        depth: usize,
    ) -> Result<(), CopyError> {
        let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|e| host(shown, e))?;
        let kind = Kind::of_mode(stat.st_mode);
        if !matches!(kind, Kind::File | Kind::Directory) {
            self.progress.skipped(to, kind);
            self.summary.skipped += 1;
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let source = rustix::fs::openat(dir, name, flags, Mode::empty()).map_err(|e| host(shown, e))?;
        if kind == Kind::Directory {
            return self.directory(source, to, shown, depth + 1);
        }
        self.file(&source, &stat, to, shown)
    }

    fn file(&mut self, source: &OwnedFd, stat: &Stat, to: &TreePath, shown: &Path) -> Result<(), CopyError> {
        let is_overwritten = !self.tree.about().writable && self.tree.overwrites();
        match self.tree.metadata(to) {
            Ok(_) if !self.options.overwrite => return Err(at(to, TreeError::Exists)),
            Ok(found) if is_overwritten && found.kind == Kind::File => {
                // cannot miss: no size is negative.
                let wanted = u64::try_from(stat.st_size).unwrap_or(0);
                if found.size != wanted {
                    return Err(at(to, TreeError::OtherSize { size: found.size, wanted }));
                }
            }
            // Nothing can be made there.
            Err(TreeError::NotFound) if is_overwritten => return Err(at(to, TreeError::ReadOnly)),
            Ok(_) | Err(TreeError::NotFound) => {}
            Err(error) => return Err(at(to, error)),
        }
        // cannot miss: no size is negative.
        self.progress.started(to, Kind::File, u64::try_from(stat.st_size).unwrap_or(0));
        let mut failure = None;
        let progress = &mut *self.progress;
        let mut yields = |buf: &mut [u8]| {
            let limit = buf.len().min(PIECE);
            // cannot miss: the limit is at most its length.
            let part = buf.get_mut(..limit).unwrap_or(&mut []);
            let len = fill(source, part).map_err(|error| {
                failure = Some(error);
                Stop
            })?;
            progress.advanced(len as u64);
            Ok(len)
        };
        let result = match is_overwritten {
            true => overwrite(self.tree, to, &mut yields),
            false => self.tree.write_from(to, &mut yields),
        };
        if let Some(error) = failure {
            return Err(host(shown, error));
        }
        let bytes = result.map_err(|e| at(to, e))?;
        // cannot miss: the kernel gives less than a second.
        let nanoseconds = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
        let time = Timestamp { seconds: stat.st_mtime, nanoseconds };
        self.tree.set_modified(to, time).map_err(|e| at(to, e))?;
        self.summary.files += 1;
        self.summary.bytes += bytes;
        Ok(())
    }
}

/// Overwrites a file with what `source` yields until that is 0 bytes.
fn overwrite(
    tree: &dyn FileTree,
    to: &TreePath,
    source: &mut dyn FnMut(&mut [u8]) -> Result<usize, Stop>,
) -> Result<u64, TreeError> {
    let mut piece = vec![0; PIECE];
    let mut offset = 0;
    loop {
        let len = source(&mut piece).map_err(|Stop| TreeError::Stopped { at: offset })?;
        if len == 0 {
            return Ok(offset);
        }
        // cannot miss: a source fills no more than there is.
        tree.write_at(to, offset, piece.get(..len).unwrap_or(&[]))?;
        offset += len as u64;
    }
}

/// Reads until `buf` is full or the file ends.
fn fill(source: &OwnedFd, buf: &mut [u8]) -> Result<usize, Errno> {
    let mut done = 0;
    while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match rustix::io::read(source, rest) {
            Ok(0) => break,
            Ok(len) => done += len,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
