//! AES-128-XTS by the portable backend.
#![no_std]
#![no_main]

use firmware_bench::aes_xts::Xts;

firmware_bench::program!(Xts<{ 2 * 128 / 8 }>);
