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
        Ok(file)
    }

    pub(super) fn forget(&self, name: &str) {
        self.lock().retain(|kept| &*kept.name != name);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner) // intended: each change of it is whole.
    }
}
