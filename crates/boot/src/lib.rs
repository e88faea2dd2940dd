//! Unlocking at boot, without udev, cryptsetup or scripts.
//!
//! * [`policy`] reads crypttab and the kernel command line: which volumes are opened, and how.
//! * [`device`] finds their devices by UUID, label and partition, and waits for them.
//! * [`net`] gives the machine an address, for keys that servers help to find.
//! * [`unlock`] finds their keys or asks for them, and has the kernel map them.
//! * [`init`] is the first program in an initramfs, which does all that and then starts the system.
//! * [`console`] asks for passphrases where somebody can type.
#![forbid(unsafe_code)]

pub mod config;
pub mod console;
pub mod device;
pub mod init;
mod mounts;
pub mod net;
pub mod policy;
pub mod self_test;
pub mod unlock;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
