//! No cipher: what the others have in common.
#![no_std]
#![no_main]

use atrest_cipher::{DataUnitCipher, DataUnitIndex, RunError};
use firmware_bench::{Subject, program};

struct Nothing;

impl Subject for Nothing {
    const KEY_LEN: usize = 32;
    const EMPTY: Self = Self;
    type Cipher = Self;

    fn expand(&mut self, _: &[u8], _: usize) -> &Self {
        self
    }
}

impl DataUnitCipher for Nothing {
    fn data_unit(&self) -> usize {
        512
    }

    fn encrypt(&self, _: DataUnitIndex, _: &mut [u8]) -> Result<(), RunError> {
        Ok(())
    }

    fn decrypt(&self, _: DataUnitIndex, _: &mut [u8]) -> Result<(), RunError> {
        Ok(())
    }
}

program!(Nothing);
