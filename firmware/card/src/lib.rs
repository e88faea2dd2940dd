//! A board with encrypted flash. The emulator puts the flash's image and a task into memory (`-device loader`), where a real
//! board has a driver and buttons; `card` writes the image back to the host.
#![no_std]

mod checksum;
#[cfg(feature = "littlefs")]
pub mod files;
#[cfg(feature = "littlefs")]
mod libc;
pub mod medium;
pub mod sealed;
pub mod task;
pub mod unlock;

pub use checksum::Checksum;
pub use firmware_bench::{Memory, board, done, stack};
