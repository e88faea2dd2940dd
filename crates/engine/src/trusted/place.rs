//! Where a trusted store is: a directory, which stays the same one whatever its own name comes to mean, and a name in it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use atrest_device::{LockMode, TRUSTED_RECORD_LEN};
use atrest_secret::{OsRandom, Random};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::{TrustedFileError, access};
use crate::patience::patiently;
use crate::sys;

#[derive(Debug)]
pub(super) struct Place {
    directory: File,
    name: OsString,
}

/// A successor that does not have the name yet.
#[derive(Debug)]
pub(super) struct Beside {
    file: File,
    name: OsString,
}

impl Place {
    /// Follows links, here and never again. Only a directory that is to be written is opened so that it can be made durable.
    pub(super) fn of(path: &Path, mode: LockMode) -> Result<Self, TrustedFileError> {
        let path = match std::fs::canonicalize(path) {
            Ok(path) => path,
            Err(error) if error.kind() == ErrorKind::NotFound => of_a_new_one(path)?,
            Err(error) => return Err(error.into()),
        };
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(TrustedFileError::NotAFile);
        };
        let how = match mode {
            LockMode::Exclusive => OFlags::RDONLY,
            LockMode::Shared => OFlags::PATH,
        };
        let flags = how | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = File::from(rustix::fs::open(parent, flags, Mode::empty())?);
        Ok(Self { directory, name: name.to_owned() })
    }

    /// Follows links to a file that has to be there. A missing directory is [`Missing`](TrustedFileError::Missing), too.
    pub(super) fn of_one_there(path: &Path, mode: LockMode) -> Result<Self, TrustedFileError> {
        Self::of(path, mode).map_err(|error| match error {
            // Nor is the directory.
            TrustedFileError::Os(libc::ENOENT) => TrustedFileError::Missing,
            error => error,
        })
    }

    /// Opens the file that has the name, if one has.
    pub(super) fn open(&self, mode: LockMode) -> Result<Option<File>, TrustedFileError> {
        // Looked at before it is opened: opening a device can do something.
        let looked = rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        match looked {
            Err(Errno::NOENT) => return Ok(None),
            looked if !is_file(&looked?) => return Err(TrustedFileError::NotAFile),
            _ => {}
        }
        let how = match mode {
            LockMode::Exclusive => OFlags::RDWR,
            LockMode::Shared => OFlags::RDONLY,
        };
        let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.directory, &self.name, flags, Mode::empty()) {
            Ok(file) if is_file(&rustix::fs::fstat(&file)?) => Ok(Some(File::from(file))),
            Ok(_) | Err(Errno::LOOP) => Err(TrustedFileError::NotAFile),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Opens it and keeps others away for as long as it is open: a lock on the file itself, which goes with whoever holds it.
    pub(super) fn hold(&self, mode: LockMode) -> Result<Option<File>, TrustedFileError> {
        loop {
            let Some(file) = self.open(mode)? else { return Ok(None) };
            // What is no store is told from one that somebody uses.
            match file.metadata()?.len() {
                0 => {}
                len if len == TRUSTED_RECORD_LEN as u64 => {}
                len => return Err(TrustedFileError::Size { len }),
            }
            let is_busy =
                |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES));
            patiently(is_busy, || sys::lock_description(&file, mode))
                .map_err(|error| if is_busy(&error) { TrustedFileError::Busy } else { error.into() })?;
            if self.is(&file)? {
                return Ok(Some(file));
            }
            // It was replaced between opening and locking: the lock we got guards nothing.
        }
    }

    /// Whether the name means this file.
    pub(super) fn is(&self, file: &File) -> Result<bool, TrustedFileError> {
        match rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(named) => {
                let held = rustix::fs::fstat(file)?;
                Ok((named.st_dev, named.st_ino) == (held.st_dev, held.st_ino))
            }
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// A new, empty file under a name that nobody has, locked before anybody can know of it. Whoever could use the old one can use it,
    /// and nobody else; without an old one its maker alone.
    pub(super) fn create_beside(&self, old: Option<&File>) -> Result<Beside, TrustedFileError> {
        let mut random = [0; 8];
        OsRandom.fill(&mut random).map_err(|_| TrustedFileError::Os(libc::EIO))?;
        let mut name = OsString::from(".");
        name.push(&self.name);
        name.push(format!(".{:016x}.new", u64::from_ne_bytes(random)));
        // Read as well: the descriptor becomes the store's.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.directory, &name, flags, Mode::RUSR | Mode::WUSR)?);
        let beside = Beside { file, name };
        let locked = sys::lock_description(&beside.file, LockMode::Exclusive).map_err(TrustedFileError::from);
        match locked.and_then(|()| old.map_or(Ok(()), |old| access::hand_on(old, &beside.file))) {
            Ok(()) => Ok(beside),
            Err(error) => {
                self.discard(beside);
                Err(error)
            }
        }
    }

    /// Puts a record into a successor and gives it the name, in which order a power loss leaves the old file or the new one. Where
    /// there was none before, a file that has the name by now keeps it.
    pub(super) fn put(
        &self,
        beside: Beside,
        record: &[u8; TRUSTED_RECORD_LEN],
        is_new: bool,
    ) -> Result<File, TrustedFileError> {
        let written = beside.fill(record).and_then(|()| self.rename(&beside.name, is_new));
        match written {
            Ok(()) => Ok(beside.file),
            Err(error) => {
                self.discard(beside);
                Err(error)
            }
        }
    }

    fn rename(&self, from: &OsStr, is_new: bool) -> Result<(), TrustedFileError> {
        let directory = &self.directory;
        if is_new {
            match rustix::fs::renameat_with(directory, from, directory, &self.name, RenameFlags::NOREPLACE) {
                // A filesystem that can't promise that; nobody had the name a moment ago.
                Err(Errno::INVAL | Errno::NOSYS) if self.open(LockMode::Shared)?.is_none() => {}
                renamed => return Ok(renamed?),
            }
        }
        Ok(rustix::fs::renameat(directory, from, directory, &self.name)?)
    }

    pub(super) fn discard(&self, beside: Beside) {
        // What failed is told; a name of ours that stays does no harm.
        let _ = rustix::fs::unlinkat(&self.directory, &beside.name, AtFlags::empty());
    }

    /// Takes the name away.
    pub(super) fn remove(&self) -> Result<(), TrustedFileError> {
        rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty())?;
        self.sync()
    }

    /// Makes what names mean durable.
    pub(super) fn sync(&self) -> Result<(), TrustedFileError> {
        Ok(self.directory.sync_all()?)
    }
}

impl Beside {
    fn fill(&self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedFileError> {
        (&self.file).write_all(record)?;
        Ok(self.file.sync_all()?)
    }
}

/// The place of a file that is not there. A link that leads nowhere is none: what it will lead to is not ours to say.
fn of_a_new_one(path: &Path) -> Result<PathBuf, TrustedFileError> {
    if path.symlink_metadata().is_ok() {
        return Err(TrustedFileError::LinkToNothing);
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().ok_or(TrustedFileError::NotAFile)?;
    match std::fs::canonicalize(parent) {
        Ok(parent) => Ok(parent.join(name)),
        Err(error) => Err(error.into()),
    }
}

fn is_file(stat: &rustix::fs::Stat) -> bool {
    rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file()
}
