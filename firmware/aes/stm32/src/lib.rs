//! The AES peripherals of STM32 controllers behind [`AesEngine`](atrest_cipher::AesEngine) and
//! [`AsyncAesEngine`](atrest_cipher::AsyncAesEngine), through embassy-stm32.
//!
//! | feature | peripheral | chips | waits |
//! |---|---|---|---|
//! | `cryp` | CRYP | STM32F4, F7, H7 with CRYP | by DMA: other tasks run |
//! | `aes` | AES, version 3b, the only one that embassy-stm32 drives | STM32WBA | in a loop |
//!
//! **Nothing of this has run on a board.** Put a [`CheckedEngine`](atrest_cipher::CheckedEngine) around it, which compares its first results
//! with software.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "aes")]
mod aes;
#[cfg(feature = "cryp")]
mod cryp;
#[cfg(any(feature = "aes", feature = "cryp"))]
mod keys;

#[cfg(feature = "aes")]
pub use aes::AesPeripheral;
#[cfg(feature = "cryp")]
pub use cryp::CrypPeripheral;
