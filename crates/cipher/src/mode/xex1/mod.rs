//! XEX with one key (Rogaway, "Efficient instantiations of tweakable blockciphers and refinements to modes OCB and PMAC",
//! 2004): the tweak of block j is the encrypted IV times x^(j + 1).
//!
//! One key encrypts both IVs and data, so that the powers must not start at 1: with x^0, decrypting zeros in block 0 would
//! give away the tweak. The form is ours; no other program reads it.

use crate::block::{Block, BlockCipher, Direction};
use crate::gf128::double;
use crate::mode::facts::{Facts, IvRules, KeyLens, Primitives, Template, in_turns};
use crate::mode::xex::xex;
use crate::mode::xts::{Tweaks, XtsUnits};
use crate::run::Run;
use crate::tweak::Units;

/// What is to be known of it.
pub(crate) const FACTS: Facts = Facts {
    name: "xex1",
    template: Template::OfCipher,
    primitives: Primitives::BlockCipher,
    key_lens: KeyLens::InTurns(&in_turns([16, 24, 32])),
    iv_len: 16,
    iv_rules: IvRules::Numbers,
    takes_parts: true,
    constant_time: true,
    single_snapshot: false,
    discouraged: false,
};

/// What XEX with one key asks of a backend.
pub(crate) trait Xex1Backend: BlockCipher {
    /// XEX with this cipher for the tweaks, too, over whole units.
    fn xex1(&self, direction: Direction, units: Units<'_, Self>, run: Run<'_>) {
        self::run(self, direction, units, 0, run);
    }

    /// XEX of a run that begins `skipped` blocks into its first unit, or ends within its last one.
    fn xex1_from(&self, direction: Direction, units: Units<'_, Self>, skipped: usize, run: Run<'_>) {
        if skipped == 0 && run.blocks().is_multiple_of(units.blocks()) {
            self.xex1(direction, units, run);
        } else {
            self::run(self, direction, units, skipped, run);
        }
    }
}

/// Encrypts or decrypts a run that begins `skipped` blocks into its first unit.
fn run<C: BlockCipher>(cipher: &C, direction: Direction, units: Units<'_, C>, skipped: usize, run: Run<'_>) {
    let mut tweaks = Tweaks::new(XtsUnits { tweak_cipher: cipher, units }, skipped, run.blocks());
    let next = |to: &mut [Block]| {
        tweaks.fill(cipher, to);
        for tweak in to {
            *tweak = double(u128::from_le_bytes(*tweak)).to_le_bytes();
        }
    };
    xex(cipher, direction, next, run);
}
