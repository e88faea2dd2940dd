//! Why a volume was not opened.

use core::fmt;
use std::path::PathBuf;

use atrest_engine::DiskError;
use atrest_volume::{OpenError, UnlockError};

use crate::{DeviceOpenError, Refused};

/// A file or device that can't be held.
#[derive(Debug)]
pub struct HeldError {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub error: DeviceOpenError,
}

/// The step that failed. `S` is the error of the key source.
#[derive(Debug)]
pub enum Error<S> {
    /// Opening the files or devices.
    Held(HeldError),
    /// Finding the volume.
    Open(OpenError),
    /// Unlocking it.
    Unlock(Refused<S, UnlockError>),
    /// Joining it to its media.
    Disk(DiskOpenError),
}

/// Why an unlocked volume is not joined to its media.
#[non_exhaustive]
#[derive(Debug)]
pub enum DiskOpenError {
    /// It does not fit, or only the kernel can serve it.
    Disk(DiskError),
    /// The objects of a sealed volume.
    #[cfg(feature = "sealed")]
    Sealed(crate::sealed::SealedError),
}

impl From<DiskError> for DiskOpenError {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

impl fmt::Display for DiskOpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(error) => error.fmt(f),
            #[cfg(feature = "sealed")]
            Self::Sealed(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for DiskOpenError {}

impl fmt::Display for HeldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.error)
    }
}

impl core::error::Error for HeldError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl<S: fmt::Display> fmt::Display for Error<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held(error) => error.fmt(f),
            Self::Open(error) => error.fmt(f),
            Self::Unlock(error) => error.fmt(f),
            Self::Disk(error) => error.fmt(f),
        }
    }
}

impl<S: core::error::Error + 'static> core::error::Error for Error<S> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Held(error) => Some(error),
            Self::Open(error) => Some(error),
            Self::Unlock(error) => Some(error),
            Self::Disk(error) => Some(error),
        }
    }
}
