//! Storage at the speed of the machine: files and block devices, the plaintext of an unlocked volume, bulk copies.
//!
//! * [`FileDevice`] is a regular file or a block device behind [`BlockDevice`](atrest_device::BlockDevice).
//! * [`Disk`] is the plaintext of an unlocked volume, itself a block device: what every face serves.
//! * [`bulk`] encrypts and decrypts whole volumes, resumably.
//! * [`flash`] opens encrypted flash: images of chips and cards, and cards.
//! * [`mod@bench`] measures ciphers and key derivations.
#![deny(unsafe_code)]

pub mod bench;
pub mod bulk;
mod disk;
mod file;
pub mod flash;
mod sys;

pub use disk::{Disk, DiskError, DiskOptions};
pub use file::{Access, FileDevice, NewFile};
