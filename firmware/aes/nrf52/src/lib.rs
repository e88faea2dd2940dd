//! The ECB peripheral of an nRF52840 behind [`LoadAesKey`]: AES-128, and no decryption. So there is no XTS by it, but CCM for sealed
//! flash ([`EngineCcm`](atrest_cipher::EngineCcm), which compares it with software first), and CMAC for a secret of the device.
//!
//! **Nothing of this has run on a board.**
#![no_std]
#![forbid(unsafe_code)]

use core::cell::RefCell;
use core::fmt;

use atrest_cipher::{AesEncrypt, KeyError, LoadAesKey};
use atrest_secret::SecretArray;
use critical_section::Mutex;
use nrf52840_hal::Ecb;
use nrf52840_hal::ecb::EncryptionError;

static ECB: Mutex<RefCell<Option<Ecb>>> = Mutex::new(RefCell::new(None));

/// Hands the peripheral over, before the first key is loaded. A radio that encrypts by itself disturbs it: its operations fail then.
pub fn install(ecb: Ecb) {
    critical_section::with(|token| ECB.borrow(token).replace(Some(ecb)));
}

/// A key of AES-128, for the peripheral that was [installed](install). It is in RAM, and goes to the peripheral with each block.
pub struct EcbKey(SecretArray<16>);

/// Why nothing was encrypted.
#[derive(Clone, Copy, Debug)]
pub enum EcbError {
    /// The peripheral was never installed.
    Missing,
    /// The radio used the peripheral meanwhile.
    Disturbed(EncryptionError),
}

impl LoadAesKey for EcbKey {
    fn load(key: &[u8]) -> Result<Self, KeyError> {
        let key = key.as_array().ok_or(KeyError::Length { len: key.len() })?;
        if critical_section::with(|token| ECB.borrow_ref(token).is_none()) {
            return Err(KeyError::Engine);
        }
        Ok(Self(SecretArray::new(*key)))
    }
}

impl AesEncrypt for EcbKey {
    type Error = EcbError;

    /// Waits in a loop, some microseconds for each block, in which interrupts wait too.
    fn encrypt(&mut self, blocks: &mut [[u8; 16]]) -> Result<(), EcbError> {
        for block in blocks {
            *block = critical_section::with(|token| {
                let mut ecb = ECB.borrow_ref_mut(token);
                let ecb = ecb.as_mut().ok_or(EcbError::Missing)?;
                ecb.encrypt_block(*block, *self.0).map_err(EcbError::Disturbed)
            })?;
        }
        Ok(())
    }
}

impl fmt::Debug for EcbKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EcbKey(..)")
    }
}

impl fmt::Display for EcbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the ECB peripheral was never installed"),
            Self::Disturbed(_) => f.write_str("the radio used the ECB peripheral meanwhile"),
        }
    }
}

impl core::error::Error for EcbError {}
