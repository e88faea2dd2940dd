//! AES-256-HCTR2 in code for any CPU.
#![no_std]
#![no_main]

use atrest_cipher::Hctr2Plain64;
use firmware_bench::{Alone, program};

program!(Alone<Hctr2Plain64, 32>);
