//! The client of Google Cloud Storage: against a server that is not Google's, against servers that lie, and where its tokens come from.

mod environment;
mod lies;
mod server;
mod service;
mod tokens;

use atrest_cloud::CloudError;
use atrest_cloud::google::{GoogleLocation, GoogleStore, Settings};

type Pairs<'a> = &'a [(&'a str, &'a str)];

/// The store that a URL names, with an environment.
fn open(pairs: Pairs<'_>, url: &str) -> Result<GoogleStore, CloudError> {
    let settings = Settings::read(&|name| {
        pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    });
    GoogleStore::open(&GoogleLocation::parse(url)?, settings?)
}
