//! Storage at the speed of the machine: files and block devices, the plaintext of an unlocked volume, bulk copies.
//!
//! * [`FileDevice`] is a regular file or a block device behind [`BlockDevice`](atrest_device::BlockDevice).
#![deny(unsafe_code)]

mod file;
mod sys;

pub use file::{Access, FileDevice};
