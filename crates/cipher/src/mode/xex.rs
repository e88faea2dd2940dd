//! What XTS, XEX with one key and LRW have in common: they differ in their tweaks only.

use crate::block::{Block, BlockCipher, Direction, LANES, WIDE};
use crate::run::Run;

/// XEX: each block is masked with its tweak before and after the cipher. `tweaks` writes those of the next blocks.
pub(crate) fn xex<C: BlockCipher>(
    cipher: &C,
    direction: Direction,
    tweaks: impl FnMut(&mut [Block]),
    run: Run<'_>,
) {
    if cipher.is_wide() && run.blocks() > LANES {
        in_batches::<C, WIDE>(cipher, direction, tweaks, run);
    } else {
        in_batches::<C, LANES>(cipher, direction, tweaks, run);
    }
}

#[inline(always)]
fn in_batches<C: BlockCipher, const AT_ONCE: usize>(
    cipher: &C,
    direction: Direction,
    mut next: impl FnMut(&mut [Block]),
    mut run: Run<'_>,
) {
    let total = run.blocks();
    let mut tweaks = [[0; 16]; AT_ONCE];
    let mut blocks = [[0; 16]; AT_ONCE];
    let mut at = 0;
    while at < total {
        let count = (total - at).min(AT_ONCE);
        let (tweaks, blocks) = (&mut tweaks[..count], &mut blocks[..count]);
        run.load(at, blocks);
        next(tweaks);
        cipher.mask(blocks, tweaks);
        cipher.apply(direction, blocks);
        cipher.mask(blocks, tweaks);
        run.store(at, blocks);
        at += count;
    }
}
