//! ECB (NIST SP 800-38A, 6.1): every block on its own. It hides nothing about equal blocks; old volumes need it.

use crate::block::{BlockCipher, Direction, LANES};
use crate::run::Run;

/// Encrypts or decrypts a run.
pub(crate) fn run<C: BlockCipher>(cipher: &C, direction: Direction, mut run: Run<'_>) {
    let total = run.blocks();
    let mut at = 0;
    while at < total {
        let count = (total - at).min(LANES);
        let mut blocks = [[0; 16]; LANES];
        let blocks = &mut blocks[..count];
        run.load(at, blocks);
        cipher.apply(direction, blocks);
        run.store(at, blocks);
        at += count;
    }
}
