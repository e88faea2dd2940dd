//! HPolyC with XChaCha12 in code for any CPU.
#![no_std]
#![no_main]

use atrest_cipher::HPolyCPlain64;
use firmware_bench::{Alone, program};

program!(Alone<HPolyCPlain64<12>, 32>);
