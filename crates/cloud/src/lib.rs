//! Sealed volumes in clouds: clients of their stores of objects behind the trait that the engine has.
//!
//! A volume is named by a URL, such as `s3://BUCKET/PREFIX` ([`Location`]). Endpoint, region and credentials come from where the tools of that
//! cloud keep them, never from an argument.
//!
//! Every call blocks, and no asynchronous runtime is behind it: a request is one connection's for as long as it runs, and as many
//! threads as ask at once have as many connections. A request ends in a bounded time. None is repeated here, but for one that an idle
//! connection has swallowed; the engine alone decides what is tried again.
//!
//! Only what a sealed volume needs is spoken, over HTTP/1.1, and TLS by rustls. Nothing that a server says is trusted: lengths have
//! bounds, and contents are verified by the engine.
#![forbid(unsafe_code)]

pub mod azure;
mod endpoint;
mod error;
pub mod google;
mod http;
mod location;
mod range;
pub mod s3;
mod time;
mod tls;
mod url;
mod xml;

pub use error::CloudError;
pub use location::Location;

/// What reads bytes of a server, for fuzzing.
#[doc(hidden)]
pub mod untrusted {
    pub use crate::azure::list::page as azure_page;
    pub use crate::google::list::{page as google_page, size as google_size};
    pub use crate::google::token::granted;
    pub use crate::http::{Answer, HttpError, answer};
    pub use crate::s3::list::page;
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
