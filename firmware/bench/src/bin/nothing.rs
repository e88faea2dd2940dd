//! No cipher: what the others have in common.
#![no_std]
#![no_main]

use firmware_bench::{Subject, program};

struct Nothing;

impl Subject for Nothing {
    const KEY_LEN: usize = 32;

    fn new(_: &[u8], _: usize) -> Self {
        Self
    }

    fn encrypt(&self, _: &mut [u8]) {}

    fn decrypt(&self, _: &mut [u8]) {}
}

program!(Nothing);
