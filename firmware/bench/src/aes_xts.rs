//! AES-XTS by the portable backend, for the programs of either key length.

use atrest_cipher::{AesXts, DataUnitIndex, MapperOptions};

use crate::{Subject, done};

/// AES-XTS with a key of `KEY_LEN` bytes, both halves counted.
pub struct Xts<const KEY_LEN: usize>(AesXts);

impl<const KEY_LEN: usize> Subject for Xts<KEY_LEN> {
    const KEY_LEN: usize = KEY_LEN;

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
