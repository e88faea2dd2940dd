//! Storage at the speed of the machine: files and block devices, the plaintext of an unlocked volume, bulk copies.
//!
//! * [`FileDevice`] is a regular file or a block device behind [`BlockDevice`](atrest_device::BlockDevice).
//! * [`Disk`] is the plaintext of an unlocked volume, itself a block device: what every face serves.
//! * [`TrustedFile`] is the trusted store of a sealed flash image.
//! * [`bulk`] encrypts and decrypts whole volumes, resumably.
//! * [`reencrypt`] gives the data of a volume another key or cipher where it is, and plaintext its first.
//! * [`flash`] opens encrypted flash: images of chips and cards, and cards.
//! * [`integrity`] keeps data units with their tags, in dm-integrity's layout.
//! * [`verity`] makes, checks and reads hash trees over data that is only read.
//! * [`scrub`] reads everything once, and tells what can't be read.
//! * [`keyring`] has keys of the kernel.
//! * [`contents`] tells what is on a device before it is overwritten.
//! * [`store_scheme`] tells the URL of a store of objects from a path.
//!
//! A passphrase becomes a read, at any offset and of any length:
//!
//! ```
//! use std::sync::Arc;
//!
//! use atrest_device::BlockDevice;
//! use atrest_engine::{Access, Disk, DiskOptions, FileDevice};
//! use atrest_volume::{Devices, LockedVolume, Passphrase, UnlockOptions};
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
//! let media = Arc::new(FileDevice::open(&path, Access::ReadOnly)?);
//! let locked = LockedVolume::read(&*media)?;
//! let volume = locked.unlock(Devices::together(&*media), &passphrase, &UnlockOptions::default())?;
//!
//! let disk = Disk::new(media, volume, DiskOptions::default())?;
//! let mut plaintext = [0; 100];
//! disk.read_at(1_000_003, &mut plaintext)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

pub mod bulk;
pub mod contents;
mod disk;
mod file;
pub mod flash;
pub mod integrity;
pub mod keyring;
mod mapping;
mod patience;
pub mod reencrypt;
mod scrub;
mod sequence;
mod store_url;
mod sync;
mod sys;
mod trusted;
pub mod verity;

pub use disk::{Disk, DiskError, DiskOptions};
pub use file::{
    Access, FileDevice, NewFile, PartitionPlace, ReencryptionLock, is_same, loop_devices_on, partition_place,
};
pub use scrub::scrub;
pub use sequence::Sequence;
pub use store_url::store_scheme;
pub use trusted::{TrustedFile, TrustedFileError};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
