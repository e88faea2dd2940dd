//! The peripheral ECB00 of an nRF54L behind [`LoadAesKey`]: AES-128, and no decryption. So there is no XTS by it, but CCM for sealed
//! flash ([`EngineCcm`](atrest_cipher::EngineCcm), which compares it with software first), and CMAC for a secret of the device.
//!
//! embassy-nrf has no driver for it, nor for the AES of CRACEN; this one writes the registers that embassy-nrf names.
//! **Nothing of this has run on a board.**
#![no_std]
#![forbid(unsafe_code)]

use core::fmt;
use core::sync::atomic::{Ordering, compiler_fence};

use atrest_cipher::{AesEncrypt, KeyError, LoadAesKey};
use atrest_secret::{SecretArray, wipe};
use embassy_nrf::pac;

/// A key of AES-128 for ECB00, which nothing else in the program uses: the link layer of Bluetooth does. The key is in RAM, and goes to the
/// peripheral with each block.
pub struct EcbKey(SecretArray<16>);

/// Why nothing was encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcbError {
    /// The peripheral reports an error.
    Failed,
    /// The peripheral says nothing.
    Silent,
}

impl LoadAesKey for EcbKey {
    fn load(key: &[u8]) -> Result<Self, KeyError> {
        let key = key.as_array().ok_or(KeyError::Length { len: key.len() })?;
        Ok(Self(SecretArray::new(*key)))
    }
}

impl AesEncrypt for EcbKey {
    type Error = EcbError;

    /// Waits in a loop, in which interrupts wait too.
    fn encrypt(&mut self, blocks: &mut [[u8; 16]]) -> Result<(), EcbError> {
        for block in blocks {
            critical_section::with(|_| encrypt_block(&self.0, block))?;
        }
        Ok(())
    }
}

/// An entry of a list of what the peripheral reads, or writes.
#[repr(C)]
struct Job {
    address: u32,
    /// Bytes, and above them what they are.
    len: u32,
}

/// A block of data: the attribute of the product specification.
const BLOCK: u32 = 11 << 24 | 16;
const END: Job = Job { address: 0, len: 0 };
/// How often the peripheral is asked whether it is ready. A block takes less than a hundred.
const PATIENCE: u32 = 100_000;

fn encrypt_block(key: &[u8; 16], block: &mut [u8; 16]) -> Result<(), EcbError> {
    let ecb = pac::ECB00;
    ecb.tasks_stop().write_value(1);
    // The last word of the key is the first register.
    for (number, word) in key.as_chunks().0.iter().rev().enumerate() {
        ecb.key().value(number).write_value(u32::from_be_bytes(*word));
    }
    let mut clear = *block;
    let input = [Job { address: (&raw const clear) as u32, len: BLOCK }, END];
    let output = [Job { address: (&raw mut *block) as u32, len: BLOCK }, END];
    ecb.in_().ptr().write_value((&raw const input) as u32);
    ecb.out().ptr().write_value((&raw const output) as u32);
    ecb.events_end().write_value(0);
    ecb.events_error().write_value(0);
    // What the peripheral reads is in memory before it begins, and what it writes is read after it has ended.
    compiler_fence(Ordering::SeqCst);
    ecb.tasks_start().write_value(1);
    let mut done = Err(EcbError::Silent);
    for _ in 0..PATIENCE {
        if ecb.events_error().read() != 0 {
            done = Err(EcbError::Failed);
            break;
        }
        if ecb.events_end().read() != 0 {
            done = Ok(());
            break;
        }
    }
    // It has stopped before its buffers are gone.
    ecb.tasks_stop().write_value(1);
    compiler_fence(Ordering::SeqCst);
    wipe(&mut clear);
    done
}

impl fmt::Debug for EcbKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EcbKey(..)")
    }
}

impl fmt::Display for EcbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed => f.write_str("the ECB peripheral reports an error"),
            Self::Silent => f.write_str("the ECB peripheral does not answer"),
        }
    }
}

impl core::error::Error for EcbError {}
