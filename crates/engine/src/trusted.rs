//! A trusted store in a file, for sealed flash images on the desk: as trustworthy as whoever can write the file.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use atrest_device::{TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError};

/// A file of [`TRUSTED_RECORD_LEN`] bytes, or none yet. Every store makes a new one beside it, which then takes its name:
/// what ends the program or the power leaves the old record or the new one. Whoever works on the image holds its lock,
/// which covers the store too.
#[derive(Clone, Debug)]
pub struct TrustedFile {
    path: PathBuf,
}

impl TrustedFile {
    /// The store at `path`. Nothing is opened yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn replace(&self, record: &[u8; TRUSTED_RECORD_LEN]) -> io::Result<()> {
        let mut name = OsString::from(".");
        name.push(self.path.file_name().ok_or(ErrorKind::InvalidInput)?);
        name.push(".new");
        let new = self.path.with_file_name(name);
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(record)?;
        file.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl TrustedStore for TrustedFile {
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        match std::fs::read(&self.path) {
            Ok(bytes) => bytes.try_into().map(Some).map_err(|_| TrustedStoreError::Damaged),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(&error)),
        }
    }

    fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        self.replace(record).map_err(|error| failed(&error))
    }
}

fn failed(error: &io::Error) -> TrustedStoreError {
    TrustedStoreError::Driver(error.raw_os_error().unwrap_or(-1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_record_is_replaced_as_a_whole_and_anything_else_is_damaged() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("card.trust");
        let mut store = TrustedFile::new(&path);
        assert_eq!(store.load(), Ok(None));
        for number in [1, 2] {
            store.store(&[number; TRUSTED_RECORD_LEN]).expect("store");
            assert_eq!(TrustedFile::new(&path).load(), Ok(Some([number; TRUSTED_RECORD_LEN])));
        }
        assert_eq!(path.metadata().expect("it").permissions().mode() & 0o777, 0o600);
        assert_eq!(directory.path().read_dir().expect("it").count(), 1, "nothing is left beside");
        std::fs::write(&path, [0; TRUSTED_RECORD_LEN - 1]).expect("write");
        assert_eq!(store.load(), Err(TrustedStoreError::Damaged));
        let mut nowhere = TrustedFile::new(directory.path().join("no/such"));
        assert_eq!(nowhere.store(&[0; TRUSTED_RECORD_LEN]), Err(TrustedStoreError::Driver(libc::ENOENT)));
    }
}
