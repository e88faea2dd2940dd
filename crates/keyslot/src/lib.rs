//! What is needed to unlock a volume without a heap: the compact header of encrypted flash, the LUKS1 header, the
//! anti-forensic splitter, keyslot areas, AES key wrap.
//!
//! Everything works on buffers of the caller and does no I/O, so the same code unlocks a disk on a server and a card
//! in a microcontroller. Bytes from media are checked into types before they are used, and never panic.
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
