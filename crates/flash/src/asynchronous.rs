//! The same for executors: while the medium is busy, other tasks run.
//!
//! Whatever waits for a medium or a store is an `async fn` here, on the traits of [`atrest_device::asynchronous`]. It is compiled from the
//! source of the blocking code, so that both do the same, step by step, and media written by one are read by the other.
//!
//! Types that wait for nothing, such as options and errors, are those at the root of the crate. Headers are made and changed by the
//! blocking [`FlashHeader`](crate::FlashHeader) alone.
//!
//! # Computing
//!
//! Futures are pending while the medium works, not while a cipher in software does: a transfer is encrypted in pieces as long as the
//! buffer, between which the medium is awaited. With an [`AsyncEngineCipher`](atrest_cipher::AsyncEngineCipher) below [`CryptFlash`] they
//! are pending while the peripheral works, too. Deriving a key from a passphrase takes seconds and yields never ([`FlashHeader::unlock`] is no
//! `async fn` for that reason): unlock before other tasks have deadlines, or on an executor of lower priority.
//!
//! # Futures that are dropped
//!
//! An operation whose future is dropped before it is ready, by a timeout or `select`, is a failed operation: the range of a program or
//! erase holds whatever the medium left there. A `SealedFlash` counts it as failed before it does anything else: the block that was
//! programmed or erased holds what verifies and takes no more, serials that were given out are not used again, and a write of the store is
//! repeated before the next change. docs/SEALED-FLASH.md, "Futures that are dropped".

use atrest_cipher::AsyncDataUnitCipher as DataUnitCipher;
#[cfg(feature = "sealed")]
use atrest_device::asynchronous::TrustedStore;
use atrest_device::asynchronous::{FlashDevice, FlashRegion};
use atrest_twin::asynchronous as twin;
#[cfg(feature = "embedded-storage-async")]
use embedded_storage_async::nor_flash::{NorFlash, ReadNorFlash};

#[path = "header/copies.rs"]
mod copies;
#[path = "crypt.rs"]
mod crypt;
#[cfg(feature = "embedded-storage-async")]
#[path = "nor.rs"]
mod nor;
#[cfg(feature = "embedded-storage-async")]
#[path = "nor_driver.rs"]
mod nor_driver;
#[path = "header/opened.rs"]
mod opened;
#[cfg(feature = "sealed")]
#[path = "sealed/io.rs"]
mod sealed;

#[cfg(feature = "sealed")]
use crate::sealed::Unfinished;

pub use crypt::CryptFlash;
#[cfg(feature = "embedded-storage-async")]
pub use nor::NorStorage;
#[cfg(feature = "embedded-storage-async")]
pub use nor_driver::NorDriver;
pub use opened::FlashHeader;
#[cfg(feature = "rotate")]
pub use sealed::{RotatingFlash, WithScratch};
#[cfg(feature = "sealed")]
pub use sealed::{SealedFlash, SealedReader, store};
