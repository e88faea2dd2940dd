//! Encryption for flash memory: between a driver and a file system, without a heap, without wear.
//!
//! [`CryptFlash`] is a [`FlashDevice`](atrest_device::FlashDevice) that encrypts what it passes to another one, with any cipher of
//! [`atrest_cipher`] that preserves the length. Units programmed and blocks erased are exactly those of the medium alone.
//! Nothing is authenticated: see THREAT-MODEL.md.
//!
//! ```
//! use atrest_cipher::{AesXts, MapperOptions};
//! use atrest_device::FlashDevice;
//! use atrest_flash::CryptFlash;
//!
//! # fn example(driver: impl FlashDevice, key: &[u8; 32]) -> Result<(), Box<dyn std::error::Error>> {
//! let cipher = AesXts::new(key, &MapperOptions::default())?;
//! let mut flash = CryptFlash::new(driver, cipher, [0; 256])?;
//! flash.erase(0, 4096)?;
//! flash.prog(0, b"sixteen bytes or")?;
//! # Ok(())
//! # }
//! ```
//!
//! Adapters stand behind cargo features of the names of what they adapt to:
//!
//! | feature | here | to or from |
//! |---|---|---|
//! | `littlefs2` | `LittlefsStorage` | a `FlashDevice` becomes littlefs2's `Storage` |
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod crypt;
#[cfg(feature = "littlefs2")]
mod littlefs;
mod place;

pub use crypt::{BlankReads, CryptFlash, CryptFlashError};
#[cfg(feature = "littlefs2")]
pub use littlefs::{LittlefsError, LittlefsGeometry, LittlefsStorage};
