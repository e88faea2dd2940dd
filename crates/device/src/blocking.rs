//! The traits whose calls return when the work is done.

use atrest_twin::blocking as twin;

#[path = "flash.rs"]
mod flash;
#[path = "flash_region.rs"]
mod flash_region;
#[path = "trusted.rs"]
mod trusted;

pub use flash::FlashDevice;
pub use flash_region::FlashRegion;
pub use trusted::TrustedStore;
