//! AES-128-GCM, and `SealedFlash` with it.
#![no_std]
#![no_main]

use atrest_cipher::aead::Aes128Gcm;
use firmware_bench::sealed_program;

sealed_program!(Aes128Gcm);
