//! Encryption for flash memory: between a driver and a file system, without a heap, without wear.
//!
//! [`CryptFlash`] is a [`FlashDevice`](atrest_device::FlashDevice) that encrypts what it passes to another one, with any cipher of
//! [`atrest_cipher`] that preserves the length. Units programmed and blocks erased are exactly those of the medium alone.
//! Nothing is authenticated: see THREAT-MODEL.md.
//!
//! `SealedFlash`, behind the feature `sealed`, gives some room for tags and asks for a small trusted store, and nothing on
//! the medium can be changed, moved or put back unnoticed.
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
//! For executors [`asynchronous`] has the twins of all that waits for a medium.
//!
//! Adapters stand behind cargo features of the names of what they adapt to, and what needs an authenticating cipher behind one
//! of its own:
//!
//! | feature | here | to or from |
//! |---|---|---|
//! | `littlefs2` | `LittlefsStorage` | a `FlashDevice` becomes littlefs2's `Storage` |
//! | `embedded-storage` | `NorStorage`, `NorDriver` | a `FlashDevice` becomes a `NorFlash`, and the other way round |
//! | `embedded-storage-async` | `asynchronous::{NorStorage, NorDriver}` | the same for executors |
//! | `embedded-sdmmc` | `CryptCard`, `CardFlash` | an SD card below FAT, encrypted; and as a `FlashDevice`, below littlefs |
//! | | `Luks1Card`, `CardPart` | an SD card with LUKS1, which cryptsetup opens too; a part of a card |
//! | `block-device-driver` | `CryptBlocks` | the same for executors |
//! | `sealed` | `SealedFlash`, `SealedReader` | a `FlashDevice`, authenticated |
//! | | `SealedParts` | several of them on one chip, behind one trusted store |
//! | `rotate` | `RotatingFlash` | a sealed volume that gets a new volume key while it is used |
//! | `ascon`, `ccm`, `chacha20poly1305`, `gcm` | the same, with this cipher of `atrest_cipher::aead` | |
//!
//! AES-XTS, Adiantum, HPolyC and HCTR2 need no feature. `essiv` brings `AesCbcEssiv`, `catena` passphrases by Catena. docs/FIRMWARE.md
//! begins a firmware.
#![no_std]
#![forbid(unsafe_code)]
#![allow(clippy::duplicate_mod, reason = "what waits is compiled as blocking and as asynchronous code")]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects))]

pub mod asynchronous;
mod blocking;
#[cfg(feature = "block-device-driver")]
mod blocks;
#[cfg(feature = "embedded-sdmmc")]
mod card;
#[cfg(feature = "embedded-sdmmc")]
mod card_flash;
#[cfg(feature = "embedded-sdmmc")]
mod card_part;
mod crypt_setup;
mod header;
#[cfg(feature = "littlefs2")]
mod littlefs;
#[cfg(feature = "embedded-sdmmc")]
mod luks1;
#[cfg(feature = "embedded-storage")]
mod nor_error;
#[cfg(feature = "embedded-storage")]
mod nor_fault;
mod place;
#[cfg(feature = "sealed")]
pub mod sealed;
#[cfg(test)]
mod stub;

pub use blocking::{Anchor, CryptFlash, Existing, FlashHeader, FormatOptions, NewSlot};
#[cfg(feature = "embedded-storage")]
pub use blocking::{NorDriver, NorStorage};
#[cfg(feature = "block-device-driver")]
pub use blocks::CryptBlocks;
#[cfg(feature = "embedded-sdmmc")]
pub use card::CryptCard;
#[cfg(feature = "embedded-sdmmc")]
pub use card_flash::{CardFlash, CardFlashError};
#[cfg(feature = "embedded-sdmmc")]
pub use card_part::CardPart;
pub use crypt_setup::{BlankReads, CryptFlashError};
pub use header::{
    AnchorError, AnchorHeader, CopyState, FlashHeaderError, FoundHeader, HeaderMark, HeaderNotOpened,
};
#[cfg(feature = "littlefs2")]
pub use littlefs::{LittlefsError, LittlefsGeometry, LittlefsStorage};
#[cfg(feature = "embedded-sdmmc")]
pub use luks1::{Luks1Card, Luks1CardError};
#[cfg(feature = "embedded-storage")]
pub use nor_error::{NorDriverError, NorError};
#[cfg(feature = "embedded-storage")]
pub use nor_fault::{ByOperation, NorFault, NorFaults};
#[cfg(any(feature = "embedded-sdmmc", feature = "block-device-driver"))]
pub use place::{CardError, CardSetupError};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
