//! On-disk formats as bytes to types and back, without any I/O.
//!
//! [`verity`] is dm-verity. [`luks2`] follows the "LUKS2 On-Disk Format Specification" 1.1.3 and, where that is silent, what cryptsetup 2.6
//! accepts and writes. Bytes from media are never trusted: whatever parses has passed every rule, and whatever does
//! not is a typed error that names the field.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::panic
    )
)]

extern crate alloc;

pub mod bitlocker;
pub mod fvault2;
pub mod integrity;
pub mod loopaes;
pub mod luks2;
pub mod plain;
pub mod tcrypt;
pub mod verity;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
