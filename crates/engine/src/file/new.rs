//! A file that gets its name once it is complete.
//!
//! Until then it has none (`O_TMPFILE`), so that whatever ends the program leaves nothing behind. Where the filesystem
//! has no such files (FAT, some network filesystems), and without `/proc`, by which such a file gets its name, it has
//! a hidden name beside, which stays if the program is killed.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atrest_device::DeviceError;
use rustix::fs::{AtFlags, CWD, RenameFlags};
use rustix::io::Errno;

use super::{Access, FileDevice, directory_of, open_error};

/// What this process has open, by number.
const OPEN_FILES: &str = "/proc/self/fd";

/// A regular file of zero bytes that only its owner can read, and that [`appear`](Self::appear) gives its name.
/// Dropped before that, it is gone.
#[derive(Debug)]
pub struct NewFile {
    device: Arc<FileDevice>,
    /// Its name in the meantime.
    hidden: Option<PathBuf>,
}

impl NewFile {
    /// Creates the file that is to become `path`, which must not exist.
    ///
    /// # Errors
    /// [`DeviceError`] if the path exists, its directory can't be written, or the file system has no room for
    /// the size.
    pub fn create(path: impl AsRef<Path>, size: u64) -> Result<Self, DeviceError> {
        let path = path.as_ref();
        if path.symlink_metadata().is_ok() {
            return Err(open_error(Errno::EXIST.into()));
        }
        if !Path::new(OPEN_FILES).exists() {
            return Self::create_hidden(path, size);
        }
        let nameless = private().custom_flags(libc::O_TMPFILE).open(directory_of(path));
        match nameless.map_err(|error| (error.raw_os_error(), error)) {
            Ok(file) => Self::of_size(file, path, None, size),
            Err((Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL), _)) => Self::create_hidden(path, size),
            Err((_, error)) => Err(open_error(error)),
        }
    }

    fn create_hidden(path: &Path, size: u64) -> Result<Self, DeviceError> {
        let mut name = std::ffi::OsString::from(".");
        // cannot be empty: a file was just made at the path.
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".atrest-{}", std::process::id()));
        let hidden = path.with_file_name(name);
        // One that is there was left by a process that had our number.
        let _ = std::fs::remove_file(&hidden);
        let file = private().create_new(true).open(&hidden).map_err(open_error)?;
        Self::of_size(file, path, Some(hidden), size)
    }

    fn of_size(file: File, path: &Path, hidden: Option<PathBuf>, size: u64) -> Result<Self, DeviceError> {
        let sized = file.set_len(size).map_err(open_error);
        match sized.and_then(|()| FileDevice::from_open_file(file, path, Access::ReadWriteExclusive)) {
            Ok(device) => Ok(Self { device: Arc::new(device), hidden }),
            Err(error) => {
                remove(hidden.as_deref());
                Err(error)
            }
        }
    }

    /// The file, to be filled.
    pub fn device(&self) -> &FileDevice {
        &self.device
    }

    /// The file, to be filled, for callers that need a share of it.
    pub fn shared(&self) -> Arc<FileDevice> {
        Arc::clone(&self.device)
    }

    /// Gives it its name, durably. What was written must have been flushed.
    ///
    /// # Errors
    /// [`DeviceError`] if the name exists by now, or the directory can't be written or made durable.
    pub fn appear(mut self) -> Result<(), DeviceError> {
        let path = &self.device.path;
        let named = match &self.hidden {
            None => {
                let nameless = format!("{OPEN_FILES}/{}", self.device.file.as_raw_fd());
                rustix::fs::linkat(CWD, nameless, CWD, path, AtFlags::SYMLINK_FOLLOW)
            }
            Some(hidden) => match rustix::fs::renameat_with(CWD, hidden, CWD, path, RenameFlags::NOREPLACE) {
                // A filesystem that can't promise that; nobody had the name a moment ago.
                Err(Errno::INVAL | Errno::NOSYS) if path.symlink_metadata().is_err() => {
                    rustix::fs::rename(hidden, path)
                }
                named => named,
            },
        };
        named.map_err(|errno| open_error(errno.into()))?;
        self.hidden = None;
        sync_directory(path).map_err(open_error)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        remove(self.hidden.as_deref());
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

fn remove(hidden: Option<&Path>) {
    if let Some(hidden) = hidden {
        // The operation has failed already; that the file can't be removed changes nothing about the error.
        let _ = std::fs::remove_file(hidden);
    }
}

/// Makes a new name durable.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(directory_of(path))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use atrest_device::{BlockDevice, Cause};
    use atrest_testkit::Scratch;
    use std::os::unix::fs::PermissionsExt;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).expect("a directory");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect()
    }

    #[test]
    fn a_file_has_its_name_when_it_is_complete_and_not_before() {
        let dir = Scratch::new();
        let path = dir.path("new");
        let create = |hidden: usize| match hidden {
            0 => NewFile::create(&path, 8192).expect("created"),
            _ => NewFile::create_hidden(&path, 8192).expect("created"),
        };
        for hidden in [0, 1] {
            let file = create(hidden);
            file.device().write_at(4096, b"contents").expect("written");
            assert!(!path.exists());
            assert_eq!(
                names(dir.as_path()).len(),
                hidden,
                "a nameless file needs no name, a hidden one has one"
            );
            drop(file);
            assert_eq!(names(dir.as_path()), [""; 0], "what is dropped is gone");

            let file = create(hidden);
            file.device().write_at(4096, b"contents").expect("written");
            file.appear().expect("named");
            assert_eq!(names(dir.as_path()), ["new"]);
            let bytes = std::fs::read(&path).expect("read");
            assert_eq!((bytes.len(), &bytes[4096..4104]), (8192, &b"contents"[..]));
            let mode = std::fs::metadata(&path).expect("metadata").permissions().mode();
            assert_eq!(mode & 0o7777, 0o600);
            std::fs::remove_file(&path).expect("removed");
        }
    }

    #[test]
    fn a_name_that_exists_is_never_taken() {
        let dir = Scratch::new();
        let path = dir.path("new");
        let exists = Cause::Os(libc::EEXIST);
        for create in [|path: &Path| NewFile::create(path, 1), |path: &Path| NewFile::create_hidden(path, 1)]
        {
            let file = create(&path).expect("created");
            std::fs::write(&path, "somebody else's").expect("written");
            assert_eq!(file.appear().expect_err("taken").cause, exists);
            assert_eq!(NewFile::create(&path, 1).expect_err("taken").cause, exists);
            assert_eq!(std::fs::read(&path).expect("read"), b"somebody else's");
            assert_eq!(names(dir.as_path()), ["new"]);
            std::fs::remove_file(&path).expect("removed");
        }
    }
}
