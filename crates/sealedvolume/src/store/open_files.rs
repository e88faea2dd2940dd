//! Files of objects that stay open between reads. To open one takes four times as many calls as to read from it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, Stat, fstat, statat};

use crate::lru::Lru;

/// Files that stay open, at most: 2 GiB of objects of 8 MiB. A process may have 1,024 open, as systems come.
const MOST: usize = 256;

/// Those that were read last, by the names of their objects.
#[derive(Debug)]
pub(super) struct OpenFiles(Mutex<Lru<Arc<str>, Kept>>);

#[derive(Clone, Debug)]
struct Kept {
    folder: Arc<Folder>,
    file: Arc<File>,
    data: Stat,
}

/// A directory that files were opened in. Those of one directory share it.
#[derive(Debug)]
struct Folder {
    handle: OwnedFd,
    data: Stat,
}

impl Default for OpenFiles {
    fn default() -> Self {
        Self(Mutex::new(Lru::new(MOST)))
    }
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

impl OpenFiles {
    /// The file of an object, if it is open and still has the name: one that was replaced or taken away is not read.
    pub(super) fn find(&self, name: &str) -> Option<Arc<File>> {
        let kept = self.lock().find(name)?;
        let (_, file_name) = name.split_once('/')?;
        match statat(&kept.folder.handle, file_name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(data) if is_same(&data, &kept.data) => Some(kept.file),
            _ => {
                self.forget(name);
                None
            }
        }
    }

    /// Keeps a file open that was opened in its directory.
    pub(super) fn keep(&self, name: &str, folder: OwnedFd, file: File) -> io::Result<Arc<File>> {
        let (data, of_folder) = (fstat(&file)?, fstat(&folder)?);
        let file = Arc::new(file);
        let mut files = self.lock();
        let folder = match files.latest() {
            Some(latest) if is_same(&latest.folder.data, &of_folder) => Arc::clone(&latest.folder),
            _ => Arc::new(Folder { handle: folder, data: of_folder }),
        };
        files.keep(name.into(), 1, Kept { folder, file: Arc::clone(&file), data });
        drop(files);
        // Taken away or replaced since it was opened, it was forgotten before it was kept.
        drop(self.find(name));
        Ok(file)
    }

    pub(super) fn forget(&self, name: &str) {
        self.lock().forget(name);
    }

    fn lock(&self) -> MutexGuard<'_, Lru<Arc<str>, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner) // intended: each change of it is whole.
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{CWD, Mode, OFlags, openat};

    use super::*;

    #[test]
    fn a_file_that_was_taken_away_since_it_was_opened_is_not_kept_open() {
        let scratch = atrest_testkit::Scratch::new();
        scratch.file("a", b"there");
        let open = || {
            let folder = openat(CWD, scratch.as_path(), OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
            (folder.expect("a directory"), File::open(scratch.as_path().join("a")).expect("a file"))
        };
        let files = OpenFiles::default();
        let (folder, file) = open();
        files.keep("l/a", folder, file).expect("kept");
        assert!(files.lock().latest().is_some());
        let (folder, file) = open();
        files.forget("l/a");
        fs::remove_file(scratch.as_path().join("a")).expect("removed");
        files.keep("l/a", folder, file).expect("it can be read once");
        assert!(files.lock().latest().is_none());
    }
}
