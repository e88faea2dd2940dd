//! Mappings of dm-integrity and dm-verity by their names, as integritysetup and veritysetup name them.

use std::path::Path;

use atrest_attach::dm::DmError;
use atrest_attach::dm::stacked::{self, Kind, Stacked};

use crate::failure::Failure;

/// The name of a mapping that was named by it or by its path.
pub fn name_of(name: &Path) -> &str {
    // intended: what is no text names no mapping, which is told.
    name.strip_prefix("/dev/mapper").unwrap_or(name).to_str().unwrap_or("")
}

/// The mapping of that name, if there is one.
pub fn find(kind: Kind, name: &Path) -> Result<Option<Stacked>, Failure> {
    found(stacked::find(name_of(name), kind))
}

/// How a mapping is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// At once.
    Now,
    /// As soon as nobody uses it.
    Deferred,
    /// Not any more: it stays.
    Cancelled,
}

impl Removal {
    /// As the options `--deferred` and `--cancel-deferred` say.
    pub fn asked(deferred: bool, cancelled: bool) -> Self {
        match (deferred, cancelled) {
            (_, true) => Self::Cancelled,
            (true, false) => Self::Deferred,
            (false, false) => Self::Now,
        }
    }
}

/// Removes a mapping. False if there is none of that name.
pub fn close(kind: Kind, name: &Path, removal: Removal) -> Result<bool, Failure> {
    let name = name_of(name);
    let closed = match removal {
        Removal::Cancelled => stacked::keep(name, kind),
        Removal::Now | Removal::Deferred => stacked::close(name, kind, removal == Removal::Deferred),
    };
    found(closed).map(|closed| closed.is_some())
}

/// Nothing is there where there can be nothing of that name.
fn found<T>(outcome: Result<T, DmError>) -> Result<Option<T>, Failure> {
    match outcome {
        Ok(found) => Ok(Some(found)),
        Err(DmError::NotOpen { .. } | DmError::Control(_) | DmError::Name { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
