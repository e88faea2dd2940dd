//! What is needed to unlock a volume without a heap: the compact header of encrypted flash, the LUKS1 header, the
//! anti-forensic splitter, keyslot areas, AES key wrap.
//!
//! Everything works on buffers of the caller and does no I/O, so the same code unlocks a disk on a server and a card
//! in a microcontroller.
//!
//! PBKDF2 with SHA-256 and keyslot areas in AES are always there. The feature `catena` brings Catena in memory that the program lends,
//! `alloc` Argon2id and Catena on a heap; `luks1-hashes` and `luks1-ciphers` bring what keyslots of LUKS1 may name besides, and `std`
//! all of it. What a header names and a build has not is refused by the name of the feature.
//! `rotate` reads and writes the flash header of a volume whose key is being rotated, which holds the old key as well.
//!
//! Bytes from media are checked into types before they are used, and never panic.
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

#[cfg(feature = "alloc")]
extern crate alloc;

pub mod af;
pub mod area;
pub mod flash;
pub mod luks1;
#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod secret_bytes;
pub mod wrap;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
