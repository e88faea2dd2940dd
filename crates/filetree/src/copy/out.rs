//! Out of a tree onto the host. Names and links come from a filesystem that may be hostile, so every host path below the
//! target is used one component at a time, relative to an open directory, and no link on the host is followed there.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;

use super::room::{Room, Share};
use super::{CopyError, CopyOptions, CopyProgress, CopySummary, at, host};
use crate::error::TreeError;
use crate::path::TreePath;
use crate::tree::{FileTree, Kind, Metadata, Stop, Timestamp};
use crate::walk::{Step, Visit, Walk};

/// Zeros in runs of this many bytes are left out of the host's file, which then has a hole there.
const HOLE: usize = 4096;
/// Temporary names that are tried; each is free unless a process with our number died while it copied.
const TEMPORARY_NAMES: u32 = 100;

/// Copies the entry `from` to the host path `to`, or into it if `to` is a directory. The tree's root is copied as the
/// directory `to` itself. Links in `from` are not followed ([`resolve`](crate::resolve) it first if they should be);
/// links that are copied are copied as links.
///
/// # Errors
/// * [`CopyError::Tree`]: something can't be read, or the entry is a directory and [`CopyOptions::recursive`] is not set
///   ([`TreeError::IsADirectory`]).
/// * [`CopyError::Host`]: something can't be made, written or replaced on the host; with `EEXIST` for what is there, unless
///   [`CopyOptions::overwrite`] is set.
/// * [`CopyError::Walk`] and [`CopyError::LargerThanFilesystem`]: the tree is damaged or forged, or nested too deeply.
///
/// With [`CopyOptions::keep_going`] what fails below the entry is told to `progress` instead, unless it is the host that fails.
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
    if metadata.kind == Kind::Directory && !options.keep_going {
        tree.check_unshared(from)?;
    }
    // The user's own path: its links count.
    let target = match std::fs::metadata(to) {
        Ok(found) if found.is_dir() => {
            from.name().map_or(to.to_owned(), |name| to.join(OsStr::from_bytes(name)))
        }
        _ => to.to_owned(),
    };
    let mut copy = Copy {
        tree,
        options,
        progress,
        summary: CopySummary::default(),
        umask: umask(),
        // A name that came from the tree may meet a link that an earlier copy left there.
        follow_target: target == to,
        room: Room::new(&tree.about()),
    };
    let name = target.file_name();
    let start = match name {
        Some(_) => target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")),
        // `to` is `/`, `.` or ends with `..`: a directory that exists, into which the root goes.
        None => &target,
    };
    let dir = open_dir(CWD, start, OFlags::empty()).map_err(|e| host(start, e))?;
    copy.walk(from, name, Place { dir, shown: start.to_owned() })?;
    Ok(copy.summary)
}

struct Copy<'a> {
    tree: &'a dyn FileTree,
    options: &'a CopyOptions,
    progress: &'a mut dyn CopyProgress,
    summary: CopySummary,
    umask: Mode,
    /// Whether the user typed the target's last component, so that a link there is the user's.
    follow_target: bool,
    room: Room,
}

/// A directory of the host, and its name for errors.
struct Place {
    dir: OwnedFd,
    shown: PathBuf,
}

impl Copy<'_> {
    /// Copies what is at `from` into the host's directory `start` as `name`, or a directory's contents where that is `None`.
    fn walk(&mut self, from: &TreePath, name: Option<&OsStr>, start: Place) -> Result<(), CopyError> {
        let mut walk = Walk::new(self.tree, from);
        // The host's directories on the way down.
        let mut places = vec![start];
        while let Some(step) = walk.next() {
            let copied = step.map_err(CopyError::from).and_then(|step| {
                let entered = matches!(step, Step::Enter(_));
                self.step(&step, name, &mut places).inspect_err(|_| {
                    if entered {
                        walk.leave_out();
                    }
                })
            });
            match copied {
                // The tree's own fault, below the start and not for lack of a place.
                Err(error)
                    if self.options.keep_going
                        && places.len() > 1
                        && !matches!(error, CopyError::Host { .. }) =>
                {
                    self.progress.failed(&error);
                    self.summary.failed += 1;
                }
                copied => copied?,
            }
        }
        Ok(())
    }

    fn step(&mut self, step: &Step, top: Option<&OsStr>, places: &mut Vec<Place>) -> Result<(), CopyError> {
        let (Step::Enter(visit) | Step::Leave(visit) | Step::Leaf(visit)) = step;
        let Visit { path, depth, metadata: Some(metadata), .. } = visit else { return Ok(()) };
        if let Step::Leave(_) = step {
            return places.pop().map_or(Ok(()), |place| self.finish(path, metadata, &place));
        }
        // Before anything is made by a name that says nothing.
        self.tree.check_readable(path).map_err(|e| at(path, e))?;
        let Some(parent) = places.last() else { return Ok(()) };
        let name = if *depth == 0 { top } else { path.name().map(OsStr::from_bytes) };
        let shown = name.map_or(parent.shown.clone(), |name| parent.shown.join(name));
        match (step, name) {
            (Step::Enter(_), Some(name)) => {
                self.progress.started(path, metadata.kind, 0);
                // The target itself may be a link that the user made; below it none is followed.
                let dir = make_directory(parent, name, &shown, *depth == 0 && self.follow_target)?;
                places.push(Place { dir, shown });
            }
            (Step::Enter(_), None) => {
                let dir = parent.dir.try_clone().map_err(|_| host(&shown, Errno::MFILE))?;
                places.push(Place { dir, shown });
            }
            (_, Some(name)) => self.leaf(path, metadata, parent.dir.as_fd(), name, &shown)?,
            (_, None) => return Err(at(path, TreeError::NotADirectory)),
        }
        Ok(())
    }

    /// Gives a directory its attributes, once all is in it.
    fn finish(&mut self, path: &TreePath, metadata: &Metadata, place: &Place) -> Result<(), CopyError> {
        self.summary.directories += 1;
        if path.is_root() {
            return Ok(());
        }
        let failed = |errno| host(&place.shown, errno);
        if self.options.preserve_permissions {
            rustix::fs::fchmod(&place.dir, self.mode(metadata)).map_err(failed)?;
        }
        rustix::fs::futimens(&place.dir, &times(metadata.modified)).map_err(failed)
    }

    fn leaf(
        &mut self,
        from: &TreePath,
        metadata: &Metadata,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        shown: &Path,
    ) -> Result<(), CopyError> {
        match metadata.kind {
            Kind::File => {
                let larger = |size| CopyError::LargerThanFilesystem { path: from.clone(), size };
                let share = self.room.enter(metadata, self.summary.bytes).map_err(larger)?;
                self.progress.started(from, metadata.kind, metadata.size);
                self.file(from, metadata, &share, dir, name, shown)
            }
            Kind::Link => {
                self.progress.started(from, metadata.kind, 0);
                self.link(from, metadata, dir, name, shown)
            }
            kind => {
                self.progress.skipped(from, kind);
                self.summary.skipped += 1;
                Ok(())
            }
        }
    }

    fn file(
        &mut self,
        from: &TreePath,
        metadata: &Metadata,
        share: &Share,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        shown: &Path,
    ) -> Result<(), CopyError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |name: &OsStr| rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR);
        let (file, made) = self.create(dir, name, open).map_err(|e| host(shown, e))?;
        let result = self.contents(from, metadata, share, &file, shown).and_then(|size| {
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
        share: &Share,
        file: &OwnedFd,
        shown: &Path,
    ) -> Result<u64, CopyError> {
        let mut failure = None;
        let mut offset = 0;
        let (progress, room) = (&mut *self.progress, &mut self.room);
        let result = self.tree.read_to(from, &mut |piece: &[u8]| {
            let larger = |size| CopyError::LargerThanFilesystem { path: from.clone(), size };
            let written = write_sparse(offset, piece, |at, run| {
                room.take(share, run).map_err(larger)?;
                write_all(file, at, run).map_err(|e| host(shown, e))
            });
            offset += piece.len() as u64;
            progress.advanced(piece.len() as u64);
            written.map_err(|error| {
                failure = Some(error);
                Stop
            })
        });
        if let Some(error) = failure {
            return Err(error);
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

/// Makes a directory of the host and opens it. One that is there already keeps its permissions, unless those of the tree are
/// asked for.
fn make_directory(parent: &Place, name: &OsStr, shown: &Path, follow: bool) -> Result<OwnedFd, CopyError> {
    match rustix::fs::mkdirat(&parent.dir, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(host(shown, error)),
    }
    let nofollow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    open_dir(&parent.dir, Path::new(name), nofollow).map_err(|e| host(shown, e))
}

/// The process's umask, which the kernel shows without changing it. Where it can't be seen, only the owner gets anything.
fn umask() -> Mode {
    // intended: an umask that cannot be seen is the strictest.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let bits = bits.and_then(|bits| u32::from_str_radix(bits.trim(), 8).ok());
    Mode::from_raw_mode(bits.unwrap_or(0o077))
}

fn open_dir(dir: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(dir, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | flags, Mode::empty())
}

/// Writes the runs of blocks that are not all zeros.
fn write_sparse(
    offset: u64,
    piece: &[u8],
    mut write: impl FnMut(u64, &[u8]) -> Result<(), CopyError>,
) -> Result<(), CopyError> {
    let mut at = offset;
    let mut rest = piece;
    while !rest.is_empty() {
        let zero = rest.get(..HOLE).is_some_and(is_zero);
        let same = rest.chunks(HOLE).take_while(|chunk| (chunk.len() == HOLE && is_zero(chunk)) == zero);
        let len = same.map(<[u8]>::len).sum();
        let (run, later) = rest.split_at(len);
        if !zero {
            write(at, run)?;
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
                // cannot miss: no more is written than was given.
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
