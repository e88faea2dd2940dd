//! Which data unit a byte of a medium lies in. FORMATS.md, "Encrypted flash": unit u is bytes u × size to (u + 1) × size.

use core::num::NonZeroU64;

use atrest_cipher::{DataUnitCipher, DataUnitIndex, RunError};

/// A cipher that is asked by address.
pub(crate) struct Placed<C> {
    cipher: C,
    unit: NonZeroU64,
}

impl<C: DataUnitCipher> Placed<C> {
    /// None if the cipher's data unit has no bytes.
    pub(crate) fn new(cipher: C) -> Option<Self> {
        let unit = NonZeroU64::new(cipher.data_unit() as u64)?;
        Some(Self { cipher, unit })
    }

    /// Encrypts what lies at an address, in one run.
    pub(crate) fn encrypt(&self, address: u64, bytes: &mut [u8]) -> Result<(), RunError> {
        let (unit, offset) = self.place(address);
        self.cipher.encrypt_at(unit, offset, bytes)
    }

    /// Decrypts what lies at an address, in one run.
    pub(crate) fn decrypt(&self, address: u64, bytes: &mut [u8]) -> Result<(), RunError> {
        let (unit, offset) = self.place(address);
        self.cipher.decrypt_at(unit, offset, bytes)
    }

    fn place(&self, address: u64) -> (DataUnitIndex, usize) {
        // The remainder is less than the data unit, which is a usize.
        (DataUnitIndex(address / self.unit), (address % self.unit) as usize)
    }
}
