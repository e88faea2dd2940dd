//! AES-128-CCM, and `SealedFlash` with it.
#![no_std]
#![no_main]

use atrest_cipher::aead::Aes128Ccm;
use firmware_bench::sealed_program;

sealed_program!(Aes128Ccm);
