//! Ascon-AEAD128, and `SealedFlash` with it.
#![no_std]
#![no_main]

use atrest_cipher::aead::AsconAead128;
use firmware_bench::sealed_program;

sealed_program!(AsconAead128);
