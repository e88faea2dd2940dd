//! Adiantum with XChaCha12 in code for any CPU.
#![no_std]
#![no_main]

use atrest_cipher::AdiantumPlain64;
use firmware_bench::{Alone, program};

program!(Alone<AdiantumPlain64<12>, 32>);
