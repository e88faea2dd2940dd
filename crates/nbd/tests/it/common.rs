//! Connecting, for tests.

use atrest_nbd::{ConnectError, Export, Options, Uri};

/// An export that can be written.
pub fn connect(uri: &str) -> Export {
    try_connect(uri).unwrap_or_else(|error| panic!("{uri}: {error}"))
}

pub fn try_connect(uri: &str) -> Result<Export, ConnectError> {
    Export::connect(Uri::parse(uri).expect("a URI"), true, Options::default())
}
