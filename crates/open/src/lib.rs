//! The one way from a device to an open volume.
//!
//! 1. [`Held::open`] opens and locks the file or block device, and that of a detached header. An export of an NBD server,
//!    by its URI, is as good ([`Device`]), but for the lock. So is, with the feature `sealed`, a store of sealed objects by its URL.
//! 2. [`Held::locked`] looks at it: a [`Locked`] volume, by its header or by what the caller says of it.
//! 3. [`unlock`] tries the keys of a [`KeySource`] until one is right. Whoever has keys, asks people or reads files is
//!    a key source; when another key is tried and when not is decided here alone.
//! 4. [`Held::disk`] joins volume and media to a [`Disk`]: the plaintext as a block device.
//!
//! [`open`] does all four:
//!
//! ```
//! # use atrest_device::BlockDevice as _;
//! use atrest_open::{Format, Key, OneKey, Options};
//! use atrest_secret::Passphrase;
//! # use atrest_volume::{Devices, FormatOptions, KeyslotOptions, PbkdfKind, PbkdfOptions, VolumeFormat};
//! # let directory = atrest_testkit::Scratch::new();
//! # let image = directory.path("disk.img");
//! # std::fs::write(&image, vec![0; 4 << 20])?;
//! # let cheap = PbkdfOptions { kind: Some(PbkdfKind::Pbkdf2), forced_iterations: Some(1000), ..PbkdfOptions::default() };
//! # let device = atrest_engine::FileDevice::open(&image, atrest_engine::Access::ReadWrite)?;
//! # let keyslot = KeyslotOptions { pbkdf: cheap, ..KeyslotOptions::default() };
//! # let options = FormatOptions { keyslot, ..FormatOptions::default() };
//! # let passphrase = Passphrase::copy_from(b"correct horse");
//! # atrest_volume::format(Devices::together(&device), VolumeFormat::Luks1, &passphrase, &options)?;
//! # drop(device);
//! let mut keys = OneKey::new(Key::Passphrase(Passphrase::copy_from(b"correct horse")));
//! let disk = atrest_open::open(&image, &Format::ByHeader, &mut keys, &Options::default())?;
//! let mut sector = [0; 512];
//! disk.read_at(0, &mut sector)?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "foreign")]
mod bitlocker;
mod device;
mod error;
#[cfg(feature = "foreign")]
mod fvault2;
mod held;
mod key;
mod locked;
#[cfg(feature = "foreign")]
mod loopaes;
mod luks;
mod online;
mod plain;
mod policy;
mod reopen;
#[cfg(feature = "sealed")]
pub mod sealed;
#[cfg(feature = "foreign")]
mod tcrypt;
pub mod token;

use std::path::Path;

use atrest_engine::{Disk, DiskOptions};
use atrest_volume::{UnlockOptions, Volume};

pub use device::{Device, DeviceOpenError, is_url};
pub use error::{DiskOpenError, Error, HeldError};
pub use held::Held;
pub use key::{Key, KeySource, NoOtherKey, OneKey};
pub use locked::{Format, Locked};
pub use online::{Background, Progress, Serve};
pub use policy::{MayBeWrongKey, Refused, try_keys, unlock};
pub use reopen::{Reopen, ReopenError, Room};
#[cfg(feature = "foreign")]
pub use tcrypt::try_all as try_tcrypt;

/// How a volume is opened.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options<'a> {
    /// The file or device that the header lies on, if it is not in front of the data.
    pub header: Option<&'a Path>,
    /// Write, too: nobody else may have the volume open. Otherwise other readers may.
    pub write: bool,
    /// What unlocking is told.
    pub unlock: UnlockOptions,
    /// What the disk is told.
    pub disk: DiskOptions,
}

/// Opens the volume in a file or on a block device, with the keys of `keys`: its plaintext.
///
/// Of a volume without a header nothing shows that it is there: with `write`, ask [`Locked::in_the_way`] first.
///
/// # Errors
/// [`Error`] names the step that failed: the file could not be opened or is in use, no volume is there, no key was right
/// or none could be had, or the media is smaller than the volume.
pub fn open<S: KeySource<Key = Key>>(
    path: &Path,
    format: &Format,
    keys: &mut S,
    options: &Options<'_>,
) -> Result<Disk, Error<S::Error>> {
    let held = Held::open(path, options.header, options.write).map_err(Error::Held)?;
    let unlock_options = UnlockOptions {
        read_only: options.unlock.read_only || !options.write,
        sealed: held.media().is_sealed(),
        ..options.unlock.clone()
    };
    let volume = volume(&held, format, keys, &unlock_options)?;
    let mut disk_options = options.disk.clone();
    disk_options.read_only |= !options.write;
    held.disk(volume, disk_options).map_err(Error::Disk)
}

fn volume<S: KeySource<Key = Key>>(
    held: &Held,
    format: &Format,
    keys: &mut S,
    options: &UnlockOptions,
) -> Result<Volume, Error<S::Error>> {
    let locked = held.locked(format).map_err(Error::Open)?;
    locked.check().map_err(|error| Error::Unlock(Refused::Attempt(error)))?;
    unlock(&*locked, keys, options).map_err(Error::Unlock)
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
