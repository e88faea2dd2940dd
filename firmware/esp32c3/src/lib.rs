//! An ESP32-C3 whose SD card is encrypted: what of it hangs on the chip. Everything else is what other chips use.
//!
//! **Linted by `make test`, built whole by `make test-full`, run by neither**: there is no board in them, and QEMU has no ESP32-C3.
//! What the engine is called for (tweaks, runs, failures) is tested on the host with an engine in software (`crates/cipher/tests/it/aes_engine.rs`), the
//! card as a flash device with a card in memory (`crates/flash/tests/it/card.rs`).
#![no_std]

#[path = "../../card/src/libc.rs"]
mod libc;
mod random;

pub use random::ChipRandom;
