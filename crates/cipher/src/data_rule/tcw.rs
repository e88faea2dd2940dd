//! TrueCrypt's IVs before version 4.1, and its whitening: eight bytes per sector that are added to all of its ciphertext
//! (kernel, `drivers/md/dm-crypt.c`, `crypt_iv_tcw_gen` and `crypt_iv_tcw_whitening`).

use atrest_secret::SecretArray;
use zeroize::Zeroize;

use super::add_to_first;
use crate::block::{Block, xor};
use crate::run::Position;

/// The last 32 bytes of the key.
pub(crate) struct Tcw {
    seed: SecretArray<16>,
    whitening: SecretArray<16>,
}

impl Tcw {
    pub(crate) fn new(seed: &[u8; 16], whitening: &[u8; 16]) -> Self {
        Self { seed: SecretArray::new(*seed), whitening: SecretArray::new(*whitening) }
    }

    /// Adds each sector's IV to its first block of plaintext, or takes it away.
    pub(crate) fn add_ivs(&self, position: Position, units: &mut [Block]) {
        for (i, unit) in units.chunks_mut(position.unit_blocks).enumerate() {
            add_to_first(unit, &self.iv(position.after(i).number));
        }
    }

    /// Adds the whitening to ciphertext, or takes it away.
    pub(crate) fn whiten(&self, position: Position, units: &mut [Block]) {
        for (i, unit) in units.chunks_mut(position.unit_blocks).enumerate() {
            let mut mask = self.mask(position.after(i).number);
            for block in unit {
                *block = xor(block, &mask);
            }
            mask.zeroize();
        }
    }

    /// The IV of a sector.
    pub(crate) fn iv(&self, number: u64) -> Block {
        with_number(&self.seed, number)
    }

    /// The eight bytes of a sector, twice.
    pub(crate) fn mask(&self, number: u64) -> Block {
        let key = u128::from_le_bytes(with_number(&self.whitening, number));
        let [a, b, c, d] = [0, 32, 64, 96].map(|shift| crc32((key >> shift) as u32));
        let mask = u128::from(a ^ d) | u128::from(b ^ c) << 32;
        (mask | mask << 64).to_le_bytes()
    }
}

/// Each half of the key, xor the number.
fn with_number(key: &[u8; 16], number: u64) -> Block {
    let number = u128::from(number);
    xor(key, &(number | number << 64).to_le_bytes())
}

/// CRC-32 (IEEE 802.3) of four bytes, from an all-zero state and without the final complement; no table.
fn crc32(mut state: u32) -> u32 {
    for _ in 0..32 {
        state = (state >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(state & 1));
    }
    state
}
