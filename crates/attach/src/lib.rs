//! The faces of an open volume: a network block device ([`nbd`]), a file in a directory (`fuse`), and a block device that
//! the kernel itself encrypts ([`dm`]).
//!
//! The first two are written against [`BlockDevice`](atrest_device::BlockDevice) and know of no cipher and no format:
//! what they are given *is* the plaintext. `session` remembers what is open, `serve` keeps a face up until it
//! is told to stop, in the foreground, as a daemon or for as long as a command runs; `control` takes keys to and from a process
//! that serves files. All three come with the feature `fuse`.
#![deny(unsafe_code)]

mod bytes;
#[cfg(feature = "fuse")]
pub mod control;
pub mod dm;
#[cfg(feature = "fuse")]
pub mod fuse;
pub mod nbd;
#[cfg(feature = "fuse")]
pub mod serve;
#[cfg(feature = "fuse")]
pub mod session;
#[cfg(feature = "fuse")]
#[allow(unsafe_code)]
mod sys;
