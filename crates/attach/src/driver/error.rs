//! What can go wrong with a driver.

use core::fmt;
use std::io;
use std::path::PathBuf;

use super::Program;
use crate::fuse::{MountError, WaitError};

/// Why a file system can't be mounted by a driver.
#[non_exhaustive]
#[derive(Debug)]
pub enum DriverError {
    /// The program is not installed.
    Missing {
        /// Which.
        program: Program,
    },
    /// The program is set-user-ID root, and nobody has allowed users to let it see their files.
    Setuid {
        /// Which.
        program: Program,
        /// What mounting our file for it said.
        error: MountError,
    },
    /// Nothing can be mounted there, or our file can't be served.
    Mount(MountError),
    /// There is no place for the file that the driver works on.
    Place {
        /// Where it was to be.
        path: PathBuf,
        /// What the operating system said.
        error: io::Error,
    },
    /// The path of that file has a comma or a backslash, which separate a driver's options.
    Comma {
        /// The path.
        path: PathBuf,
    },
    /// The program can't be started.
    Start {
        /// The program's file, or `mount` of util-linux.
        program: PathBuf,
        /// What the operating system said.
        error: io::Error,
    },
    /// The program ended before it had mounted anything.
    Refused {
        /// Its name.
        program: &'static str,
        /// How it ended.
        status: String,
        /// What it said.
        said: String,
    },
    /// A signal came before anything was mounted.
    Interrupted,
    /// No loop device can be had.
    Loop(io::Error),
    /// The operating system refused something else.
    System(io::Error),
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { program } => write!(f, "{program} is not installed"),
            Self::Setuid { program, error } => write!(
                f,
                "{program} runs with root's rights here, and the kernel lets no such program see a file of yours: {error}"
            ),
            Self::Mount(error) => write!(f, "{error}"),
            Self::Place { path, error } => write!(f, "cannot use {}: {error}", path.display()),
            Self::Comma { path } => {
                write!(
                    f,
                    "no driver can be given {}: commas and backslashes separate its options",
                    path.display()
                )
            }
            Self::Start { program, error } => write!(f, "cannot run {}: {error}", program.display()),
            Self::Refused { program, status, said } if said.is_empty() => {
                write!(f, "{program} could not mount it ({status})")
            }
            Self::Refused { program, status, said } => {
                write!(f, "{program} could not mount it ({status}):\n{said}")
            }
            Self::Interrupted => f.write_str("interrupted before it was mounted"),
            Self::Loop(error) => write!(f, "cannot set up a loop device: {error}"),
            Self::System(error) => write!(f, "cannot run a driver: {error}"),
        }
    }
}

impl core::error::Error for DriverError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Setuid { error, .. } | Self::Mount(error) => Some(error),
            Self::Place { error, .. } | Self::Start { error, .. } => Some(error),
            Self::Loop(error) | Self::System(error) => Some(error),
            _ => None,
        }
    }
}

impl From<MountError> for DriverError {
    fn from(error: MountError) -> Self {
        Self::Mount(error)
    }
}

/// Why a file system was not closed in order.
#[non_exhaustive]
#[derive(Debug)]
pub enum EndError {
    /// The driver was killed, or ended with an error.
    Driver {
        /// Which.
        program: Program,
        /// How it ended.
        status: String,
        /// The last that it said.
        said: String,
    },
    /// Our own file failed.
    File(WaitError),
    /// The operating system refused.
    System(io::Error),
}

impl fmt::Display for EndError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver { program, status, said } => {
                write!(f, "the driver {program} ended ({status}); what it had not written yet is lost")?;
                match said.lines().next_back() {
                    Some(line) => write!(f, "; it said: {line}"),
                    None => Ok(()),
                }
            }
            Self::File(error) => write!(f, "{error}"),
            Self::System(error) => write!(f, "cannot wait for the driver: {error}"),
        }
    }
}

impl core::error::Error for EndError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Driver { .. } => None,
            Self::File(error) => Some(error),
            Self::System(error) => Some(error),
        }
    }
}
