//! A trusted store in a file, for sealed flash images on the desk: as trustworthy as whoever can write the file.

mod access;
mod error;
mod place;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use atrest_device::{LockMode, TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError};

pub use error::TrustedFileError;
use place::Place;

/// A file of [`TRUSTED_RECORD_LEN`] bytes, or the place of one that is to be made.
///
/// Links are followed when it is opened, and never again: a file that is removed or exchanged meanwhile ends it. It is locked for as
/// long as this lives, against everybody or, if it was opened to be read, against whoever writes; the system unlocks it with the end of the
/// process. Every store makes a new file beside it, with the owner and the permissions of the old one, which then takes its name: what ends the
/// program or the power leaves the old record or the new one.
#[derive(Debug)]
pub struct TrustedFile {
    place: Place,
    /// The file that has the name, locked.
    held: Option<File>,
    mode: LockMode,
}

impl TrustedFile {
    /// Opens the store at `path`, to be read or to be replaced. For that, looks whether a successor can be made, without leaving one.
    ///
    /// # Errors
    /// [`TrustedFileError::Missing`] or [`TrustedFileError::LinkToNothing`] if there is none,
    /// [`TrustedFileError::NotAFile`] or [`TrustedFileError::Size`] if it is none, [`TrustedFileError::Busy`]
    /// if somebody works with it. To be replaced also [`TrustedFileError::Owner`], or
    /// [`TrustedFileError::Os`] if no successor can be made.
    pub fn open(path: impl AsRef<Path>, mode: LockMode) -> Result<Self, TrustedFileError> {
        let place = Place::of_one_there(path.as_ref(), mode)?;
        let held = Some(place.hold(mode)?.ok_or(TrustedFileError::Missing)?);
        let store = Self { place, held, mode };
        if mode == LockMode::Exclusive {
            store.check_successor()?;
        }
        Ok(store)
    }

    /// Opens the store at `path` to be replaced, or its place if there is none. Looks whether a file can be made there, without
    /// leaving one.
    ///
    /// # Errors
    /// Fails where [`open`](Self::open) does, but for [`TrustedFileError::Missing`] if the directory is
    /// there.
    pub fn open_or_new(path: impl AsRef<Path>) -> Result<Self, TrustedFileError> {
        let mode = LockMode::Exclusive;
        let place = Place::of(path.as_ref(), mode)?;
        let held = place.hold(mode)?;
        let store = Self { place, held, mode };
        store.check_successor()?;
        Ok(store)
    }

    /// What the file at `path` holds at this moment, in use or not.
    ///
    /// # Errors
    /// What [`open`](Self::open) and [`record`](Self::record) fail with, but for [`TrustedFileError::Busy`].
    pub fn peek(path: impl AsRef<Path>) -> Result<[u8; TRUSTED_RECORD_LEN], TrustedFileError> {
        let place = Place::of_one_there(path.as_ref(), LockMode::Shared)?;
        record_in(&place.open(LockMode::Shared)?.ok_or(TrustedFileError::Missing)?)
    }

    /// What it holds.
    ///
    /// # Errors
    /// [`TrustedFileError::Missing`] or [`TrustedFileError::Empty`] if nothing was stored yet,
    /// [`TrustedFileError::Size`] if it is no record, [`TrustedFileError::Replaced`] if another file has its
    /// name by now.
    pub fn record(&self) -> Result<[u8; TRUSTED_RECORD_LEN], TrustedFileError> {
        let file = self.held.as_ref().ok_or(TrustedFileError::Missing)?;
        if !self.place.is(file)? {
            return Err(TrustedFileError::Replaced);
        }
        record_in(file)
    }

    /// Takes the file away, if it still is the one that was opened or stored.
    ///
    /// # Errors
    /// [`TrustedFileError::Os`] if the file can't be looked at or removed. A file that is gone or replaced is
    /// no error.
    pub fn remove(mut self) -> Result<(), TrustedFileError> {
        match self.held.take() {
            Some(file) if self.place.is(&file)? => self.place.remove(),
            _ => Ok(()),
        }
    }

    fn check_successor(&self) -> Result<(), TrustedFileError> {
        let beside = self.place.create_beside(self.held.as_ref())?;
        self.place.discard(beside);
        Ok(())
    }

    fn replace(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedFileError> {
        if self.mode != LockMode::Exclusive {
            return Err(TrustedFileError::Os(libc::EBADF));
        }
        if let Some(file) = &self.held
            && !self.place.is(file)?
        {
            return Err(TrustedFileError::Replaced);
        }
        let beside = self.place.create_beside(self.held.as_ref())?;
        // The old one stays locked until the new one, which is locked too, has the name: nobody gets in between.
        self.held = Some(self.place.put(beside, record, self.held.is_none())?);
        self.place.sync()
    }
}

fn record_in(file: &File) -> Result<[u8; TRUSTED_RECORD_LEN], TrustedFileError> {
    match file.metadata()?.len() {
        0 => return Err(TrustedFileError::Empty),
        len if len != TRUSTED_RECORD_LEN as u64 => return Err(TrustedFileError::Size { len }),
        _ => {}
    }
    let mut record = [0; TRUSTED_RECORD_LEN];
    file.read_exact_at(&mut record, 0)?;
    Ok(record)
}

impl TrustedStore for TrustedFile {
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        match self.record() {
            Ok(record) => Ok(Some(record)),
            Err(TrustedFileError::Missing | TrustedFileError::Empty) => Ok(None),
            Err(error) => Err(told(error)),
        }
    }

    fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        self.replace(record).map_err(told)
    }
}

fn told(error: TrustedFileError) -> TrustedStoreError {
    match error {
        TrustedFileError::Size { .. } | TrustedFileError::NotAFile | TrustedFileError::Empty => {
            TrustedStoreError::Damaged
        }
        TrustedFileError::Busy => TrustedStoreError::Busy,
        TrustedFileError::Missing | TrustedFileError::LinkToNothing | TrustedFileError::Replaced => {
            TrustedStoreError::Driver(libc::ENOENT)
        }
        TrustedFileError::Owner { .. } => TrustedStoreError::Driver(libc::EPERM),
        TrustedFileError::Os(errno) => TrustedStoreError::Driver(errno),
    }
}
