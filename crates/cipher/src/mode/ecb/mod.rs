//! ECB (NIST SP 800-38A, 6.1): every block on its own. It hides nothing about equal blocks; old volumes need it.

use crate::block::{BlockCipher, Direction, LANES, WIDE};
use crate::mode::facts::{Facts, IvRules, KeyLens, Primitives, Template, in_turns};
use crate::run::Run;

/// What is to be known of it.
pub(crate) const FACTS: Facts = Facts {
    name: "ecb",
    template: Template::OfCipher,
    primitives: Primitives::AnyBlockCipher,
    key_lens: KeyLens::InTurns(&in_turns([16, 24, 32])),
    iv_len: 16,
    iv_rules: IvRules::NumbersOrNone,
    takes_parts: true,
    constant_time: true,
    single_snapshot: false,
    discouraged: true,
};

/// What ECB asks of a backend.
pub(crate) trait EcbBackend: BlockCipher {
    /// Every block of the run on its own.
    fn ecb(&self, direction: Direction, run: Run<'_>) {
        self::run(self, direction, run);
    }
}

/// Encrypts or decrypts a run.
pub(crate) fn run<C: BlockCipher>(cipher: &C, direction: Direction, run: Run<'_>) {
    if cipher.is_wide() && run.blocks() > LANES {
        in_batches::<C, WIDE>(cipher, direction, run);
    } else {
        in_batches::<C, LANES>(cipher, direction, run);
    }
}

#[inline(always)]
fn in_batches<C: BlockCipher, const AT_ONCE: usize>(cipher: &C, direction: Direction, mut run: Run<'_>) {
    let total = run.blocks();
    let mut blocks = [[0; 16]; AT_ONCE];
    let mut at = 0;
    while at < total {
        let count = (total - at).min(AT_ONCE);
        let blocks = &mut blocks[..count];
        run.load(at, blocks);
        cipher.apply(direction, blocks);
        run.store(at, blocks);
        at += count;
    }
}
