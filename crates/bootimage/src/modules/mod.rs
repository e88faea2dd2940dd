//! Kernel modules: what they need, in which order they are loaded, and their code.

mod load;
mod resolve;
mod tables;

pub use load::{DEFAULT, ModuleFile, ModuleSet, load};
pub use resolve::{Plan, resolve};
pub use tables::{Tables, normal_name};

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::compress::CompressError;

/// Modules that can't be put together.
#[derive(Debug)]
#[non_exhaustive]
pub enum ModuleError {
    /// No module, nothing built in and no alias has this name.
    Missing {
        /// The name as it was given.
        name: String,
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// A table that depmod did not write.
    Table {
        /// The file.
        file: &'static str,
        /// Its line, counted from 1.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Modules that need each other.
    Cycle {
        /// One of them.
        name: String,
    },
    /// A file that could not be read.
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// A module that could not be unpacked.
    Unpack {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: CompressError,
    },
    /// A file that is no module.
    NotElf {
        /// Which.
        path: PathBuf,
    },
    /// The directory's name can't be a kernel's version.
    Version {
        /// The directory.
        directory: PathBuf,
    },
}

impl fmt::Display for ModuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { name, directory } => {
                write!(
                    f,
                    "there is no module {name:?} in {}, and nothing built in or called so",
                    directory.display()
                )
            }
            Self::Table { file, line, what } => write!(f, "{file}, line {line}: {what}"),
            Self::Cycle { name } => write!(f, "modules.dep: {name:?} needs itself"),
            Self::Read { path, cause } => write!(f, "{}: {cause}", path.display()),
            Self::Unpack { path, cause } => write!(f, "{}: {cause}", path.display()),
            Self::NotElf { path } => write!(f, "{}: it is no kernel module", path.display()),
            Self::Version { directory } => {
                write!(f, "{}: its name is not the version of a kernel", directory.display())
            }
        }
    }
}

impl std::error::Error for ModuleError {}
