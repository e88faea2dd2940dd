//! What is on a device, by signatures, superblocks and partition tables.
//!
//! | question | function |
//! |---|---|
//! | which file system or volume begins here? | [`detect`]; of bytes that are at hand, [`by_signature`] |
//! | what are its UUID and label? | [`identity()`] |
//! | how far does it reach? | [`reach::of`] |
//! | which partitions are there? | [`partition::partitions`] |
//! | what is it, if it is no volume of ours? | [`foreign()`] |
//!
//! Everything is read from untrusted bytes and believed to be a name, no more: what has the right signature may still
//! fail to open. Nothing is ever written, and no bytes make this crate panic or run on without end.
//!
//! Readers of what is named here are elsewhere: volumes in `volume`, file systems in `inside`.
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

mod closer;
mod detect;
mod ext;
pub mod fat;
mod field;
mod foreign;
mod identity;
mod kind;
pub mod partition;
pub mod reach;
mod text;
mod window;

pub use closer::further_back;
pub use detect::detect;
pub use ext::ExtSuperblock;
pub use field::Field;
pub use foreign::{Foreign, foreign};
pub use identity::{Identity, identity};
pub use kind::{FilesystemKind, LOOK_AT, SIGNATURES, by_signature};
pub use window::Window;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
