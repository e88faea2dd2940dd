//! The directory of the host that an image is built from: everything but the contents of files is read at once, so that
//! the size of the image and the numbers of its inodes are known before anything is written.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use atrest_filetree::{Kind, MAX_DEPTH, TreePath, host_names};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use rustix::io::Errno;

use super::error::host;
use super::found::Found;
use super::{BLOCK, BuildError, holes, host_attributes};

/// Names of one file: the kernel's limit.
const MAX_LINKS: u32 = 65_000;
const LOST_AND_FOUND: &[u8] = b"lost+found";

/// What is to be in an image. The first entry is its root.
pub struct Source {
    root: OwnedFd,
    path: PathBuf,
    /// The entry that `root` is: the root of the image, or the one directory in it.
    top: usize,
    pub(super) entries: Vec<Found>,
    /// Names of files that have one already: the directory and the file.
    pub(super) more_names: Vec<(usize, usize)>,
    /// Attributes of kinds that ext4 has no place for.
    pub(super) attributes_left_out: u64,
    /// The directory in which a file was opened last.
    last: RefCell<Option<(usize, OwnedFd)>>,
}

impl Source {
    /// Looks at everything below `path`, which becomes the root of the image, or with `into` a directory of that name in it.
    ///
    /// # Errors
    /// [`BuildError::Host`] if an entry can't be read, [`BuildError::TooDeep`] or [`BuildError::TooManyLinks`]
    /// beyond the limits that they name. [`BuildError::LostAndFound`] if the root of the image would get a
    /// `lost+found` that is not an empty directory.
    pub fn scan(path: &Path, into: Option<&[u8]>) -> Result<Self, BuildError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(|e| host(path, e))?;
        let stat = rustix::fs::fstat(&root).map_err(|e| host(path, e))?;
        let mut top = Found::new(&stat, 0, b"");
        let mut left_out = 0;
        top.attributes =
            host_attributes::read(&format!("/proc/self/fd/{}/.", root.as_raw_fd()), &mut left_out)
                .map_err(|e| host(path, e))?;
        let scanned = root.try_clone().map_err(|_| host(path, Errno::MFILE))?;
        let mut source = Self {
            root,
            path: path.to_owned(),
            top: 0,
            entries: vec![top],
            more_names: Vec::new(),
            attributes_left_out: left_out,
            last: RefCell::default(),
        };
        if let Some(name) = into {
            let mut root = Found::new(&stat, 0, b"");
            root.children.push((name.to_vec(), 1));
            source.entries.insert(0, root);
            source.top = 1;
        }
        let top = source.top;
        source.directory(scanned, top, path, 0, &mut HashMap::new())?;
        source.count_names()?;
        Ok(source)
    }

    /// Bytes in all files together.
    pub fn bytes(&self) -> u64 {
        self.entries.iter().filter(|found| found.kind == Kind::File).map(|found| found.size).sum()
    }

    fn directory(
        &mut self,
        dir: OwnedFd,
        own: usize,
        shown: &Path,
        depth: usize,
        known: &mut HashMap<(u64, u64), usize>,
    ) -> Result<(), BuildError> {
        if depth >= MAX_DEPTH {
            return Err(BuildError::TooDeep { path: shown.to_owned(), limit: MAX_DEPTH });
        }
        for name in host_names(&dir).map_err(|e| host(shown, e))? {
            let shown = shown.join(OsStr::from_bytes(name.to_bytes()));
            if own == 0 && name.to_bytes() == LOST_AND_FOUND {
                // mke2fs makes one.
                empty_directory(dir.as_fd(), &name, &shown)?;
                continue;
            }
            self.entry(dir.as_fd(), &name, own, &shown, depth, known)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &CStr,
        parent: usize,
        shown: &Path,
        depth: usize,
        known: &mut HashMap<(u64, u64), usize>,
    ) -> Result<(), BuildError> {
        let failed = |errno| host(shown, errno);
        let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        let mut found = Found::new(&stat, parent, name.to_bytes());
        let own = self.entries.len();
        let is_directory = found.kind == Kind::Directory;
        if !is_directory && stat.st_nlink > 1 {
            let first = *known.entry(found.identity).or_insert(own);
            if first != own {
                self.more_names.push((parent, first));
                self.add_name(parent, name, first);
                return Ok(());
            }
        }
        let place = format!("/proc/self/fd/{}/", dir.as_raw_fd()).into_bytes();
        let place = [&place, name.to_bytes()].concat();
        found.attributes =
            host_attributes::read(place.as_slice(), &mut self.attributes_left_out).map_err(failed)?;
        if found.kind == Kind::Link {
            found.target = rustix::fs::readlinkat(dir, name, Vec::new()).map_err(failed)?.into_bytes();
        }
        if found.kind == Kind::File {
            found.blocks = found.size.div_ceil(BLOCK as u64);
            // The types of this count differ between processors. It is never negative.
            if (stat.st_blocks as u64) < found.size.div_ceil(512) {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let file = rustix::fs::openat(dir, name, flags, Mode::empty()).map_err(failed)?;
                found.blocks = holes::count(&file, found.size, BLOCK as u64).map_err(failed)?;
            }
        }
        self.entries.push(found);
        self.add_name(parent, name, own);
        if is_directory {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let inner = rustix::fs::openat(dir, name, flags, Mode::empty()).map_err(failed)?;
            self.directory(inner, own, shown, depth + 1, known)?;
        }
        Ok(())
    }

    fn add_name(&mut self, parent: usize, name: &CStr, entry: usize) {
        if let Some(parent) = self.entries.get_mut(parent) {
            parent.children.push((name.to_bytes().to_vec(), entry));
        }
    }

    /// Counts the names that lie in the image; the host may have more.
    fn count_names(&mut self) -> Result<(), BuildError> {
        let mut counts = vec![0_u32; self.entries.len()];
        for (own, found) in self.entries.iter().enumerate() {
            for (_, child) in &found.children {
                let is_directory =
                    self.entries.get(*child).is_some_and(|child| child.kind == Kind::Directory);
                // A directory's `..` names its parent.
                for named in [*child].into_iter().chain(is_directory.then_some(own)) {
                    if let Some(count) = counts.get_mut(named) {
                        // cannot overflow: a limit is checked when all are counted.
                        *count = count.saturating_add(1);
                    }
                }
            }
        }
        for (i, count) in counts.into_iter().enumerate() {
            let path = self.path_of(i);
            let Some(found) = self.entries.get_mut(i) else { continue };
            if found.kind != Kind::Directory && count > MAX_LINKS {
                return Err(BuildError::TooManyLinks { path, limit: MAX_LINKS });
            }
            found.links = count;
        }
        Ok(())
    }

    /// Where an entry lies on the host.
    pub(super) fn path_of(&self, entry: usize) -> PathBuf {
        let mut path = self.path.clone();
        path.extend(self.names_to(entry).iter().map(|name| OsStr::from_bytes(name)));
        path
    }

    /// Where an entry lies in the image.
    pub(super) fn image_path(&self, entry: usize) -> TreePath {
        let inner = self.entries.first().filter(|_| self.top > 0).and_then(|root| root.children.first());
        let names = inner.map(|(name, _)| name.as_slice()).into_iter().chain(self.names_to(entry));
        names.fold(TreePath::root(), |path, name| path.join(name).unwrap_or(path))
    }

    fn names_to(&self, mut entry: usize) -> Vec<&[u8]> {
        let mut names = Vec::new();
        while entry > self.top
            && let Some(found) = self.entries.get(entry)
        {
            names.push(found.name.as_slice());
            entry = found.parent;
        }
        names.reverse();
        names
    }

    /// The entry at a path of the image.
    pub(super) fn find(&self, path: &TreePath) -> Option<usize> {
        path.components().try_fold(0, |at, name| {
            let children = &self.entries.get(at)?.children;
            children.iter().find(|(child, _)| child == name).map(|(_, child)| *child)
        })
    }

    /// Opens a file, which must still be the one that was found.
    pub(super) fn open(&self, entry: usize) -> Result<OwnedFd, BuildError> {
        let failed = |errno| match errno {
            // Something else has its name, or that of a directory on the way.
            Errno::LOOP | Errno::NOTDIR | Errno::NOENT => {
                BuildError::SourceChanged { path: self.path_of(entry) }
            }
            errno => host(&self.path_of(entry), errno),
        };
        let Some(found) = self.entries.get(entry) else { return Err(failed(Errno::NOENT)) };
        let mut last = self.last.borrow_mut();
        if last.as_ref().is_none_or(|(directory, _)| *directory != found.parent) {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut dir = self.root.try_clone().map_err(|_| failed(Errno::MFILE))?;
            for name in self.names_to(found.parent) {
                dir = rustix::fs::openat(&dir, name, flags, Mode::empty()).map_err(failed)?;
            }
            *last = Some((found.parent, dir));
        }
        let Some((_, dir)) = last.as_ref() else { return Err(failed(Errno::NOENT)) };
        // NONBLOCK: a pipe that took the name must not hang us.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(dir, found.name.as_slice(), flags, Mode::empty()).map_err(failed)?;
        self.check(entry, &file)?;
        Ok(file)
    }

    /// Fails if an open file is not as it was found.
    pub(super) fn check(&self, entry: usize, file: &OwnedFd) -> Result<(), BuildError> {
        let stat = rustix::fs::fstat(file).map_err(|errno| host(&self.path_of(entry), errno))?;
        let now = Found::new(&stat, 0, b"");
        let same = self.entries.get(entry).is_some_and(|then| {
            (then.identity, then.size, then.modified, then.changed)
                == (now.identity, now.size, now.modified, now.changed)
        });
        if same { Ok(()) } else { Err(BuildError::SourceChanged { path: self.path_of(entry) }) }
    }
}

/// Fails unless `name` is an empty directory.
fn empty_directory(dir: BorrowedFd<'_>, name: &CStr, shown: &Path) -> Result<(), BuildError> {
    let taken = || BuildError::LostAndFound { path: shown.to_owned() };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let inner = rustix::fs::openat(dir, name, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::NOTDIR | Errno::LOOP => taken(),
        errno => host(shown, errno),
    })?;
    for entry in Dir::read_from(&inner).map_err(|e| host(shown, e))? {
        let entry = entry.map_err(|e| host(shown, e))?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            return Err(taken());
        }
    }
    Ok(())
}
