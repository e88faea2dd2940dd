//! The storage traits that everything above stands on.
//!
//! A [`BlockDevice`] is any run of bytes that can be read and written at an offset by several threads at once:
//! a disk image, a partition, and just as well the *plaintext* of an unlocked volume. This room does no I/O.
#![no_std]
#![forbid(unsafe_code)]

mod block;
mod error;

pub use block::{BlockDevice, Extent, Geometry, LockMode};
pub use error::{Cause, DeviceError, Operation};

/// Bytes in a sector, the unit in which dm-crypt and LUKS count positions (whatever the data unit is).
pub const SECTOR_SIZE: u64 = 512;
