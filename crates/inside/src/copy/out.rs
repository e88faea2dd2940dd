//! Out of a tree onto the host. Names and links come from a filesystem that may be hostile, so every host path below the
//! target is used one component at a time, relative to an open directory, and no link on the host is followed there.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;

use super::{CopyError, CopyOptions, CopyProgress, CopySummary, MAX_DEPTH, at, host};
use crate::error::TreeError;
use crate::path::TreePath;
use crate::tree::{Entry, FileTree, Kind, Metadata, Stop, Timestamp};

/// Zeros in runs of this many bytes are left out of the host's file, which then has a hole there.
const HOLE: usize = 4096;
/// Temporary names that are tried; each is free unless a process with our number died while it copied.
const TEMPORARY_NAMES: u32 = 100;

/// Copies the entry `from` to the host path `to`, or into it if `to` is a directory. The tree's root is copied as the
/// directory `to` itself. Links in `from` are not followed ([`resolve`](crate::resolve) it first if they should be);
/// links that are copied are copied as links.
pub fn copy_out(
    tree: &dyn FileTree,
    from: &TreePath,
    to: &Path,
    options: &CopyOptions,
    progress: &mut dyn CopyProgress,
) -> Result<CopySummary, CopyError> {
    let metadata = tree.metadata(from).map_err(|e| at(from, e))?;
    if metadata.kind == Kind::Directory && !options.recursive {
        return Err(at(from, TreeError::IsADirectory));
    }
    let entries = tree.about().size / 32;
    let mut copy = Copy {
        tree,
        options,
        progress,
        summary: CopySummary::default(),
        seen: HashSet::new(),
        umask: umask(),
        follow_target: false,
        // A directory entry takes 32 bytes of FAT and 8 of ext at least, but ext's directories can't be seen twice.
        entries_left: entries.saturating_add(65536),
    };
    // The user's own path: its links count.
    let target = match std::fs::metadata(to) {
        Ok(found) if found.is_dir() => {
            from.name().map_or(to.to_owned(), |name| to.join(OsStr::from_bytes(name)))
        }
        _ => to.to_owned(),
    };
    // A name that came from the tree may meet a link that an earlier copy left there.
    copy.follow_target = target == to;
    let Some(name) = target.file_name() else {
        // `to` is `/`, `.` or ends with `..`: a directory that exists, into which the root goes.
        let dir = open_dir(CWD, &target, OFlags::empty()).map_err(|e| host(&target, e))?;
        copy.children(from, &metadata, &dir, &target, 0)?;
        return Ok(copy.summary);
    };
    let parent = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let dir = open_dir(CWD, parent, OFlags::empty()).map_err(|e| host(parent, e))?;
    copy.entry(from, &metadata, dir.as_fd(), name, &target, 0)?;
    Ok(copy.summary)
}

struct Copy<'a> {
    tree: &'a dyn FileTree,
    options: &'a CopyOptions,
    progress: &'a mut dyn CopyProgress,
    summary: CopySummary,
    /// Inodes of the directories copied so far.
    seen: HashSet<u64>,
    umask: Mode,
    /// Whether the user typed the target's last component, so that a link there is the user's.
    follow_target: bool,
    /// How many entries the filesystem can have at most; a FAT whose directories form a circle has more.
    entries_left: u64,
}

impl Copy<'_> {
    fn entry(
        &mut self,
        from: &TreePath,
        metadata: &Metadata,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        shown: &Path,
        depth: usize,
    ) -> Result<(), CopyError> {
        self.entries_left = self
            .entries_left
            .checked_sub(1)
            .ok_or_else(|| CopyError::DirectoryLoop { path: from.clone() })?;
        // Before anything is made by a name that says nothing.
        self.tree.check_readable(from).map_err(|e| at(from, e))?;
        match metadata.kind {
            Kind::File => {
                self.progress.started(from, metadata.kind, metadata.size);
                self.file(from, metadata, dir, name, shown)
            }
            Kind::Directory => {
                self.progress.started(from, metadata.kind, 0);
                self.directory(from, metadata, dir, name, shown, depth)
            }
            Kind::Link => {
                self.progress.started(from, metadata.kind, 0);
                self.link(from, metadata, dir, name, shown)
            }
            Kind::Pipe | Kind::Socket | Kind::CharDevice | Kind::BlockDevice => {
                self.progress.skipped(from, metadata.kind);
                self.summary.skipped += 1;
                Ok(())
            }
        }
    }

    fn directory(
        &mut self,
        from: &TreePath,
        metadata: &Metadata,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        shown: &Path,
        depth: usize,
    ) -> Result<(), CopyError> {
        match rustix::fs::mkdirat(dir, name, Mode::RWXU) {
            // One that is there already keeps its permissions, unless those of the tree are asked for.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(host(shown, error)),
        }
        // The target itself may be a link that the user made; below it none is followed.
        let typed = depth == 0 && self.follow_target;
        let nofollow = if typed { OFlags::empty() } else { OFlags::NOFOLLOW };
        let new = open_dir(dir, Path::new(name), nofollow).map_err(|e| host(shown, e))?;
        self.children(from, metadata, &new, shown, depth)
    }

    fn children(
        &mut self,
        from: &TreePath,
        metadata: &Metadata,
        dir: &OwnedFd,
        shown: &Path,
        depth: usize,
    ) -> Result<(), CopyError> {
        if depth >= MAX_DEPTH {
            return Err(CopyError::TooDeep { path: from.clone(), limit: MAX_DEPTH });
        }
        if metadata.inode != 0 && !self.seen.insert(metadata.inode) {
            return Err(CopyError::DirectoryLoop { path: from.clone() });
        }
        for Entry { name, .. } in self.tree.list(from).map_err(|e| at(from, e))? {
            let path = from.join(&name).map_err(|e| at(from, e))?;
            let name = OsStr::from_bytes(&name);
            let shown: PathBuf = shown.join(name);
            let found = self.tree.metadata(&path).map_err(|e| at(&path, e));
            match found.and_then(|found| self.entry(&path, &found, dir.as_fd(), name, &shown, depth + 1)) {
                // The tree's own fault, and not for lack of a place.
                Err(error) if self.options.keep_going && !matches!(error, CopyError::Host { .. }) => {
                    self.progress.failed(&error);
                    self.summary.failed += 1;
                }
                copied => copied?,
            }
        }
        self.summary.directories += 1;
        if !from.is_root() {
            if self.options.preserve_permissions {
                rustix::fs::fchmod(dir, self.mode(metadata)).map_err(|e| host(shown, e))?;
            }
            rustix::fs::futimens(dir, &times(metadata.modified)).map_err(|e| host(shown, e))?;
        }
        Ok(())
    }

    fn file(
        &mut self,
        from: &TreePath,
        metadata: &Metadata,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        shown: &Path,
    ) -> Result<(), CopyError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |name: &OsStr| rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR);
        let (file, made) = self.create(dir, name, open).map_err(|e| host(shown, e))?;
        let result = self.contents(from, metadata, &file, shown).and_then(|size| {
            if made != name {
                // What it replaces must not be gone before the new contents are on the media.
                rustix::fs::fdatasync(&file).map_err(|e| host(shown, e))?;
                rustix::fs::renameat(dir, &made, dir, name).map_err(|e| host(shown, e))?;
            }
            Ok(size)
        });
        let size = result.inspect_err(|_| {
            // Half a file is worse than none. It is ours: it was created just now.
            let _ = rustix::fs::unlinkat(dir, &made, AtFlags::empty());
        })?;
        self.summary.files += 1;
        self.summary.bytes += size;
        Ok(())
    }

    fn contents(
        &mut self,
        from: &TreePath,
        metadata: &Metadata,
        file: &OwnedFd,
        shown: &Path,
    ) -> Result<u64, CopyError> {
        let mut failure = None;
        let mut offset = 0;
        let progress = &mut *self.progress;
        let result = self.tree.read_to(from, &mut |piece: &[u8]| {
            let written = write_sparse(file, offset, piece);
            offset += piece.len() as u64;
            progress.advanced(piece.len() as u64);
            written.map_err(|error| {
                failure = Some(error);
                Stop
            })
        });
        if let Some(error) = failure {
            return Err(host(shown, error));
        }
        let size = result.map_err(|e| at(from, e))?;
        // A hole at the end has not been written.
        rustix::fs::ftruncate(file, size).map_err(|e| host(shown, e))?;
        rustix::fs::fchmod(file, self.mode(metadata)).map_err(|e| host(shown, e))?;
        rustix::fs::futimens(file, &times(metadata.modified)).map_err(|e| host(shown, e))?;
        Ok(size)
    }

    fn link(
        &mut self,
        from: &TreePath,
        metadata: &Metadata,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        shown: &Path,
    ) -> Result<(), CopyError> {
        let target = self.tree.read_link(from).map_err(|e| at(from, e))?;
        let target = OsStr::from_bytes(&target);
        let make = |name: &OsStr| rustix::fs::symlinkat(target, dir, name);
        let ((), made) = self.create(dir, name, make).map_err(|e| host(shown, e))?;
        let times = times(metadata.modified);
        let finish = || {
            rustix::fs::utimensat(dir, &made, &times, AtFlags::SYMLINK_NOFOLLOW)?;
            if made == name { Ok(()) } else { rustix::fs::renameat(dir, &made, dir, name) }
        };
        finish().map_err(|error| {
            // As with files: it is ours, and of no use.
            let _ = rustix::fs::unlinkat(dir, &made, AtFlags::empty());
            host(shown, error)
        })?;
        self.summary.links += 1;
        Ok(())
    }

    /// Makes an entry, and says under which name: if `name` is there already and may be replaced, a temporary one that
    /// is to be renamed once it is whole. Until then the old one stays.
    fn create<T>(
        &self,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        make: impl Fn(&OsStr) -> Result<T, Errno>,
    ) -> Result<(T, OsString), Errno> {
        match make(name) {
            Err(Errno::EXIST) if self.options.overwrite => {}
            other => return other.map(|made| (made, name.to_owned())),
        }
        let there = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(there.st_mode) == FileType::Directory {
            return Err(Errno::ISDIR);
        }
        for number in 0..TEMPORARY_NAMES {
            let temporary = OsString::from(format!(".atrest-{}-{number}", std::process::id()));
            match make(&temporary) {
                Err(Errno::EXIST) => {}
                other => return other.map(|made| (made, temporary)),
            }
        }
        Err(Errno::EXIST)
    }

    /// The permissions that a copy gets.
    fn mode(&self, metadata: &Metadata) -> Mode {
        if self.options.preserve_permissions {
            return Mode::from_raw_mode(u32::from(metadata.mode) & 0o777).difference(self.umask);
        }
        match metadata.mode & 0o100 {
            0 => Mode::RUSR | Mode::WUSR,
            _ => Mode::RWXU,
        }
    }
}

/// The process's umask, which the kernel shows without changing it. Where it can't be seen, only the owner gets anything.
fn umask() -> Mode {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let bits = bits.and_then(|bits| u32::from_str_radix(bits.trim(), 8).ok());
    Mode::from_raw_mode(bits.unwrap_or(0o077))
}

fn open_dir(dir: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(dir, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | flags, Mode::empty())
}

/// Writes the runs of blocks that are not all zeros.
fn write_sparse(file: &OwnedFd, offset: u64, piece: &[u8]) -> Result<(), Errno> {
    let mut at = offset;
    let mut rest = piece;
    while !rest.is_empty() {
        let zero = rest.get(..HOLE).is_some_and(is_zero);
        let same = rest.chunks(HOLE).take_while(|chunk| (chunk.len() == HOLE && is_zero(chunk)) == zero);
        let len = same.map(<[u8]>::len).sum();
        let (run, later) = rest.split_at(len);
        if !zero {
            write_all(file, at, run)?;
        }
        at += len as u64;
        rest = later;
    }
    Ok(())
}

fn write_all(file: &OwnedFd, mut at: u64, mut data: &[u8]) -> Result<(), Errno> {
    while !data.is_empty() {
        match rustix::io::pwrite(file, data, at) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => {
                data = data.get(written..).unwrap_or(&[]);
                at += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

fn times(modified: Timestamp) -> Timestamps {
    let time = Timespec { tv_sec: modified.seconds, tv_nsec: modified.nanoseconds.into() };
    Timestamps { last_access: time, last_modification: time }
}
