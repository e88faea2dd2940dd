//! The faces of an open volume: a network block device ([`nbd`]), a file in a directory (`fuse`), a disk of
//! a virtual machine (`vhost_user`), and a block device that the kernel itself encrypts ([`dm`]).
//!
//! All but the last are written against [`BlockDevice`](atrest_device::BlockDevice) and know of no cipher and no format:
//! what they are given *is* the plaintext. They pass every range on as the client asked for it: a device is addressed by
//! the byte, and only the device knows how to change a part of a data unit beside its readers. `session` remembers what is
//! open, `serve` keeps a face up until it is told to stop, in the foreground, as a daemon or for as long as a command runs;
//! `control` takes keys to and from a process that serves, `gate` holds its clients' requests while it has none; `metrics` counts what a volume is asked for, and tells it;
//! `driver` mounts the file system inside a volume by a program that others keep. All six come with the feature `fuse`, and
//! TLS for NBD comes with the feature `tls`.
//!
//! The plaintext of a volume is served on a socket:
//!
//! ```
//! use std::sync::Arc;
//! use std::thread;
//!
//! use atrest_attach::nbd::{Endpoint, Options, Server};
//! use atrest_engine::{Disk, DiskOptions};
//! # use atrest_engine::{Access, FileDevice};
//! # use atrest_volume::{Devices, LockedVolume, Passphrase, UnlockOptions};
//!
//! # let scratch = atrest_testkit::Scratch::new();
//! # let path = scratch.path("disk.img");
//! # let passphrase = Passphrase::copy_from(b"correct horse");
//! # let mut options = atrest_volume::FormatOptions::default();
//! # options.keyslot.pbkdf.kind = Some(atrest_volume::PbkdfKind::Pbkdf2);
//! # options.keyslot.pbkdf.forced_iterations = Some(1000);
//! # let made = FileDevice::create(&path, 32 << 20)?;
//! # let luks2 = atrest_volume::VolumeFormat::Luks2;
//! # atrest_volume::format(Devices::together(&made), luks2, &passphrase, &options)?;
//! # drop(made);
//! # let media = Arc::new(FileDevice::open(&path, Access::ReadWriteExclusive)?);
//! # let locked = LockedVolume::read(&*media)?;
//! # let volume = locked.unlock(Devices::together(&*media), &passphrase, &UnlockOptions::default())?;
//! # let socket = scratch.path("socket");
//!
//! // The example of `atrest_engine` says where media and volume come from.
//! let disk = Disk::new(media, volume, DiskOptions::default())?;
//! let server = Server::bind(Arc::new(disk), &Endpoint::Unix(socket), Options::default())?;
//! println!("clients connect to {}", server.uri());
//!
//! let stop = server.shutdown();
//! let serving = thread::spawn(|| server.run());
//! // A program waits here until it is told to stop.
//! stop.start();
//! serving.join().expect("the server does not panic")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

#[cfg(feature = "fuse")]
pub mod control;
pub mod dm;
#[cfg(feature = "fuse")]
pub mod driver;
#[cfg(feature = "fuse")]
pub mod fuse;
#[cfg(feature = "fuse")]
pub mod gate;
#[cfg(feature = "fuse")]
pub mod metrics;
pub mod nbd;
#[cfg(feature = "fuse")]
mod path;
mod pieces;
#[cfg(feature = "fuse")]
pub mod serve;
#[cfg(feature = "fuse")]
pub mod session;
mod sync;
#[cfg(feature = "fuse")]
#[allow(unsafe_code)]
mod sys;
#[cfg(feature = "vhost-user")]
pub mod vhost_user;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
