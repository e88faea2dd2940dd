//! What blocks while the medium is busy. Its twin is `asynchronous.rs`; the header is changed here alone.

use atrest_cipher::DataUnitCipher;
#[cfg(feature = "sealed")]
use atrest_device::TrustedStore;
use atrest_device::{FlashDevice, FlashRegion};
use atrest_twin::blocking as twin;
#[cfg(feature = "embedded-storage")]
use embedded_storage::nor_flash::{NorFlash, ReadNorFlash};

#[path = "header/change.rs"]
mod change;
#[path = "header/copies.rs"]
mod copies;
#[path = "crypt.rs"]
mod crypt;
#[cfg(feature = "embedded-storage")]
#[path = "nor.rs"]
mod nor;
#[cfg(feature = "embedded-storage")]
#[path = "nor_driver.rs"]
mod nor_driver;
#[path = "header/opened.rs"]
mod opened;
#[path = "header/replace.rs"]
mod replace;
#[cfg(feature = "rotate")]
#[path = "header/rotate.rs"]
mod rotate;
#[cfg(feature = "sealed")]
#[path = "sealed/io.rs"]
pub(crate) mod sealed;

#[cfg(feature = "sealed")]
use crate::sealed::NeverUnfinished as Unfinished;

pub use change::{Anchor, Existing, FormatOptions, NewSlot};
pub use crypt::CryptFlash;
#[cfg(feature = "embedded-storage")]
pub use nor::NorStorage;
#[cfg(feature = "embedded-storage")]
pub use nor_driver::NorDriver;
pub use opened::FlashHeader;
