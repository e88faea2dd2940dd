//! AES-128-XTS by the portable backend.
#![no_std]
#![no_main]

use atrest_cipher::{AesXts, DataUnitIndex, MapperOptions};
use firmware_bench::{Subject, done, program};

struct Aes128Xts(AesXts);

impl Subject for Aes128Xts {
    const KEY_LEN: usize = 2 * 128 / 8;

    fn new(key: &[u8], data_unit: usize) -> Self {
        let options = MapperOptions { data_unit, ..MapperOptions::default() };
        Self(done(AesXts::new(key, &options)))
    }

    fn encrypt(&self, run: &mut [u8]) {
        done(self.0.encrypt(DataUnitIndex(0), run));
    }

    fn decrypt(&self, run: &mut [u8]) {
        done(self.0.decrypt(DataUnitIndex(0), run));
    }
}

program!(Aes128Xts);
