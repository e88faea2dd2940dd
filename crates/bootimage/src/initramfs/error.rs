//! What can go wrong when an initramfs is made.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::cpio::{CpioError, PathError};
use crate::elf::Machine;
use crate::modules::ModuleError;

/// An initramfs that was not made.
#[derive(Debug)]
#[non_exhaustive]
pub enum InitramfsError {
    /// A file that could not be read.
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// A program that is no ELF file.
    NotElf {
        /// Which.
        path: PathBuf,
    },
    /// A program that wants a loader and libraries.
    NotStatic {
        /// Which.
        path: PathBuf,
    },
    /// A program for another machine than the rest.
    Machine {
        /// Which.
        path: PathBuf,
        /// What it is made for.
        machine: Machine,
        /// What the rest is made for.
        expected: Machine,
    },
    /// The modules.
    Modules(ModuleError),
    /// A name.
    Path(PathError),
    /// The existing initramfs.
    Existing(CpioError),
    /// The existing initramfs has something else where a file is to go.
    InTheWay {
        /// Where.
        path: String,
        /// What is there.
        what: &'static str,
    },
    /// The encoder.
    Pack(io::Error),
}

impl fmt::Display for InitramfsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, cause } => write!(f, "{}: {cause}", path.display()),
            Self::NotElf { path } => write!(f, "{}: it is not an ELF program", path.display()),
            Self::NotStatic { path } => {
                write!(f, "{}: it is not static; an initramfs has no libraries for it", path.display())
            }
            Self::Machine { path, machine, expected } => {
                write!(f, "{}: it is made for {machine}, the rest for {expected}", path.display())
            }
            Self::Modules(error) => write!(f, "{error}"),
            Self::Path(error) => write!(f, "{error}"),
            Self::Existing(error) => write!(f, "{error}"),
            Self::InTheWay { path, what } => write!(f, "the initramfs has {what} at /{path}"),
            Self::Pack(error) => write!(f, "it can't be compressed: {error}"),
        }
    }
}

impl std::error::Error for InitramfsError {}

impl From<PathError> for InitramfsError {
    fn from(error: PathError) -> Self {
        Self::Path(error)
    }
}

impl From<ModuleError> for InitramfsError {
    fn from(error: ModuleError) -> Self {
        Self::Modules(error)
    }
}
