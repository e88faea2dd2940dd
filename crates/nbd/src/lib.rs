//! NBD, the network block device (doc/proto.md and doc/uri.md of the NBD project): what both sides of the protocol share,
//! and the client.
//!
//! * [`proto`] has the numbers and headers, [`wire`] the socket, [`tls`] what lies between the two where it is asked for.
//!   The server in `atrest-attach` is made of them, too.
//! * [`Uri`] says where an export is. [`Export::connect`] connects to it: a
//!   [`BlockDevice`](atrest_device::BlockDevice) like any other.
//!
//! The client trusts no server. It allocates no more than it asked for, compares every length and every cookie, and ends a
//! connection whose server breaks the protocol or keeps silent.
#![forbid(unsafe_code)]

mod client;
mod error;
pub mod proto;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
pub mod tls;
mod uri;
pub mod wire;

pub use client::{Export, Options};
pub use error::{Broken, ConnectError};
pub use uri::{Place, Uri, UriError, percent_encoded};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
