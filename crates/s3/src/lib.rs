//! Sealed volumes on S3: a client of its object API behind the trait that the engine has.
//!
//! A volume is named by `s3://BUCKET/PREFIX`. Endpoint, region and credentials come from where the tools of S3 keep them
//! ([`Settings::from_environment`]), never from an argument. [`S3Store`] is the [`ObjectStore`] made of both.
//!
//! Every call blocks, and no asynchronous runtime is behind it: a request is one connection's for as long as it runs, and as many
//! threads as ask at once have as many connections. A request ends in a bounded time. None is repeated here, but for one that an idle
//! connection has swallowed; the engine alone decides what is tried again.
//!
//! Of S3 only what a sealed volume needs is spoken: GET with a range, PUT with `If-None-Match: *`, HEAD, DELETE, and ListObjectsV2,
//! signed by Signature Version 4 over HTTP/1.1, and TLS by rustls. Nothing that the server says is trusted: lengths have bounds, and
//! contents are verified by the engine.
//!
//! [`ObjectStore`]: atrest_sealedvolume::store::ObjectStore
#![forbid(unsafe_code)]

mod credentials;
mod error;
mod http;
mod list;
mod metadata;
mod profile;
mod settings;
mod sign;
mod store;
mod time;
mod tls;
mod url;

pub use credentials::Credentials;
pub use error::S3Error;
pub use list::Page;
pub use settings::Settings;
pub use store::S3Store;
pub use url::Location;

/// What reads bytes of a server, for fuzzing.
#[doc(hidden)]
pub mod untrusted {
    pub use crate::http::{Answer, HttpError, answer};
    pub use crate::list::page;
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
