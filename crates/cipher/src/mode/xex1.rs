//! XEX with one key (Rogaway, "Efficient instantiations of tweakable blockciphers and refinements to modes OCB and PMAC",
//! 2004): the tweak of block j is the encrypted IV times x^(j + 1).
//!
//! One key encrypts both IVs and data, so that the powers must not start at 1: with x^0, decrypting zeros in block 0 would
//! give away the tweak. The form is ours; no other program reads it.

use crate::block::{BlockCipher, Direction};
use crate::gf128::double;
use crate::mode::xex;
use crate::mode::xts::{Tweaks, XtsUnits};
use crate::run::Run;
use crate::tweak::Units;

/// Encrypts or decrypts a run that begins `skipped` blocks into its first unit.
pub(crate) fn run<C: BlockCipher>(
    cipher: &C,
    direction: Direction,
    units: Units<'_, C>,
    skipped: usize,
    run: Run<'_>,
) {
    let mut tweaks = Tweaks::new(XtsUnits { tweak_cipher: cipher, units }, skipped, run.blocks());
    xex(cipher, direction, || double(tweaks.next()).to_le_bytes(), run);
}
