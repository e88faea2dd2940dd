//! What a machine boots from before its root file system is there: initramfs archives (cpio, compressed as the kernel
//! accepts it), the kernel modules in them, and U-Boot's images.
//!
//! Nothing here knows of volumes or keys. Files that come in are not trusted: every length is held against what is
//! there, and what is unpacked is bounded.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]

pub mod compress;
pub mod cpio;
pub mod elf;
pub mod fdt;
pub mod files;
pub mod fit;
pub mod initramfs;
pub mod modules;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
