//! Storage at the speed of the machine: files and block devices, the plaintext of an unlocked volume, bulk copies.
//!
//! * [`FileDevice`] is a regular file or a block device behind [`BlockDevice`](atrest_device::BlockDevice).
//! * [`Disk`] is the plaintext of an unlocked volume, itself a block device: what every face serves.
//! * [`TrustedFile`] is the trusted store of a sealed flash image.
//! * [`bulk`] encrypts and decrypts whole volumes, resumably.
//! * [`reencrypt`] gives the data of a volume another key or cipher where it is, and plaintext its first.
//! * [`flash`] opens encrypted flash: images of chips and cards, and cards.
//! * [`contents`] tells what is on a device before it is overwritten.
#![deny(unsafe_code)]

pub mod bulk;
pub mod contents;
mod disk;
mod file;
pub mod flash;
mod patience;
pub mod reencrypt;
mod sync;
mod sys;
mod trusted;

pub use disk::{Disk, DiskError, DiskOptions};
pub use file::{Access, FileDevice, NewFile, is_same, loop_devices_on};
pub use trusted::{TrustedFile, TrustedFileError};
