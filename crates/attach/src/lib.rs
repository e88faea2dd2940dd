//! The faces of an open volume: a network block device ([`nbd`]), a file in a directory (`fuse`), and a block device that
//! the kernel itself encrypts ([`dm`]).
//!
//! The first two are written against [`BlockDevice`](atrest_device::BlockDevice) and know of no cipher and no format:
//! what they are given *is* the plaintext. They pass every range on as the client asked for it: a device is addressed by
//! the byte, and only the device knows how to change a part of a data unit beside its readers. `session` remembers what is open, `serve` keeps a face up until it
//! is told to stop, in the foreground, as a daemon or for as long as a command runs; `control` takes keys to and from a process
//! that serves files. All three come with the feature `fuse`.
#![deny(unsafe_code)]

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
mod sync;
#[cfg(feature = "fuse")]
#[allow(unsafe_code)]
mod sys;
