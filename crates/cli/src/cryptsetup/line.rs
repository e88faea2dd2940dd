//! The words that [`translate`](super::translate) has made of a request for a volume of another program, read as `atrest` reads them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;

use super::refused;
use crate::args::open::UnlockArgs;
use crate::failure::{Code, Failure};

/// What the request says.
#[derive(Parser)]
pub struct Line {
    pub path: PathBuf,
    #[command(flatten)]
    pub unlock: UnlockArgs,
}

impl Line {
    pub fn read(words: Vec<OsString>) -> Result<Self, Failure> {
        let words = std::iter::once(OsString::from("atrest")).chain(words);
        Self::try_parse_from(words).map_err(|error| refused(&error))
    }
}

/// Where cryptsetup says that an argument is wrong, `atrest` says that the device is.
pub fn as_parameter(failure: Failure) -> Failure {
    failure.with_code(Some(Code::Parameters as u8))
}
