//! Adiantum with XChaCha12 in code for any CPU.
#![no_std]
#![no_main]

use atrest_cipher::{AdiantumPlain64, Cipher, DataUnitIndex, MapperOptions};
use firmware_bench::{Subject, done, program};

struct Adiantum12(AdiantumPlain64);

impl Subject for Adiantum12 {
    const KEY_LEN: usize = 32;

    fn new(key: &[u8], data_unit: usize) -> Self {
        let options = MapperOptions { data_unit, ..MapperOptions::default() };
        Self(done(AdiantumPlain64::new(Cipher::XChaCha12Aes, key, &options)))
    }

    fn encrypt(&self, run: &mut [u8]) {
        done(self.0.encrypt(DataUnitIndex(0), run));
    }

    fn decrypt(&self, run: &mut [u8]) {
        done(self.0.decrypt(DataUnitIndex(0), run));
    }
}

program!(Adiantum12);
