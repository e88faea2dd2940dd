//! What XTS, XEX with one key and LRW have in common: they differ in their tweaks only.

use crate::block::{Block, BlockCipher, Direction, LANES, WIDE, xor};
use crate::run::Run;

/// XEX: each block is masked with its tweak before and after the cipher.
pub(crate) fn xex<C: BlockCipher>(
    cipher: &C,
    direction: Direction,
    tweak: impl FnMut() -> Block,
    run: Run<'_>,
) {
    if cipher.is_wide() && run.blocks() > LANES {
        in_batches::<C, WIDE>(cipher, direction, tweak, run);
    } else {
        in_batches::<C, LANES>(cipher, direction, tweak, run);
    }
}

#[inline(always)]
fn in_batches<C: BlockCipher, const AT_ONCE: usize>(
    cipher: &C,
    direction: Direction,
    mut tweak: impl FnMut() -> Block,
    mut run: Run<'_>,
) {
    let total = run.blocks();
    let mut at = 0;
    while at < total {
        let count = (total - at).min(AT_ONCE);
        let mut tweaks = [[0; 16]; AT_ONCE];
        let mut blocks = [[0; 16]; AT_ONCE];
        let blocks = &mut blocks[..count];
        run.load(at, blocks);
        for (block, slot) in blocks.iter_mut().zip(&mut tweaks) {
            *slot = tweak();
            *block = xor(block, slot);
        }
        cipher.apply(direction, blocks);
        for (block, slot) in blocks.iter_mut().zip(&tweaks) {
            *block = xor(block, slot);
        }
        run.store(at, blocks);
        at += count;
    }
}
