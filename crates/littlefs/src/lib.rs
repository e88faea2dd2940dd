//! LittleFS for the desk: the C library ([littlefs2-sys](littlefs2_sys)) over any [`FlashDevice`](atrest_device::FlashDevice), with
//! sizes that are known at run time. Firmware uses the `littlefs2` crate, whose sizes are fixed when it is compiled.
//!
//! The library trusts what it reads: tags that it keeps for itself, found on a medium, make it follow pointers that are
//! none, and lists that run in a circle keep it busy for ever. So [`check`] reads all metadata by littlefs's
//! specification (`SPEC.md`) before [`LittleFs::mount`] hands them to the library, and refuses what no littlefs writes.
//! Who changes the medium behind our back afterwards is not held off by this: an encrypting layer does not help, one that
//! authenticates does.
//!
//! `unsafe` is in `raw` alone.
#![deny(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

mod check;
mod error;
mod fs;
mod overlay;
mod probe;
#[allow(unsafe_code, reason = "the bindings to the C library")]
mod raw;

pub use check::{Damage, Summary, check};
pub use error::{LittleFsError, MountError, UnmountError};
pub use fs::{Entry, FileId, FormatOptions, Kind, LittleFs, OpenMode, Space, Version, fits, format};
pub use probe::{Probed, probe};

/// Longest name of a file or directory in bytes.
pub const MAX_NAME_LEN: usize = 255;
/// Longest attribute in bytes.
pub const MAX_ATTRIBUTE_LEN: usize = 1022;
/// Largest file in bytes.
pub const MAX_FILE_LEN: u64 = 0x7fff_ffff;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
