//! A small client for FIDO2 security keys: it makes a credential and takes the secret that goes with one (`hmac-secret`).
//!
//! It speaks the four commands of FIDO's "Client to Authenticator Protocol" 2.1 (CTAP) that this needs, over the kernel's `/dev/hidraw*`
//! or a socket that carries the same reports. No daemon and no C library stands between.
//!
//! 1. [`Device::all`] names the security keys that are plugged in, [`SecurityKey::open`] reaches one.
//! 2. [`SecurityKey::make_credential`] makes a [`Credential`], and [`SecurityKey::has`] tells whether a key knows one.
//! 3. [`SecurityKey::secret`] returns the secret of a credential and a salt.
//!
//! A security key is hostile input. A message has at most 7609 bytes, is read strictly, and must come within a time limit, however often
//! the key says that it is still alive. The PIN and the secret cross the wire encrypted, under a key that is agreed on each time.
#![forbid(unsafe_code)]

mod cbor;
mod commands;
mod device;
mod error;
mod hid;
mod info;
mod pin;
mod shared;

#[doc(hidden)]
pub use cbor::check;
pub use commands::{Credential, Request, SecurityKey};
pub use device::{Device, FIDO2_VARIABLE};
pub use error::Fido2Error;
pub use hid::{REPORT, Reports};
pub use info::Info;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
