//! LRW of a cipher with blocks of eight bytes: what TrueCrypt 4.1 to 4.3a had for Blowfish, CAST5 and triple DES. The tweak of a block is its number
//! times a key in GF(2^64) modulo x^64 + x^4 + x^3 + x + 1, as big-endian numbers. The checksums in TrueCrypt's self-test settle it.
//!
//! Existing volumes only: with so short blocks, ciphertexts of some gigabytes tell about each other.

use core::fmt;

use zeroize::Zeroize;

use crate::cbc_runs::{CbcCipher, CbcRuns};
use crate::data_unit::DataUnitCipher;
use crate::key_error::KeyError;
use crate::run::{DataUnitIndex, RunError};

/// Bytes of a data unit, and of a cipher block.
const UNIT: usize = 512;
const BLOCK: usize = 8;

/// A cipher with blocks of eight bytes in LRW, over data units of 512 bytes. Wipes itself on drop, can be shared by threads.
pub struct NarrowLrw {
    cipher: CbcRuns,
    steps: Steps,
    first: u64,
}

/// What the tweak changes by from one block to the next: the key times the bits of the number that change, by how many they are less one. Wiped on
/// drop.
struct Steps([u64; 64]);

impl Drop for Steps {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl NarrowLrw {
    /// Expands a cipher's key and that of the tweaks. `first_number` is the number that data unit 0 has for both. The caller wipes its copies.
    ///
    /// # Errors
    ///
    /// * [`KeyError::Block`] for a cipher whose blocks are longer.
    /// * [`KeyError::Length`] if the cipher takes no key of this length.
    /// * [`KeyError::NotBuilt`] if the cipher is none of this build's.
    pub fn new(
        cipher: CbcCipher,
        key: &[u8],
        tweak_key: &[u8; BLOCK],
        first_number: u64,
    ) -> Result<Self, KeyError> {
        if cipher.block_len() != BLOCK {
            return Err(KeyError::Block { len: cipher.block_len() });
        }
        let cipher = CbcRuns::new(cipher, key, UNIT, None)?;
        let mut steps = Steps([0; 64]);
        let (mut power, mut sum) = (u64::from_be_bytes(*tweak_key), 0);
        for step in &mut steps.0 {
            sum ^= power;
            *step = sum;
            power = double(power);
        }
        Ok(Self { cipher, steps, first: first_number })
    }

    /// Decrypts blocks that belong to no data unit, as those of headers do: they are numbered from one on.
    ///
    /// # Errors
    ///
    /// [`RunError::PartialDataUnit`] unless there are at least one and only whole cipher blocks, of at most 512 bytes.
    pub fn decrypt_unnumbered(&self, blocks: &mut [u8]) -> Result<(), RunError> {
        let len = blocks.len();
        if len == 0 || len > UNIT || !len.is_multiple_of(BLOCK) {
            return Err(RunError::PartialDataUnit { len, data_unit: UNIT });
        }
        self.within(1, blocks, |blocks| self.cipher.decrypt_blocks(blocks).map_err(|_| RunError::Engine))
    }

    /// Calls `cipher` for the blocks of each data unit between two additions of their tweaks.
    fn units(
        &self,
        first: DataUnitIndex,
        run: &mut [u8],
        cipher: impl Fn(&mut [u8]) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        if !run.len().is_multiple_of(UNIT) {
            return Err(RunError::PartialDataUnit { len: run.len(), data_unit: UNIT });
        }
        // intended: numbers wrap, as in every mode. Blocks are counted from one on.
        let mut number = self.first.wrapping_add(first.0);
        for unit in run.chunks_mut(UNIT) {
            let first_block = number.wrapping_mul((UNIT / BLOCK) as u64).wrapping_add(1);
            self.within(first_block, unit, &cipher)?;
            number = number.wrapping_add(1);
        }
        Ok(())
    }

    /// Blocks of at most one data unit, of which the first has that number.
    fn within(
        &self,
        first_block: u64,
        blocks: &mut [u8],
        cipher: impl Fn(&mut [u8]) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let mut tweaks = Tweaks([0; UNIT]);
        let (mut tweak, mut number) = (self.times_key(first_block), first_block);
        for slot in tweaks.0.chunks_mut(BLOCK).take(blocks.len() / BLOCK) {
            slot.copy_from_slice(&tweak.to_be_bytes());
            tweak ^= self.steps.0[number.trailing_ones().min(63) as usize];
            number = number.wrapping_add(1);
        }
        add(blocks, &tweaks.0);
        cipher(blocks)?;
        add(blocks, &tweaks.0);
        tweak.zeroize();
        Ok(())
    }

    /// The key times a number, which is no secret.
    fn times_key(&self, number: u64) -> u64 {
        // The key times a single bit is the difference of two neighbouring steps.
        let step = |bit: usize| self.steps.0[bit] ^ bit.checked_sub(1).map_or(0, |below| self.steps.0[below]);
        (0..64).filter(|bit| number >> bit & 1 == 1).fold(0, |product, bit| product ^ step(bit))
    }
}

/// Tweaks of a data unit. Wiped on drop.
struct Tweaks([u8; UNIT]);

impl Drop for Tweaks {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// x times `a`.
fn double(a: u64) -> u64 {
    (a << 1) ^ (0x1b & 0_u64.wrapping_sub(a >> 63))
}

fn add(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to ^= from;
    }
}

impl DataUnitCipher for NarrowLrw {
    fn data_unit(&self) -> usize {
        UNIT
    }

    fn encrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        self.units(first, run, |unit| self.cipher.encrypt_blocks(unit).map_err(|_| RunError::Engine))
    }

    fn decrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        self.units(first, run, |unit| self.cipher.decrypt_blocks(unit).map_err(|_| RunError::Engine))
    }
}

impl fmt::Debug for NarrowLrw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NarrowLrw").field(&self.cipher.cipher()).finish()
    }
}
