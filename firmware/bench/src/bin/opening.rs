//! Openings of `SealedFlash` with Ascon-AEAD128.
#![no_std]
#![no_main]

use atrest_cipher::aead::AsconAead128;
use firmware_bench::opening_program;

opening_program!(AsconAead128);
