//! What a mode needs of a block cipher, and small arithmetic on cipher blocks.

use crate::mode;
use crate::mode::hctr2::Hctr2Key;
use crate::mode::lrw::LrwKey;
use crate::mode::xts::XtsUnits;
use crate::polyval::PolyvalKey;
use crate::run::Run;
use crate::tweak::Units;

/// One cipher block.
pub(crate) type Block = [u8; 16];

/// Cipher blocks that the generic modes keep in flight: enough to fill the widest portable implementation.
pub(crate) const LANES: usize =
    if cfg!(any(target_arch = "x86_64", target_pointer_width = "64")) { 8 } else { 2 };

/// Which way a run goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Plaintext to ciphertext.
    Encrypt,
    /// Ciphertext to plaintext.
    Decrypt,
}

/// A keyed 128-bit block cipher. The modes are provided; a backend overrides those that it can do better as a whole.
///
/// Implementations wipe their schedules on drop.
pub(crate) trait BlockCipher: Sized {
    /// Whether time and memory accesses are independent of keys and data.
    const CONSTANT_TIME: bool;

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

    /// Every block of the run on its own.
    fn ecb(&self, direction: Direction, run: Run<'_>) {
        mode::ecb::run(self, direction, run);
    }

    /// XTS with this cipher for the data, over whole units.
    fn xts(&self, direction: Direction, units: XtsUnits<'_, Self>, run: Run<'_>) {
        mode::xts::run(self, direction, units, 0, run);
    }

    /// XTS of a run that begins `skipped` blocks into its first unit, or ends within its last one.
    fn xts_from(&self, direction: Direction, units: XtsUnits<'_, Self>, skipped: usize, run: Run<'_>) {
        if skipped == 0 && run.blocks().is_multiple_of(units.units.blocks()) {
            self.xts(direction, units, run);
        } else {
            mode::xts::run(self, direction, units, skipped, run);
        }
    }

    /// XEX with this cipher for the tweaks, too, over whole units.
    fn xex1(&self, direction: Direction, units: Units<'_, Self>, run: Run<'_>) {
        mode::xex1::run(self, direction, units, 0, run);
    }

    /// XEX of a run that begins `skipped` blocks into its first unit, or ends within its last one.
    fn xex1_from(&self, direction: Direction, units: Units<'_, Self>, skipped: usize, run: Run<'_>) {
        if skipped == 0 && run.blocks().is_multiple_of(units.blocks()) {
            self.xex1(direction, units, run);
        } else {
            mode::xex1::run(self, direction, units, skipped, run);
        }
    }

    /// CTR, which is the same both ways.
    fn ctr(&self, units: Units<'_, Self>, run: Run<'_>) {
        mode::ctr::run(self, units, run);
    }

    /// LRW with this cipher.
    fn lrw(&self, key: &LrwKey, direction: Direction, units: Units<'_, Self>, run: Run<'_>) {
        mode::lrw::run(self, key, direction, units, run);
    }

    /// HCTR2 with this cipher.
    fn hctr2(&self, key: &Hctr2Key, direction: Direction, units: Units<'_, Self>, run: Run<'_>) {
        mode::hctr2::run(self, key, direction, units, run);
    }

    /// POLYVAL's state after more blocks.
    fn polyval(&self, key: &PolyvalKey, state: u128, blocks: &[Block]) -> u128 {
        key.absorb(state, blocks)
    }

    /// HCTR2's second half: XCTR with this cipher over whole blocks, in place, and POLYVAL's state after what comes out.
    fn xctr_polyval(&self, hash: &PolyvalKey, nonce: &Block, state: u128, blocks: &mut [Block]) -> u128 {
        mode::hctr2::xctr_polyval(self, hash, nonce, state, blocks)
    }

    /// CBC, each data unit a chain of its own.
    fn cbc(&self, direction: Direction, units: Units<'_, Self>, run: Run<'_>) {
        match direction {
            Direction::Encrypt => mode::cbc::encrypt(self, units, run),
            Direction::Decrypt => mode::cbc::decrypt(self, units, run),
        }
    }
}

/// Exclusive or of two blocks.
#[inline(always)]
pub(crate) fn xor(a: &Block, b: &Block) -> Block {
    (u128::from_ne_bytes(*a) ^ u128::from_ne_bytes(*b)).to_ne_bytes()
}

/// Hands over `COUNT` blocks at a time, and one at a time what is left.
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
