//! File-based encryption: trees whose files have keys of their own.
//!
//! [`fscrypt`] is what Linux encrypts directories of ext4 with: contents, names and link targets lie encrypted in the
//! filesystem's own structures, which [`atrest_inside`](../atrest_inside/index.html) reads and writes; this crate has the
//! policies, the keys and the ciphers. Both meet at a trait of [`atrest_filetree`]. [`ecryptfs`] is the stacked kind: each file lies encrypted in a file of a *lower*
//! directory, behind a header of its own.
//!
//! What is read is taken to be hostile, and a wrong key is found before anything is decrypted with it: by the key
//! identifier (fscrypt, policies of version 2) or the signature (eCryptfs).
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

pub mod ecryptfs;
mod flags;
pub mod fscrypt;
pub mod lower;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
