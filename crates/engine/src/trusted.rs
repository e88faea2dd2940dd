//! A trusted store in a file, for sealed flash images on the desk: as trustworthy as whoever can write the file.

use core::fmt;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
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

/// Why a file holds no record.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustedFileError {
    /// There is no such file.
    Missing,
    /// It has no bytes: nothing was stored yet, or everything was cut off.
    Empty,
    /// It is not as long as a record.
    Size {
        /// Bytes it has.
        len: u64,
    },
    /// It is a directory, a device, a pipe.
    NotAFile,
    /// The system's error number.
    Os(i32),
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

    /// What it holds.
    pub fn record(&self) -> Result<[u8; TRUSTED_RECORD_LEN], TrustedFileError> {
        // Looked at before it is opened: opening a pipe would wait for its other end.
        let metadata = std::fs::metadata(&self.path).map_err(|error| of(&error))?;
        if !metadata.is_file() {
            return Err(TrustedFileError::NotAFile);
        }
        match metadata.len() {
            0 => return Err(TrustedFileError::Empty),
            len if len != TRUSTED_RECORD_LEN as u64 => return Err(TrustedFileError::Size { len }),
            _ => {}
        }
        let mut record = [0; TRUSTED_RECORD_LEN];
        let mut file = File::open(&self.path).map_err(|error| of(&error))?;
        file.read_exact(&mut record).map_err(|error| of(&error))?;
        Ok(record)
    }

    /// Looks whether a record can be written there, without writing one.
    pub fn check_place(&self) -> io::Result<()> {
        let (_, new) = self.places()?;
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        std::fs::remove_file(new)
    }

    /// Where the record is, and where a new one is written first.
    fn places(&self) -> io::Result<(PathBuf, PathBuf)> {
        // Where a link leads is the place that is trusted.
        let path = std::fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let mut name = OsString::from(".");
        name.push(path.file_name().ok_or(ErrorKind::InvalidInput)?);
        name.push(".new");
        let new = path.with_file_name(name);
        Ok((path, new))
    }

    fn replace(&self, record: &[u8; TRUSTED_RECORD_LEN]) -> io::Result<()> {
        let (path, new) = self.places()?;
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(record)?;
        file.sync_all()?;
        std::fs::rename(&new, &path)?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl TrustedStore for TrustedFile {
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        match self.record() {
            Ok(record) => Ok(Some(record)),
            Err(TrustedFileError::Missing | TrustedFileError::Empty) => Ok(None),
            Err(TrustedFileError::Size { .. } | TrustedFileError::NotAFile) => {
                Err(TrustedStoreError::Damaged)
            }
            Err(TrustedFileError::Os(errno)) => Err(TrustedStoreError::Driver(errno)),
        }
    }

    fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        self.replace(record)
            .map_err(|error| TrustedStoreError::Driver(error.raw_os_error().unwrap_or(libc::EIO)))
    }
}

fn of(error: &io::Error) -> TrustedFileError {
    match error.kind() {
        ErrorKind::NotFound => TrustedFileError::Missing,
        _ => TrustedFileError::Os(error.raw_os_error().unwrap_or(libc::EIO)),
    }
}

impl fmt::Display for TrustedFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("there is no such trusted store"),
            Self::Empty => f.write_str("the trusted store is empty"),
            Self::Size { len } => {
                write!(
                    f,
                    "it is no trusted store: it has {len} bytes, and a trusted store has {TRUSTED_RECORD_LEN}"
                )
            }
            Self::NotAFile => f.write_str("it is no trusted store, which is a regular file"),
            Self::Os(errno) => {
                write!(f, "the trusted store can't be used: {}", io::Error::from_raw_os_error(*errno))
            }
        }
    }
}

impl core::error::Error for TrustedFileError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_record_is_replaced_as_a_whole_and_anything_else_is_refused_by_what_it_is() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("card.trust");
        let mut store = TrustedFile::new(&path);
        assert_eq!((store.load(), store.record()), (Ok(None), Err(TrustedFileError::Missing)));
        for number in [1, 2] {
            store.store(&[number; TRUSTED_RECORD_LEN]).expect("store");
            assert_eq!(TrustedFile::new(&path).load(), Ok(Some([number; TRUSTED_RECORD_LEN])));
        }
        assert_eq!(path.metadata().expect("it").permissions().mode() & 0o777, 0o600);
        assert_eq!(directory.path().read_dir().expect("it").count(), 1, "nothing is left beside");
        for len in [TRUSTED_RECORD_LEN - 1, TRUSTED_RECORD_LEN + 1, 1 << 20] {
            std::fs::write(&path, vec![0; len]).expect("write");
            assert_eq!(store.load(), Err(TrustedStoreError::Damaged));
            assert_eq!(store.record(), Err(TrustedFileError::Size { len: len as u64 }));
        }
        std::fs::write(&path, b"").expect("write");
        assert_eq!((store.load(), store.record()), (Ok(None), Err(TrustedFileError::Empty)));
        let within = TrustedFile::new(path.join("no/such"));
        assert_eq!(within.record(), Err(TrustedFileError::Os(libc::ENOTDIR)));
        assert_eq!(TrustedFile::new(directory.path()).record(), Err(TrustedFileError::NotAFile));
        let mut nowhere = TrustedFile::new(directory.path().join("no/such"));
        assert_eq!(nowhere.check_place().map_err(|error| error.raw_os_error()), Err(Some(libc::ENOENT)));
        assert!(store.check_place().is_ok());
        assert_eq!(directory.path().read_dir().expect("it").count(), 1, "nothing is left beside");
        assert_eq!(nowhere.store(&[0; TRUSTED_RECORD_LEN]), Err(TrustedStoreError::Driver(libc::ENOENT)));
    }

    #[test]
    fn a_link_stays_one_and_what_it_leads_to_is_replaced() {
        let directory = tempfile::tempdir().expect("a directory");
        let (place, link) = (directory.path().join("stick"), directory.path().join("card.trust"));
        std::fs::create_dir(&place).expect("a directory");
        TrustedFile::new(place.join("store")).store(&[1; TRUSTED_RECORD_LEN]).expect("store");
        symlink("stick/store", &link).expect("a link");
        TrustedFile::new(&link).store(&[2; TRUSTED_RECORD_LEN]).expect("store");
        assert!(link.symlink_metadata().expect("it").is_symlink());
        assert_eq!(TrustedFile::new(place.join("store")).record(), Ok([2; TRUSTED_RECORD_LEN]));
        assert_eq!(place.read_dir().expect("it").count(), 1, "nothing is left beside");
    }
}
