//! The storage traits that everything above stands on.
//!
//! A [`BlockDevice`] is any run of bytes that can be read and written at an offset by several threads at once:
//! a disk image, a partition, and just as well the *plaintext* of an unlocked volume. A [`FlashDevice`] is flash memory
//! below a translation layer: it is erased in blocks and programmed in units. A [`TrustedStore`] is the little memory beside it
//! by which an older state of the flash is recognised. This room does no I/O. The last two have twins for executors in
//! [`asynchronous`].
#![no_std]
#![forbid(unsafe_code)]
#![allow(clippy::duplicate_mod, reason = "what waits is compiled as blocking and as asynchronous code")]

#[cfg(any(test, feature = "alloc"))]
extern crate alloc;

pub mod asynchronous;
mod block;
mod blocking;
mod durability;
mod error;
mod flash_cell;
mod flash_error;
mod flash_geometry;
#[cfg(test)]
mod forward_tests;
mod media;
mod trusted_error;

pub use block::{BlockDevice, Extent, Geometry, StoreRequests};
pub use blocking::{FlashDevice, FlashRegion, TrustedStore};
pub use durability::Durability;
pub use error::{Cause, DeviceError, Operation};
pub use flash_error::{FlashCause, FlashError, FlashOperation};
pub use flash_geometry::{FlashGeometry, GeometryError};
pub use media::{LockMode, Media, Storage, StorageId, Unshared};
pub use trusted_error::{TRUSTED_RECORD_LEN, TrustedStoreError};

/// Bytes in a sector, the unit in which dm-crypt and LUKS count positions (whatever the data unit is).
pub const SECTOR_SIZE: u64 = 512;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
