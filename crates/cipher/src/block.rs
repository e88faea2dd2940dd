//! Block ciphers and their blocks, and small arithmetic on these.

use crate::gf128;

/// One cipher block.
pub(crate) type Block = [u8; 16];

/// Cipher blocks that the generic modes keep in flight: enough to fill the widest implementation that knows no mode.
pub(crate) const LANES: usize = if cfg!(target_arch = "x86_64") {
    16
} else if cfg!(target_pointer_width = "64") {
    8
} else {
    2
};

/// Cipher blocks that the modes keep in flight for implementations that want so many.
pub(crate) const WIDE: usize = 64;

/// Which way a run goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Plaintext to ciphertext.
    Encrypt,
    /// Ciphertext to plaintext.
    Decrypt,
}

/// A keyed 128-bit block cipher.
///
/// Implementations wipe their schedules on drop.
pub(crate) trait BlockCipher: Sized {
    /// Whether time and memory accesses are independent of keys and data.
    fn is_constant_time(&self) -> bool;

    /// Whether [`WIDE`] blocks at once are faster than [`LANES`].
    fn is_wide(&self) -> bool {
        false
    }

    /// Encrypts any number of blocks, each on its own.
    fn encrypt(&self, blocks: &mut [Block]);

    /// Decrypts any number of blocks, each on its own.
    fn decrypt(&self, blocks: &mut [Block]);

    /// Encrypts or decrypts, each block on its own.
    fn apply(&self, direction: Direction, blocks: &mut [Block]) {
        match direction {
            Direction::Encrypt => self.encrypt(blocks),
            Direction::Decrypt => self.decrypt(blocks),
        }
    }

    /// Xors `masks` to as many blocks.
    #[inline(always)]
    fn mask(&self, blocks: &mut [Block], masks: &[Block]) {
        xor_all(blocks, masks);
    }

    /// Writes `first` and what comes of it by doubling it again and again in GF(2^128), little-endian, and returns the last one.
    #[inline(always)]
    fn doublings(&self, first: u128, to: &mut [Block]) -> u128 {
        gf128::doublings(first, to)
    }
}

/// Exclusive or of two blocks.
#[inline(always)]
pub(crate) fn xor(a: &Block, b: &Block) -> Block {
    (u128::from_ne_bytes(*a) ^ u128::from_ne_bytes(*b)).to_ne_bytes()
}

/// Xors each of `others` to the block that stands in its place.
#[inline(always)]
pub(crate) fn xor_all(blocks: &mut [Block], others: &[Block]) {
    for (block, other) in blocks.iter_mut().zip(others) {
        *block = xor(block, other);
    }
}

/// Hands over `COUNT` blocks at a time, and one at a time what is left.
#[cfg(any(feature = "noekeon", feature = "speck", feature = "twofish"))]
#[inline(always)]
pub(crate) fn in_batches<const COUNT: usize>(
    blocks: &mut [Block],
    batch: impl Fn(&mut [Block; COUNT]),
    single: impl Fn(&mut [Block; 1]),
) {
    let (batches, rest) = blocks.as_chunks_mut();
    batches.iter_mut().for_each(batch);
    rest.as_chunks_mut().0.iter_mut().for_each(single);
}
