//! A store in a directory: a file for each object, in a directory for each kind. Any program may copy it: files never change.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::{self, IoSliceMut, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{
    AtFlags, CWD, Dir, Mode, OFlags, fstatfs, fsync, linkat, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::open_files::OpenFiles;
use super::{Names, ObjectStore, Put, StoreError};
use crate::format::{Kind, names};

/// Directories of the kinds of objects.
const KINDS: [&str; 4] = ["h", "l", "m", "c"];
/// Files that are being written lie here.
const UNFINISHED: &str = "t";
/// Who holds it writes, of this machine's processes. It lies among the unfinished.
const LOCK: &str = "writer";
/// Who reads has a shared lock on it, of this machine's processes, and who collects an exclusive one. It lies there, too.
const READERS: &str = "readers";
/// A directory, and no link to one.
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// No link, and nothing that is waited for.
const PLAIN: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
/// `f_type` of tmpfs (statfs(2)).
const TMPFS: i128 = 0x0102_1994;
/// What has been unfinished for so long was left by a program that ended.
const LEFT: Duration = Duration::from_secs(24 * 3600);

/// Objects as files below a directory.
///
/// An object is written to a file of another name and synchronised; then it is linked to its own name, which fails where there is
/// one, and the directory is synchronised. A loss of power leaves a whole object or none. The file system must have hard links.
///
/// Whoever owns the directory may put a link in the place of one of those in it, at any time. Such a store is refused: what a link names is
/// somebody else's, and nothing is read, written or removed there. Each directory is opened, and what is done in it is done by that handle.
#[derive(Debug)]
pub struct DirectoryStore {
    root: PathBuf,
    /// A directory could not be synchronised: a second try would succeed without what the first one lost.
    failed: AtomicBool,
    /// Of those that were read.
    open: OpenFiles,
}

impl DirectoryStore {
    /// The store in the directory `root`, which must be there. What a program that ended a day ago left unfinished is removed.
    ///
    /// # Errors
    /// [`StoreError::Os`] if directories can't be made in it.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let store = Self::to_read(root)?;
        store.lay_out()?;
        store.sweep()?;
        Ok(store)
    }

    /// The store in the directory `root`, in which nothing is made or removed until an object is stored.
    ///
    /// # Errors
    /// [`StoreError::Os`] if there is no such directory, or if something else has the name of a directory in it.
    pub fn to_read(root: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let store = Self { root: root.into(), failed: AtomicBool::new(false), open: OpenFiles::default() };
        let base = store.base()?;
        for name in KINDS.into_iter().chain([UNFINISHED]) {
            inside(&base, name)?;
        }
        Ok(store)
    }

    /// The directory of the store, which may be named by a link: who names it says so.
    fn base(&self) -> Result<OwnedFd, StoreError> {
        openat(CWD, &self.root, DIRECTORY.difference(OFlags::NOFOLLOW), Mode::empty()).map_err(os)
    }

    /// A directory in it, if it is there.
    fn folder(&self, name: &str) -> Result<Option<OwnedFd>, StoreError> {
        inside(&self.base()?, name)
    }

    /// The directory that an object belongs in, if it is there, and its name in there.
    fn place<'a>(&self, name: &'a str) -> Result<(Option<OwnedFd>, &'a str), StoreError> {
        names::kind(name).ok_or(StoreError::Name)?;
        let (kind, file) = name.split_once('/').ok_or(StoreError::Name)?;
        Ok((self.folder(kind)?, file))
    }

    /// Makes the directories that are missing: of a copy, those that were empty.
    fn lay_out(&self) -> Result<(), StoreError> {
        let base = self.base()?;
        let mut made = false;
        for name in KINDS.into_iter().chain([UNFINISHED]) {
            if inside(&base, name)?.is_some() {
                continue;
            }
            made = true;
            match mkdirat(&base, name, Mode::from_raw_mode(0o777)) {
                // Another process may have made it; or it is something else.
                Ok(()) | Err(Errno::EXIST) => inside(&base, name)?.map(drop).ok_or(no_directory())?,
                Err(error) => return Err(os(error)),
            }
        }
        if made { self.sync(&base) } else { Ok(()) }
    }

    fn sweep(&self) -> Result<(), StoreError> {
        let Some(unfinished) = self.folder(UNFINISHED)? else { return Ok(()) };
        for name in listed(&unfinished)? {
            if !is_unfinished(&name) {
                continue;
            }
            let Ok(data) = statat(&unfinished, name.as_str(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let Ok(made) = u64::try_from(data.st_mtime) else { continue };
            let age = SystemTime::now().duration_since(UNIX_EPOCH + Duration::from_secs(made));
            if matches!(age, Ok(age) if age > LEFT) {
                // intended: somebody else may sweep, too, or nothing can be removed here. It is in nobody's way.
                let _ = unlinkat(&unfinished, name.as_str(), AtFlags::empty());
            }
        }
        Ok(())
    }

    /// Makes what a directory holds durable, for good.
    fn sync(&self, directory: &OwnedFd) -> Result<(), StoreError> {
        if self.failed.load(Ordering::Acquire) {
            return Err(StoreError::EarlierFailure);
        }
        fsync(directory).map_err(|error| {
            self.failed.store(true, Ordering::Release);
            os(error)
        })
    }

    /// A whole file of another name, synchronised.
    fn unfinished(&self, bytes: &[u8]) -> Result<Unfinished, StoreError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let Some(folder) = self.folder(UNFINISHED)? else {
                self.lay_out()?;
                continue;
            };
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("{}-{number}", std::process::id());
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | PLAIN;
            match openat(&folder, name.as_str(), flags, Mode::RUSR | Mode::WUSR) {
                Ok(file) => {
                    let (unfinished, mut file) = (Unfinished { folder, name }, File::from(file));
                    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(told)?;
                    return Ok(unfinished);
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(os(error)),
            }
        }
    }

    /// The file that an object is. What is no file is none of ours, and is not waited for.
    fn file(&self, name: &str) -> Result<Option<File>, StoreError> {
        let (Some(folder), name) = self.place(name)? else { return Ok(None) };
        open_file(&folder, name)
    }

    /// The file that an object is, of which others may want parts as well.
    fn kept_open(&self, name: &str) -> Result<Option<Arc<File>>, StoreError> {
        names::kind(name).ok_or(StoreError::Name)?;
        if let Some(file) = self.open.find(name) {
            return Ok(Some(file));
        }
        let (Some(folder), file_name) = self.place(name)? else { return Ok(None) };
        let Some(file) = open_file(&folder, file_name)? else { return Ok(None) };
        self.open.keep(name, folder, file).map(Some).map_err(told)
    }

    /// A file that is locked, made where it may be written and is missing. What is no file is none of ours, and is not waited for.
    fn lock_file(&self, name: &str, write: bool) -> Result<File, StoreError> {
        let folder = self.folder(UNFINISHED)?.ok_or(os(Errno::NOENT))?;
        let how = if write { OFlags::WRONLY | OFlags::CREATE } else { OFlags::RDONLY };
        let file = openat(&folder, name, how | PLAIN, Mode::RUSR | Mode::WUSR).map(File::from).map_err(os)?;
        if file.metadata().map_err(told)?.is_file() { Ok(file) } else { Err(StoreError::Name) }
    }
}

impl ObjectStore for DirectoryStore {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, StoreError> {
        names::kind(name).ok_or(StoreError::Name)?;
        self.lay_out()?;
        let (Some(folder), name) = self.place(name)? else { return Err(os(Errno::NOENT)) };
        let unfinished = self.unfinished(bytes)?;
        match linkat(&unfinished.folder, unfinished.name.as_str(), &folder, name, AtFlags::empty()) {
            Ok(()) => {
                self.sync(&folder)?;
                Ok(Put::Stored)
            }
            Err(Errno::EXIST) => {
                // It may be ours, of a try that failed after the link.
                self.sync(&folder)?;
                Ok(Put::Exists)
            }
            Err(error) => Err(os(error)),
        }
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        names::kind(name).ok_or(StoreError::Name)?;
        self.lay_out()?;
        let (Some(folder), name) = self.place(name)? else { return Err(os(Errno::NOENT)) };
        let unfinished = self.unfinished(bytes)?;
        renameat(&unfinished.folder, unfinished.name.as_str(), &folder, name).map_err(os)?;
        self.sync(&folder)
    }

    fn get(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(file) = self.file(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(told)?;
        if bytes.len() > most { Err(StoreError::TooLong) } else { Ok(Some(bytes)) }
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(file) = self.kept_open(name)? else { return Ok(None) };
        let mut bytes = vec![0; len];
        let mut read = 0;
        while read < len {
            let at = offset.checked_add(read as u64).ok_or(StoreError::TooLong)?;
            match file.read_at(&mut bytes[read..], at) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(told(error)),
            }
        }
        bytes.truncate(read);
        Ok(Some(bytes))
    }

    /// From the page cache, of a file that was read before. tmpfs knows no such reads, and nobody waits for it.
    fn read_if_cached(&self, name: &str, offset: u64, out: &mut [u8]) -> Option<()> {
        let file = self.open.find(name)?;
        let read = match preadv2(&file, &mut [IoSliceMut::new(out)], offset, ReadWriteFlags::NOWAIT) {
            Err(Errno::OPNOTSUPP) if is_tmpfs(&file) => file.read_at(out, offset).ok()?,
            read => read.ok()?,
        };
        (read == out.len()).then_some(())
    }

    fn list_after(&self, kind: Kind, after: Option<&str>) -> Result<Vec<String>, StoreError> {
        let letter = names::letter(kind);
        // Nothing of the kind was ever stored, or a copy left the empty directory out.
        let Some(folder) = self.folder(letter)? else { return Ok(Vec::new()) };
        let mut found = BTreeSet::new();
        for file in listed(&folder)? {
            // Other files are none of ours: copies that a tool has made of a conflict, for example.
            let name = format!("{letter}/{file}");
            if names::kind(&name) == Some(kind) && after.is_none_or(|after| name.as_str() > after) {
                // All at once: a directory is read as a whole, whatever is taken of it.
                found.insert(name);
            }
        }
        Ok(found.into_iter().collect())
    }

    /// All at once: a directory is read as a whole.
    fn list_some(&self, kind: Kind, after: Option<&str>) -> Result<Names, StoreError> {
        Ok(Names { names: self.list_after(kind, after)?, more: false })
    }

    fn len_of(&self, name: &str) -> Result<Option<u64>, StoreError> {
        let (Some(folder), name) = self.place(name)? else { return Ok(None) };
        match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(data) => u64::try_from(data.st_size).map(Some).map_err(|_| StoreError::Name),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(os(error)),
        }
    }

    fn hold(&self) -> Result<Option<File>, StoreError> {
        self.lay_out()?;
        // Whoever made the directories may have ended before they were durable.
        self.sync(&self.base()?)?;
        self.sweep()?;
        let file = self.lock_file(LOCK, true)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Err(StoreError::Held),
            Err(TryLockError::Error(error)) => Err(told(error)),
        }
    }

    fn hold_to_read(&self) -> Result<Option<File>, StoreError> {
        self.folder(UNFINISHED)?;
        // intended: a copy may lack it and lie where nothing can be made. Then nobody collects there either.
        let made = self.lock_file(READERS, false).or_else(|_| self.lock_file(READERS, true));
        let Ok(file) = made else { return Ok(None) };
        match file.try_lock_shared() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Err(StoreError::Held),
            Err(TryLockError::Error(_)) => Ok(None),
        }
    }

    fn hold_to_collect(&self) -> Result<Option<File>, StoreError> {
        self.lay_out()?;
        let file = self.lock_file(READERS, true)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Err(StoreError::Read),
            Err(TryLockError::Error(error)) => Err(told(error)),
        }
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        let (Some(folder), file_name) = self.place(name)? else { return Ok(()) };
        let gone = unlinkat(&folder, file_name, AtFlags::empty());
        // Nothing is freed of a file that is open. Whoever keeps it open from here on sees that its name is gone.
        self.open.forget(name);
        match gone {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(os(error)),
        }
    }
}

/// A file that goes when this does. It has another name as well by then, or nobody wants it.
struct Unfinished {
    folder: OwnedFd,
    name: String,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // intended: one that stays, or has been renamed, is in nobody's way; it is swept later.
        let _ = unlinkat(&self.folder, self.name.as_str(), AtFlags::empty());
    }
}

fn is_tmpfs(file: &File) -> bool {
    fstatfs(file).is_ok_and(|found| i128::from(found.f_type) == TMPFS)
}

/// What is no file is none of ours, and is not waited for.
fn open_file(folder: &OwnedFd, name: &str) -> Result<Option<File>, StoreError> {
    match openat(folder, name, OFlags::RDONLY | PLAIN, Mode::empty()).map(File::from) {
        Ok(file) if file.metadata().map_err(told)?.is_file() => Ok(Some(file)),
        Ok(_) => Err(StoreError::Name),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(os(error)),
    }
}

/// A directory in another one, if it is there. Something else of that name, a link to one as well, is refused.
fn inside(base: &OwnedFd, name: &str) -> Result<Option<OwnedFd>, StoreError> {
    match openat(base, name, DIRECTORY, Mode::empty()) {
        Ok(folder) => Ok(Some(folder)),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::NOTDIR | Errno::LOOP) => Err(no_directory()),
        Err(error) => Err(os(error)),
    }
}

/// Names in a directory, but for those that are no text.
fn listed(folder: &OwnedFd) -> Result<Vec<String>, StoreError> {
    let mut all = Vec::new();
    for entry in Dir::read_from(folder).map_err(os)? {
        if let Ok(name) = entry.map_err(os)?.file_name().to_str() {
            all.push(name.to_owned());
        }
    }
    Ok(all)
}

/// Whether a file among the unfinished has the name of one: the number of a process and one of its own.
fn is_unfinished(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.split_once('-').is_some_and(|(process, number)| is_number(process) && is_number(number))
}

fn no_directory() -> StoreError {
    os(Errno::NOTDIR)
}

fn told(error: io::Error) -> StoreError {
    // intended: an error without a number is the standard library's own, such as a write of zero bytes.
    StoreError::Os(error.raw_os_error().unwrap_or(Errno::IO.raw_os_error()))
}

fn os(error: Errno) -> StoreError {
    StoreError::Os(error.raw_os_error())
}
