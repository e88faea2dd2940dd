//! Files of objects that stay open between reads. To open one takes four times as many calls as to read from it.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, Stat, fstat, statat};

/// Files that stay open, at most. Each has its directory open, too.
const MOST: usize = 32;

/// Those that were read last, the latest at the end.
#[derive(Debug, Default)]
pub(super) struct OpenFiles(Mutex<VecDeque<Kept>>);

#[derive(Clone, Debug)]
struct Kept {
    /// That of the object.
    name: Arc<str>,
    folder: Arc<OwnedFd>,
    file: Arc<File>,
    data: Stat,
}

impl OpenFiles {
    /// The file of an object, if it is open and still has the name: one that was replaced or taken away is not read.
    pub(super) fn find(&self, name: &str) -> Option<Arc<File>> {
        let kept = {
            let mut files = self.lock();
            let at = files.iter().position(|kept| &*kept.name == name)?;
            let kept = files.remove(at)?;
            files.push_back(kept.clone());
            kept
        };
        let (_, file_name) = name.split_once('/')?;
        match statat(&*kept.folder, file_name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(data) if (data.st_dev, data.st_ino) == (kept.data.st_dev, kept.data.st_ino) => Some(kept.file),
            _ => {
                self.forget(name);
                None
            }
        }
    }

    /// Keeps a file open that was opened in its directory.
    pub(super) fn keep(&self, name: &str, folder: OwnedFd, file: File) -> io::Result<Arc<File>> {
        let data = fstat(&file)?;
        let file = Arc::new(file);
        let kept = Kept { name: name.into(), folder: Arc::new(folder), file: Arc::clone(&file), data };
        let mut files = self.lock();
        files.retain(|other| *other.name != *name);
        if files.len() == MOST {
            files.pop_front();
        }
        files.push_back(kept);
        drop(files);
        // Taken away or replaced since it was opened, it was forgotten before it was kept.
        drop(self.find(name));
        Ok(file)
    }

    pub(super) fn forget(&self, name: &str) {
        self.lock().retain(|kept| &*kept.name != name);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Kept>> {
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
        assert_eq!(files.lock().len(), 1);
        let (folder, file) = open();
        files.forget("l/a");
        fs::remove_file(scratch.as_path().join("a")).expect("removed");
        files.keep("l/a", folder, file).expect("it can be read once");
        assert_eq!(files.lock().len(), 0);
    }
}
