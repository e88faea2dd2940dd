//! AES-256-CBC with ESSIV in code for any CPU.
#![no_std]
#![no_main]

use atrest_cipher::AesCbcEssiv;
use firmware_bench::{Alone, program};

program!(Alone<AesCbcEssiv, 32>);
