//! ESSIV for peers that know CBC only: their own AES under the hash of the key, over all numbers of a run in one call.

use sha2::{Digest, Sha256};

/// The key under which numbers become IVs.
pub fn salt(key: &[u8]) -> [u8; 32] {
    Sha256::digest(key).into()
}

/// Fills `ivs` with the numbers of `units` data units, from 0 on, which are still to be encrypted.
pub fn numbers(ivs: &mut Vec<[u8; 16]>, units: usize) {
    ivs.clear();
    ivs.extend((0..units as u128).map(u128::to_le_bytes));
}
