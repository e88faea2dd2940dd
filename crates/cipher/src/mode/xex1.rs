//! XEX with one key (Rogaway, "Efficient instantiations of tweakable blockciphers and refinements to modes OCB and PMAC",
//! 2004): the tweak of block j is the encrypted IV times x^(j + 1).
//!
//! The same key encrypts IVs and data, so that the powers must not start at 1: with x^0, decrypting zeros in block 0 would
//! give away the tweak. The form is ours; no other program reads it.

use crate::block::{BlockCipher, Direction};
use crate::gf128::double;
use crate::mode::xex;
use crate::run::Run;
use crate::tweak::{IvStream, Units};

/// Encrypts or decrypts a run.
pub(crate) fn run<C: BlockCipher>(cipher: &C, direction: Direction, units: Units<'_, C>, run: Run<'_>) {
    let unit_blocks = units.blocks();
    let mut starts = IvStream::new(units, Some(cipher), run.blocks().div_ceil(unit_blocks));
    let mut tweak = 0;
    let mut left = 0;
    let next = || {
        if left == 0 {
            left = unit_blocks;
            tweak = u128::from_le_bytes(starts.next());
        }
        left -= 1;
        tweak = double(tweak);
        tweak.to_le_bytes()
    };
    xex(cipher, direction, next, run);
}
