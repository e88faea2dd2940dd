//! XTS where words have 32 bits: the two blocks of a batch go from memory into planes and back without a stop on the
//! way. What the generic mode copies would be a tenth of the whole on a small CPU.

use super::PortableAes;
use super::word::{BLOCKS, pack_words, unpack_words};
use crate::block::Direction;
use crate::mode::xts::{Tweaks, XtsUnits};
use crate::run::Run;

/// The words of two cipher blocks, in turns: the first word of the first, the first of the second, and so on.
type Pair = [u32; 8];

/// Encrypts or decrypts a run that begins `skipped` blocks into its first unit.
pub(super) fn run(
    cipher: &PortableAes,
    direction: Direction,
    units: XtsUnits<'_, PortableAes>,
    skipped: usize,
    mut run: Run<'_>,
) {
    let blocks = run.blocks();
    let tweaks = Tweaks::new(units, skipped, blocks);
    let (src, dst) = run.pointers();
    let aligned = (src.addr() | dst.addr()).is_multiple_of(align_of::<u32>());
    // SAFETY: source and destination are those of a run of so many blocks, and aligned where that is said. CPUs that
    // read words from any address need no second loop.
    unsafe {
        if aligned || cfg!(target_arch = "arm") {
            pairs::<true>(cipher, direction, tweaks, src, dst, blocks);
        } else {
            pairs::<false>(cipher, direction, tweaks, src, dst, blocks);
        }
    }
}

/// # Safety
///
/// `src` and `dst` are valid for `blocks` blocks, and the same or disjoint. With `WORDS` they are aligned for words, or
/// the CPU does not mind.
#[inline(always)]
unsafe fn pairs<const WORDS: bool>(
    cipher: &PortableAes,
    direction: Direction,
    mut tweaks: Tweaks<'_, PortableAes>,
    src: *const u8,
    dst: *mut u8,
    blocks: usize,
) {
    let mut at = 0;
    while at < blocks {
        let count = (blocks - at).min(BLOCKS);
        let mut masks: Pair = [0; 8];
        let mut state: Pair = [0; 8];
        for block in 0..count {
            let tweak = tweaks.next();
            for column in 0..4 {
                let i = 2 * column + block;
                masks[i] = (tweak >> (32 * column)) as u32;
                // SAFETY: the word lies within the run, and is aligned as the caller says.
                state[i] = unsafe { load::<WORDS>(src.add(16 * (at + block) + 4 * column)) } ^ masks[i];
            }
        }
        let mut planes = pack_words(state);
        cipher.apply_planes(direction, &mut planes);
        let state = unpack_words(planes);
        for block in 0..count {
            for column in 0..4 {
                let i = 2 * column + block;
                // SAFETY: the word lies within the run, and is aligned as the caller says.
                unsafe { store::<WORDS>(dst.add(16 * (at + block) + 4 * column), state[i] ^ masks[i]) };
            }
        }
        at += count;
    }
}

/// Reads a word, little-endian.
#[inline(always)]
unsafe fn load<const WORDS: bool>(at: *const u8) -> u32 {
    // SAFETY: the caller's promise.
    let word = unsafe {
        if WORDS && !cfg!(target_arch = "arm") {
            at.cast::<u32>().read()
        } else {
            at.cast::<u32>().read_unaligned()
        }
    };
    u32::from_le(word)
}

/// Writes a word, little-endian.
#[inline(always)]
unsafe fn store<const WORDS: bool>(at: *mut u8, word: u32) {
    let word = word.to_le();
    // SAFETY: the caller's promise.
    unsafe {
        if WORDS && !cfg!(target_arch = "arm") {
            at.cast::<u32>().write(word);
        } else {
            at.cast::<u32>().write_unaligned(word);
        }
    }
}
