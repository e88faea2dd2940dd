//! AES key wrap (RFC 3394): a key under another key, with a check of 64 bits and no nonce.

use core::fmt;

use atrest_cipher::AesBlock;
use atrest_secret::{constant_time_eq, wipe};

/// Bytes that wrapping adds.
pub const OVERHEAD: usize = 8;

/// RFC 3394, section 2.2.3.1.
const CHECK: u64 = 0xa6a6_a6a6_a6a6_a6a6;

/// Why a key was not wrapped or unwrapped.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrapError {
    /// The wrapping key has not 16, 24 or 32 bytes.
    WrappingKeyLen {
        /// Bytes it has.
        len: usize,
    },
    /// What is wrapped has to be 16 bytes or more and a multiple of 8, at most 2^16; wrapped it is 8 bytes longer.
    Len {
        /// Bytes in the key.
        key: usize,
        /// Bytes in the wrapped key.
        wrapped: usize,
    },
    /// The check does not hold: another key wrapped this, or it was changed.
    Check,
}

/// Wraps `key` into `wrapped`, which is 8 bytes longer.
///
/// # Errors
/// [`WrapError::WrappingKeyLen`] if AES has no keys of that length, [`WrapError::Len`] for a length that AES
/// key wrap does not have.
pub fn wrap(wrapping_key: &[u8], key: &[u8], wrapped: &mut [u8]) -> Result<(), WrapError> {
    check_len(key, wrapped)?;
    let mut cipher = AesBlock::empty();
    expand(&mut cipher, wrapping_key)?;
    let len = WrapError::Len { key: key.len(), wrapped: wrapped.len() };
    let (check, registers) = wrapped.split_first_chunk_mut::<8>().ok_or(len)?;
    registers.copy_from_slice(key);
    let mut a = CHECK;
    let mut step = 0_u64;
    for _ in 0..6 {
        for register in registers.as_chunks_mut::<8>().0 {
            let mut block = joined(a, u64::from_be_bytes(*register));
            cipher.encrypt(&mut block);
            step = step.wrapping_add(1);
            let b;
            (a, b) = halves(&mut block);
            a ^= step;
            *register = b.to_be_bytes();
        }
    }
    *check = a.to_be_bytes();
    Ok(())
}

/// Unwraps into `key`, which is 8 bytes shorter than `wrapped` and holds zeros if the check fails.
///
/// # Errors
/// [`WrapError::Check`] if another key wrapped it or it was changed. The lengths are refused as in [`wrap`].
#[inline(never)] // half a kilobyte of round keys, which are to be gone from a small stack afterwards
pub fn unwrap(wrapping_key: &[u8], wrapped: &[u8], key: &mut [u8]) -> Result<(), WrapError> {
    check_len(key, wrapped)?;
    let mut cipher = AesBlock::empty();
    expand(&mut cipher, wrapping_key)?;
    let len = WrapError::Len { key: key.len(), wrapped: wrapped.len() };
    let (check, registers) = wrapped.split_first_chunk::<8>().ok_or(len)?;
    key.copy_from_slice(registers);
    let (registers, _) = key.as_chunks_mut::<8>();
    let mut a = u64::from_be_bytes(*check);
    let mut step = (registers.len() as u64).wrapping_mul(6);
    for _ in 0..6 {
        for register in registers.iter_mut().rev() {
            let mut block = joined(a ^ step, u64::from_be_bytes(*register));
            cipher.decrypt(&mut block);
            step = step.wrapping_sub(1);
            let b;
            (a, b) = halves(&mut block);
            *register = b.to_be_bytes();
        }
    }
    if !constant_time_eq(&a.to_be_bytes(), &CHECK.to_be_bytes()) {
        wipe(key);
        return Err(WrapError::Check);
    }
    Ok(())
}

/// In place: a key that is returned is copied, and half a kilobyte of stack for each copy is much on a microcontroller.
fn expand(cipher: &mut AesBlock, wrapping_key: &[u8]) -> Result<(), WrapError> {
    cipher.expand(wrapping_key).map_err(|_| WrapError::WrappingKeyLen { len: wrapping_key.len() })
}

fn check_len(key: &[u8], wrapped: &[u8]) -> Result<(), WrapError> {
    let (key, wrapped) = (key.len(), wrapped.len());
    let is_right = (16..=1 << 16).contains(&key) && key.is_multiple_of(8);
    if is_right && key.checked_add(OVERHEAD) == Some(wrapped) {
        Ok(())
    } else {
        Err(WrapError::Len { key, wrapped })
    }
}

/// A and B of the RFC as one block.
fn joined(a: u64, b: u64) -> [u8; 16] {
    (u128::from(a) << 64 | u128::from(b)).to_be_bytes()
}

/// A and B again. The block is wiped.
fn halves(block: &mut [u8; 16]) -> (u64, u64) {
    let both = u128::from_be_bytes(*block);
    wipe(block);
    ((both >> 64) as u64, both as u64)
}

impl fmt::Display for WrapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrappingKeyLen { len } => write!(f, "AES has no keys of {len} bytes to wrap with"),
            Self::Len { key, wrapped } => write!(f, "{key} bytes of key do not make {wrapped} bytes wrapped"),
            Self::Check => f.write_str("this is not the key that wrapped it, or it was changed"),
        }
    }
}

impl core::error::Error for WrapError {}
