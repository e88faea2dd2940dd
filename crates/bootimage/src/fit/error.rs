//! What can be wrong with a FIT.

use std::fmt;

use crate::fdt::{FdtError, WriteError};

/// A FIT that can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FitError {
    /// It is no device tree.
    Fdt(FdtError),
    /// It is a device tree without images.
    NoImages,
    /// An image's data is absent or lies outside of the file.
    Data {
        /// The image.
        image: String,
        /// What is wrong.
        what: &'static str,
    },
}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fdt(error) => write!(f, "{error}"),
            Self::NoImages => f.write_str("it is a device tree, but no FIT: it has no images"),
            Self::Data { image, what } => write!(f, "the data of {image:?} {what}"),
        }
    }
}

impl std::error::Error for FitError {}

impl From<FdtError> for FitError {
    fn from(error: FdtError) -> Self {
        Self::Fdt(error)
    }
}

/// A FIT that was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// A name that U-Boot does not take: letters, digits and `,._+-`, at most 100 of them.
    Name(String),
    /// Two images or configurations of this name.
    Twice(String),
    /// A configuration, or the default, names something that is not there.
    Unknown {
        /// Who names it.
        by: String,
        /// The name.
        name: String,
    },
    /// A configuration with two images of a kind of which it can have one.
    TwoOf {
        /// The configuration.
        configuration: String,
        /// The kind.
        kind: &'static str,
    },
    /// An architecture, compression or operating system that U-Boot does not know.
    Value {
        /// What it is.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// No images, no configurations, or no hashes.
    Empty(&'static str),
    /// A kernel without the address that it is loaded to.
    NoLoad(String),
    /// A device tree that is none.
    NotFdt {
        /// The image.
        image: String,
        /// Why.
        cause: FdtError,
    },
    /// The tree can't be written.
    Write(WriteError),
    /// The signature.
    Sign(String),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => {
                write!(f, "{name:?} can't be the name of a part of a FIT (letters, digits and ,._+-)")
            }
            Self::Twice(name) => write!(f, "two parts of the FIT would be called {name:?}"),
            Self::Unknown { by, name } => write!(f, "{by} names {name:?}, which is not there"),
            Self::TwoOf { configuration, kind } => write!(f, "{configuration:?} has more than one {kind}"),
            Self::Value { what, name } => write!(f, "U-Boot knows no {what} {name:?}"),
            Self::Empty(what) => write!(f, "a FIT needs {what}"),
            Self::NoLoad(image) => write!(f, "{image:?} needs the address that it is loaded to"),
            Self::NotFdt { image, cause } => write!(f, "{image:?}: {cause}"),
            Self::Write(error) => write!(f, "{error}"),
            Self::Sign(error) => write!(f, "it can't be signed: {error}"),
        }
    }
}

impl std::error::Error for BuildError {}

impl From<WriteError> for BuildError {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}
