//! XTS (IEEE 1619-2018, clause 5): the tweak of block j is the encrypted IV times x^j.

use crate::block::{Block, BlockCipher, Direction, xor};
use crate::gf128::{double, times_x_to};
use crate::mode::facts::{Facts, IvRules, KeyLens, Primitives, Template, in_turns};
use crate::mode::xex::xex;
use crate::run::Run;
use crate::tweak::{Iv, IvStream, TweakRule, Units};

/// What is to be known of it.
pub(crate) const FACTS: Facts = Facts {
    name: "xts",
    template: Template::OfCipher,
    primitives: Primitives::BlockCipher,
    key_lens: KeyLens::InTurns(&in_turns([32, 48, 64])),
    iv_len: 16,
    iv_rules: IvRules::Numbers,
    takes_parts: true,
    constant_time: true,
    single_snapshot: false,
    discouraged: false,
};

/// What XTS asks of a backend.
pub(crate) trait XtsBackend: BlockCipher {
    /// XTS with this cipher for the data, over whole units.
    fn xts(&self, direction: Direction, units: XtsUnits<'_, Self>, run: Run<'_>) {
        self::run(self, direction, units, 0, run);
    }

    /// XTS of a run that begins `skipped` blocks into its first unit, or ends within its last one.
    fn xts_from(&self, direction: Direction, units: XtsUnits<'_, Self>, skipped: usize, run: Run<'_>) {
        if skipped == 0 && run.blocks().is_multiple_of(units.units.blocks()) {
            self.xts(direction, units, run);
        } else {
            self::run(self, direction, units, skipped, run);
        }
    }
}

/// The data units of a run, and the cipher that encrypts their IVs.
pub(crate) struct XtsUnits<'a, C> {
    /// Keyed with the second half of the key.
    pub(crate) tweak_cipher: &'a C,
    /// Where the IVs come from.
    pub(crate) units: Units<'a, C>,
}

/// Encrypts or decrypts a run that begins `skipped` blocks into its first unit.
fn run<C: BlockCipher>(
    cipher: &C,
    direction: Direction,
    units: XtsUnits<'_, C>,
    skipped: usize,
    run: Run<'_>,
) {
    let mut tweaks = Tweaks::new(units, skipped, run.blocks());
    xex(cipher, direction, |next| tweaks.fill(cipher, next), run);
}

/// The tweaks of a run, in order.
pub(crate) struct Tweaks<'a, C> {
    starts: IvStream<'a, C>,
    /// The last one.
    tweak: u128,
    unit_blocks: usize,
    /// Blocks left in the current unit.
    left: usize,
}

impl<'a, C: BlockCipher> Tweaks<'a, C> {
    /// Those of `blocks` blocks, the first of which comes `skipped` blocks into its unit.
    pub(crate) fn new(units: XtsUnits<'a, C>, skipped: usize, blocks: usize) -> Self {
        let unit_blocks = units.units.blocks();
        // cannot overflow: blocks in memory and blocks of one unit.
        let count = blocks.saturating_add(skipped).div_ceil(unit_blocks);
        let mut starts = IvStream::new(units.units, Some(units.tweak_cipher), count);
        let (mut tweak, mut left) = (0, 0);
        if let Some(before) = skipped.checked_sub(1) {
            tweak = times_x_to(u128::from_le_bytes(starts.next()), before);
            // cannot be less: a run begins inside its first unit.
            left = unit_blocks.saturating_sub(skipped);
        }
        Self { starts, tweak, unit_blocks, left }
    }

    #[inline(always)]
    pub(crate) fn next(&mut self) -> u128 {
        if self.left == 0 {
            self.left = self.unit_blocks;
            self.tweak = u128::from_le_bytes(self.starts.next());
        } else {
            self.tweak = double(self.tweak);
        }
        self.left -= 1;
        self.tweak
    }

    /// Writes the next ones.
    pub(crate) fn fill(&mut self, cipher: &C, mut to: &mut [Block]) {
        while !to.is_empty() {
            let first = self.next();
            // The first one is written, too.
            let (of_unit, rest) = to.split_at_mut((self.left + 1).min(to.len()));
            self.left -= of_unit.len() - 1;
            self.tweak = cipher.doublings(first, of_unit);
            to = rest;
        }
    }
}

/// Encrypts or decrypts one data unit of any length from 16 bytes on, stealing ciphertext for the last bytes
/// (IEEE 1619-2018, 5.3.2 and 5.4.2). Shorter ones are left alone. `src`, if any, is as long as `dst`.
pub(crate) fn unit<C: XtsBackend>(
    cipher: &C,
    tweak_cipher: &C,
    direction: Direction,
    iv: &Iv,
    src: Option<&[u8]>,
    dst: &mut [u8],
) {
    let blocks = dst.len() / 16;
    let odd = dst.len() % 16;
    if blocks == 0 {
        return;
    }
    let body = if odd == 0 { blocks } else { blocks - 1 };
    let (dst_body, dst_tail) = dst.split_at_mut(body * 16);
    let (src_body, src_tail) = match src.and_then(|src| src.split_at_checked(body * 16)) {
        Some((body, tail)) => (Some(body), Some(tail)),
        None => (None, None),
    };
    let run = match src_body {
        Some(src) => Run::between(src, dst_body).ok(),
        None => Some(Run::in_place(dst_body)),
    };
    if let Some(run) = run.filter(|run| run.blocks() > 0) {
        let rule = TweakRule::Given(*iv);
        let units = Units::new(rule, 0, 0, body);
        cipher.xts(direction, XtsUnits { tweak_cipher, units }, run);
    }
    if odd == 0 {
        return;
    }

    let mut start = [*iv];
    tweak_cipher.encrypt(&mut start);
    let last = times_x_to(u128::from_le_bytes(start[0]), body);
    let beyond = double(last);
    let (first, second) = match direction {
        Direction::Encrypt => (last, beyond),
        Direction::Decrypt => (beyond, last),
    };
    let mut whole = [0; 16];
    let mut partial = [0; 16];
    let (from_whole, from_partial) = src_tail.unwrap_or(dst_tail).split_at(16);
    whole.copy_from_slice(from_whole);
    partial[..odd].copy_from_slice(from_partial);

    let crossed = masked(cipher, direction, first, whole);
    partial[odd..].copy_from_slice(&crossed[odd..]);
    let (to_whole, to_partial) = dst_tail.split_at_mut(16);
    to_whole.copy_from_slice(&masked(cipher, direction, second, partial));
    to_partial.copy_from_slice(&crossed[..odd]);
}

/// One block under one tweak.
fn masked<C: BlockCipher>(cipher: &C, direction: Direction, tweak: u128, block: Block) -> Block {
    let tweak = tweak.to_le_bytes();
    let mut blocks = [xor(&block, &tweak)];
    cipher.apply(direction, &mut blocks);
    xor(&blocks[0], &tweak)
}
