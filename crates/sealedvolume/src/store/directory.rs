//! A store in a directory: a file for each object, in a directory for each kind. Any program may copy it: files never change.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;

use super::{ObjectStore, Put, StoreError};
use crate::format::{Kind, names};

/// Directories of the kinds of objects.
const KINDS: [&str; 4] = ["h", "l", "m", "c"];
/// Files that are being written lie here.
const UNFINISHED: &str = "t";
/// Who holds it writes, of this machine's processes.
const LOCK: &str = "t/writer";
/// Who reads has a shared lock on it, of this machine's processes, and who collects an exclusive one.
const READERS: &str = "t/readers";
/// What has been unfinished for so long was left by a program that ended.
const LEFT: Duration = Duration::from_secs(24 * 3600);

/// Objects as files below a directory.
///
/// An object is written to a file of another name and synchronised; then it is linked to its own name, which fails where there is
/// one, and the directory is synchronised. A loss of power leaves a whole object or none. The file system must have hard links.
///
/// Whoever owns the directory may put a link in the place of one of those in it. Such a store is refused: what a link names is
/// somebody else's, and nothing is read, written or removed there.
#[derive(Debug)]
pub struct DirectoryStore {
    root: PathBuf,
    /// A directory could not be synchronised: a second try would succeed without what the first one lost.
    failed: AtomicBool,
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
        let root = root.into();
        match fs::metadata(&root) {
            Ok(data) if data.is_dir() => {}
            Ok(_) => return Err(no_directory()),
            Err(error) => return Err(told(error)),
        }
        for name in KINDS.into_iter().chain([UNFINISHED]) {
            own(root.join(name))?;
        }
        Ok(Self { root, failed: AtomicBool::new(false) })
    }

    /// Makes the directories that are missing: of a copy, those that were empty.
    fn lay_out(&self) -> Result<(), StoreError> {
        let mut made = false;
        for name in KINDS.into_iter().chain([UNFINISHED]) {
            let directory = self.root.join(name);
            if is_own(&directory) {
                continue;
            }
            made = true;
            match fs::create_dir(&directory) {
                Ok(()) => {}
                // Another process may have made it; or it is something else.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_own(&directory) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(no_directory()),
                Err(error) => return Err(told(error)),
            }
        }
        if made { self.sync(&self.root) } else { Ok(()) }
    }

    fn sweep(&self) -> Result<(), StoreError> {
        for entry in fs::read_dir(own(self.root.join(UNFINISHED))?).map_err(told)? {
            let entry = entry.map_err(told)?;
            if !entry.file_name().to_str().is_some_and(is_unfinished) {
                continue;
            }
            let age = entry
                .metadata()
                .and_then(|data| data.modified())
                .map(|at| SystemTime::now().duration_since(at));
            if matches!(age, Ok(Ok(age)) if age > LEFT) {
                // intended: somebody else may sweep, too, or nothing can be removed here. It is in nobody's way.
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }

    fn path(&self, name: &str) -> Result<PathBuf, StoreError> {
        names::kind(name).ok_or(StoreError::Name)?;
        let (kind, _) = name.split_once('/').ok_or(StoreError::Name)?;
        own(self.root.join(kind))?;
        Ok(self.root.join(name))
    }

    /// Makes what a directory holds durable, for good.
    fn sync(&self, directory: &Path) -> Result<(), StoreError> {
        if self.failed.load(Ordering::Acquire) {
            return Err(StoreError::EarlierFailure);
        }
        File::open(directory).and_then(|file| file.sync_all()).map_err(|error| {
            self.failed.store(true, Ordering::Release);
            told(error)
        })
    }

    /// A whole file of another name, synchronised.
    fn unfinished(&self, bytes: &[u8]) -> Result<Unfinished, StoreError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let directory = own(self.root.join(UNFINISHED))?;
            let path = directory.join(format!("{}-{number}", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(mut file) => {
                    let unfinished = Unfinished(path);
                    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(told)?;
                    return Ok(unfinished);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound && self.root.is_dir() => {
                    self.lay_out()?
                }
                Err(error) => return Err(told(error)),
            }
        }
    }

    /// The file that an object is. What is no file is none of ours, and is not waited for.
    fn file(&self, name: &str) -> Result<Option<File>, StoreError> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        match OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(self.path(name)?) {
            Ok(file) if file.metadata().map_err(told)?.is_file() => Ok(Some(file)),
            Ok(_) => Err(StoreError::Name),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(told(error)),
        }
    }

    /// A file that is locked, made where it may be written and is missing. What is no file is none of ours, and is not waited for.
    fn lock_file(&self, name: &str, write: bool) -> Result<File, StoreError> {
        let file = OpenOptions::new()
            .read(!write)
            .write(write)
            .create(write)
            .truncate(false)
            .mode(0o600)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
            .open(self.root.join(name))
            .map_err(told)?;
        if file.metadata().map_err(told)?.is_file() { Ok(file) } else { Err(StoreError::Name) }
    }

    fn parent(&self, name: &str) -> Result<PathBuf, StoreError> {
        self.path(name)?.parent().map(Path::to_owned).ok_or(StoreError::Name)
    }
}

impl ObjectStore for DirectoryStore {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, StoreError> {
        let (path, parent) = (self.path(name)?, self.parent(name)?);
        self.lay_out()?;
        let unfinished = self.unfinished(bytes)?;
        match fs::hard_link(&unfinished.0, path) {
            Ok(()) => {
                self.sync(&parent)?;
                Ok(Put::Stored)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // It may be ours, of a try that failed after the link.
                self.sync(&parent)?;
                Ok(Put::Exists)
            }
            Err(error) => Err(told(error)),
        }
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let (path, parent) = (self.path(name)?, self.parent(name)?);
        let unfinished = self.unfinished(bytes)?;
        fs::rename(&unfinished.0, path).map_err(told)?;
        self.sync(&parent)
    }

    fn get(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(file) = self.file(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(told)?;
        if bytes.len() > most { Err(StoreError::TooLong) } else { Ok(Some(bytes)) }
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(mut file) = self.file(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(offset)).map_err(told)?;
        file.take(len as u64).read_to_end(&mut bytes).map_err(told)?;
        Ok(Some(bytes))
    }

    fn list_after(&self, kind: Kind, after: Option<&str>) -> Result<Vec<String>, StoreError> {
        let letter = names::letter(kind);
        let mut found = std::collections::BTreeSet::new();
        let entries = match fs::read_dir(own(self.root.join(letter))?) {
            Ok(entries) => entries,
            // Nothing of the kind was ever stored, or a copy left the empty directory out.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.root.is_dir() => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(told(error)),
        };
        for entry in entries {
            let file = entry.map_err(told)?.file_name();
            // Other files are none of ours: copies that a tool has made of a conflict, and what has no text for a name.
            let Some(name) = file.to_str().map(|file| format!("{letter}/{file}")) else { continue };
            if names::kind(&name) == Some(kind) && after.is_none_or(|after| name.as_str() > after) {
                // All at once: a directory is read as a whole, whatever is taken of it.
                found.insert(name);
            }
        }
        Ok(found.into_iter().collect())
    }

    fn len_of(&self, name: &str) -> Result<Option<u64>, StoreError> {
        match fs::symlink_metadata(self.path(name)?) {
            Ok(data) => Ok(Some(data.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(told(error)),
        }
    }

    fn hold(&self) -> Result<Option<File>, StoreError> {
        self.lay_out()?;
        // Whoever made the directories may have ended before they were durable.
        self.sync(&self.root)?;
        self.sweep()?;
        let file = self.lock_file(LOCK, true)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Err(StoreError::Held),
            Err(TryLockError::Error(error)) => Err(told(error)),
        }
    }

    fn hold_to_read(&self) -> Result<Option<File>, StoreError> {
        own(self.root.join(UNFINISHED))?;
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
        match fs::remove_file(self.path(name)?) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(told(error)),
            _ => Ok(()),
        }
    }
}

/// A file that goes when this does. It has another name as well by then, or nobody wants it.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // intended: one that stays, or has been renamed, is in nobody's way; it is swept later.
        let _ = fs::remove_file(&self.0);
    }
}

/// Whether it is a directory itself, and no link to one.
fn is_own(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|data| data.is_dir())
}

/// The path of a directory in the store, unless something else has its name. It may not be there.
fn own(path: PathBuf) -> Result<PathBuf, StoreError> {
    match fs::symlink_metadata(&path) {
        Ok(data) if data.is_dir() => Ok(path),
        Ok(_) => Err(no_directory()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(path),
        Err(error) => Err(told(error)),
    }
}

/// Whether a file among the unfinished has the name of one: the number of a process and one of its own.
fn is_unfinished(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.split_once('-').is_some_and(|(process, number)| is_number(process) && is_number(number))
}

fn no_directory() -> StoreError {
    StoreError::Os(rustix::io::Errno::NOTDIR.raw_os_error())
}

fn told(error: io::Error) -> StoreError {
    // intended: an error without a number is the standard library's own, such as a write of zero bytes.
    StoreError::Os(error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error()))
}
