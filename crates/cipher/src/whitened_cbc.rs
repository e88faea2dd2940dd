//! CBC of one to three ciphers in one chain, with IVs and whitening by the sector's number: what TrueCrypt encrypted with before version 4.1
//! ("TrueCrypt User's Guide" 4.0, chapter "Technical Details"; dm-crypt's IVs `tcw` are those of one cipher with blocks of 16 bytes).
//!
//! Each block of plaintext is added to the ciphertext before it, goes through all ciphers, and is whitened. Existing volumes only: CBC tells whoever can write
//! something into the volume about the rest.

use core::fmt;

use atrest_secret::SecretArray;
use zeroize::Zeroize;

use crate::cbc_runs::{CbcCipher, CbcRuns};
use crate::data_rule::tcw::Tcw;
use crate::data_unit::DataUnitCipher;
use crate::key_error::KeyError;
use crate::run::{DataUnitIndex, RunError};

/// Most ciphers in a chain.
const MOST: usize = 3;
/// Bytes of a data unit.
const UNIT: usize = 512;

/// Ciphers in one chain of CBC, over data units of 512 bytes. Wipes itself on drop, can be shared by threads.
pub struct WhitenedCbc {
    ciphers: [Option<CbcRuns>; MOST],
    block_len: usize,
    seed: SecretArray<32>,
    rule: Tcw,
    first: u64,
}

/// Where a chain begins, and what is added to its ciphertext. Wiped on drop.
struct Start {
    iv: [u8; 16],
    mask: [u8; 8],
}

impl Drop for Start {
    fn drop(&mut self) {
        self.iv.zeroize();
        self.mask.zeroize();
    }
}

impl WhitenedCbc {
    /// Expands the keys of the ciphers, of which the first encrypts the plaintext. `seed` makes the IVs and the whitening, and `first_number` is
    /// the number that data unit 0 has for both. The caller wipes its copies.
    ///
    /// # Errors
    ///
    /// * [`KeyError::Chain`] unless there are one to three ciphers whose blocks are equally long.
    /// * [`KeyError::Length`] if a cipher takes no key of this length.
    /// * [`KeyError::NotBuilt`] if a cipher is none of this build's.
    pub fn new(keys: &[(CbcCipher, &[u8])], seed: &[u8; 32], first_number: u64) -> Result<Self, KeyError> {
        let block_len = keys.first().ok_or(KeyError::Chain)?.0.block_len();
        if keys.len() > MOST || keys.iter().any(|(cipher, _)| cipher.block_len() != block_len) {
            return Err(KeyError::Chain);
        }
        let mut ciphers = [None, None, None];
        for (place, (cipher, key)) in ciphers.iter_mut().zip(keys) {
            *place = Some(CbcRuns::new(*cipher, key, UNIT, None)?);
        }
        // The seed of the whitening lies behind an IV, whose length is a block's.
        let (mut iv, mut whitening) = (SecretArray::zeroed(), SecretArray::zeroed());
        iv.copy_from_slice(&seed[..16]);
        whitening.copy_from_slice(&seed[block_len..block_len + 16]);
        let rule = Tcw::new(&iv, &whitening);
        Ok(Self { ciphers, block_len, seed: SecretArray::new(*seed), rule, first: first_number })
    }

    /// Decrypts a single chain that has no number, as headers are: the seed's beginning is the IV, and its second eight bytes are the whitening.
    ///
    /// # Errors
    ///
    /// [`RunError::PartialDataUnit`] unless there are at least one and only whole cipher blocks, of at most 512 bytes.
    pub fn decrypt_unnumbered(&self, chain: &mut [u8]) -> Result<(), RunError> {
        let len = chain.len();
        if len == 0 || len > UNIT || !len.is_multiple_of(16) {
            return Err(RunError::PartialDataUnit { len, data_unit: UNIT });
        }
        let mut start = Start { iv: [0; 16], mask: [0; 8] };
        start.iv.copy_from_slice(&self.seed[..16]);
        start.mask.copy_from_slice(&self.seed[8..16]);
        self.decrypt_chain(&start, chain)
    }

    fn units(
        &self,
        first: DataUnitIndex,
        run: &mut [u8],
        mut chain: impl FnMut(&Start, &mut [u8]) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        if !run.len().is_multiple_of(UNIT) {
            return Err(RunError::PartialDataUnit { len: run.len(), data_unit: UNIT });
        }
        // intended: numbers wrap, as in every mode.
        let mut number = self.first.wrapping_add(first.0);
        for unit in run.chunks_mut(UNIT) {
            let mask = *self.rule.mask(number).first_chunk().unwrap_or(&[0; 8]);
            chain(&Start { iv: self.rule.iv(number), mask }, unit)?;
            number = number.wrapping_add(1);
        }
        Ok(())
    }

    fn encrypt_chain(&self, start: &Start, chain: &mut [u8]) -> Result<(), RunError> {
        let mut previous = start.iv;
        for block in chain.chunks_mut(self.block_len) {
            add(block, &previous);
            for cipher in self.ciphers.iter().flatten() {
                // cannot fail: it is one block.
                cipher.encrypt_blocks(block).map_err(|_| RunError::Engine)?;
            }
            for (to, from) in previous.iter_mut().zip(&*block) {
                *to = *from;
            }
        }
        whiten(&start.mask, chain);
        Ok(())
    }

    fn decrypt_chain(&self, start: &Start, chain: &mut [u8]) -> Result<(), RunError> {
        whiten(&start.mask, chain);
        let mut encrypted = [0; UNIT];
        let len = chain.len().min(UNIT); // intended: callers have no more
        encrypted[..len].copy_from_slice(&chain[..len]);
        for cipher in self.ciphers.iter().rev().flatten() {
            // cannot fail: these are whole blocks.
            cipher.decrypt_blocks(chain).map_err(|_| RunError::Engine)?;
        }
        let mut previous = &start.iv[..self.block_len];
        for (block, own) in chain.chunks_mut(self.block_len).zip(encrypted.chunks(self.block_len)) {
            add(block, previous);
            previous = own;
        }
        Ok(())
    }
}

/// Adds the eight bytes to each eight bytes of ciphertext.
fn whiten(mask: &[u8; 8], chain: &mut [u8]) {
    chain.chunks_mut(8).for_each(|part| add(part, mask));
}

fn add(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to ^= from;
    }
}

impl DataUnitCipher for WhitenedCbc {
    fn data_unit(&self) -> usize {
        UNIT
    }

    fn encrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        self.units(first, run, |start, chain| self.encrypt_chain(start, chain))
    }

    fn decrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        self.units(first, run, |start, chain| self.decrypt_chain(start, chain))
    }
}

impl fmt::Debug for WhitenedCbc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ciphers = self.ciphers.iter().flatten().map(CbcRuns::cipher);
        f.debug_list().entries(ciphers).finish()
    }
}
