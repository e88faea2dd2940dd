//! The image's file: it is made under a hidden name beside the one that it gets once it is whole.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use atrest_device::{BlockDevice, Cause, DeviceError, Durability, Geometry, Operation};
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use super::BuildError;
use super::error::host;

/// A file that is not yet the image. Dropped before [`appear`](Self::appear), it is gone.
pub(super) struct NewImage {
    file: File,
    size: u64,
    hidden: PathBuf,
    path: PathBuf,
    replace: bool,
    durability: Durability,
}

impl NewImage {
    /// Makes a file of `size` zero bytes that only its owner can read. With `replace`, a regular file that has the name may
    /// be replaced.
    pub(super) fn create(path: &Path, size: u64, replace: bool) -> Result<Self, BuildError> {
        match path.symlink_metadata() {
            Ok(found) if !(replace && found.is_file()) => return Err(host(path, Errno::EXIST)),
            _ => {}
        }
        let name = path.file_name().ok_or_else(|| host(path, Errno::INVAL))?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".atrest-{}", std::process::id()));
        let hidden = path.with_file_name(hidden);
        let failed = |error: io::Error| os(path, &error);
        let mut options = OpenOptions::new();
        let file =
            options.read(true).write(true).create_new(true).mode(0o600).open(&hidden).map_err(failed)?;
        let image =
            Self { file, size, hidden, path: path.to_owned(), replace, durability: Durability::new() };
        image.file.set_len(size).map_err(failed)?;
        Ok(image)
    }

    /// Its name in the meantime.
    pub(super) fn hidden(&self) -> &Path {
        &self.hidden
    }

    /// Gives it its name, durably.
    pub(super) fn appear(self) -> Result<(), BuildError> {
        let failed = |error: io::Error| os(&self.path, &error);
        let sync = || self.file.sync_all().map_err(|error| device(Operation::Flush, 0, self.size, &error));
        self.durability.flush(sync).map_err(BuildError::Device)?;
        let kept = if self.replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        match rustix::fs::renameat_with(CWD, &self.hidden, CWD, &self.path, kept) {
            // A filesystem that can't promise not to replace; nobody had the name a moment ago.
            Err(Errno::INVAL | Errno::NOSYS) if self.replace || self.path.symlink_metadata().is_err() => {
                rustix::fs::rename(&self.hidden, &self.path)
            }
            renamed => renamed,
        }
        .map_err(|errno| host(&self.path, errno))?;
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new("."))).and_then(|dir| dir.sync_all()).map_err(failed)
    }
}

impl Drop for NewImage {
    fn drop(&mut self) {
        // Gone already if it has appeared; otherwise the build has failed, and there is nothing more to say.
        let _ = std::fs::remove_file(&self.hidden);
    }
}

impl BlockDevice for NewImage {
    fn size(&self) -> u64 {
        self.size
    }

    fn geometry(&self) -> Geometry {
        Geometry::default()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let len = buf.len() as u64;
        self.file.read_exact_at(buf, offset).map_err(|error| device(Operation::Read, offset, len, &error))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let len = data.len() as u64;
        self.durability.check(Operation::Write, offset, len)?;
        self.check_range(Operation::Write, offset, len)?;
        self.file
            .write_all_at(data, offset)
            .map_err(|error| device(Operation::Write, offset, len, &error))?;
        self.durability.check(Operation::Write, offset, len)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let failed = |error| device(Operation::Flush, 0, self.size, &error);
        self.durability.flush(|| self.file.sync_data().map_err(failed))
    }
}

fn device(operation: Operation, offset: u64, len: u64, error: &io::Error) -> DeviceError {
    DeviceError::new(operation, offset, len, Cause::Os(errno(error)))
}

fn os(path: &Path, error: &io::Error) -> BuildError {
    BuildError::Host { path: path.to_owned(), errno: errno(error) }
}

/// The number of an error. The standard library has errors without one, as for a file that takes no more bytes.
fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(Errno::IO.raw_os_error())
}

#[cfg(test)]
mod tests {
    use atrest_testkit::Scratch;

    use super::*;

    #[test]
    fn an_image_that_was_not_flushed_once_never_appears() {
        let scratch = Scratch::new();
        let path = scratch.path("image");
        let image = NewImage::create(&path, 8192, false).expect("room");
        image.write_at(0, &[1; 512]).expect("written");
        let lost = DeviceError::new(Operation::Flush, 0, 0, Cause::Os(5));
        assert_eq!(image.durability.flush(|| Err(lost)), Err(lost));
        let earlier = |operation, len| DeviceError::new(operation, 0, len, Cause::EarlierFlushFailed);
        assert_eq!(image.write_at(0, &[1; 512]), Err(earlier(Operation::Write, 512)));
        assert_eq!(image.flush(), Err(earlier(Operation::Flush, 0)));
        assert!(
            matches!(image.appear(), Err(BuildError::Device(error)) if error == earlier(Operation::Flush, 0))
        );
        assert_eq!(std::fs::read_dir(scratch.as_path()).expect("a directory").count(), 0);
    }
}
