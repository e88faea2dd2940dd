//! ChaCha20-Poly1305, and `SealedFlash` with it.
#![no_std]
#![no_main]

use atrest_cipher::aead::ChaCha20Poly1305;
use firmware_bench::sealed_program;

sealed_program!(ChaCha20Poly1305);
