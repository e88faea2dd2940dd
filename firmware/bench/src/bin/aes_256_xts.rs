//! AES-256-XTS in code for any CPU.
#![no_std]
#![no_main]

use atrest_cipher::AesXts;
use firmware_bench::{Alone, program};

program!(Alone<AesXts, { 2 * 256 / 8 }>);
