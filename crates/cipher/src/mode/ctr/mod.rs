//! CTR (NIST SP 800-38A, 6.5): the keystream is the encrypted IV, counted on big-endian as the kernel's `ctr` does.
//!
//! What is written twice to a data unit is xored with the same keystream: whoever sees both ciphertexts knows the
//! difference of the plaintexts.

use crate::block::{BlockCipher, xor};
use crate::mode::facts::{Facts, IvRules, KeyLens, Primitives, Template, in_turns};
use crate::run::Run;
use crate::tweak::{IvStream, Units};

/// What is to be known of it.
pub(crate) const FACTS: Facts = Facts {
    name: "ctr",
    template: Template::OfCipher,
    primitives: Primitives::BlockCipher,
    key_lens: KeyLens::InTurns(&in_turns([16, 24, 32])),
    iv_len: 16,
    iv_rules: IvRules::Numbers,
    takes_parts: false,
    constant_time: true,
    single_snapshot: true,
    discouraged: false,
};

/// What CTR asks of a backend.
pub(crate) trait CtrBackend: BlockCipher {
    /// CTR, which is the same both ways.
    fn ctr(&self, units: Units<'_, Self>, run: Run<'_>) {
        self::run(self, units, run);
    }
}

/// Blocks of keystream made at once.
const BATCH: usize = 16;

/// Encrypts or decrypts a run, which is the same.
fn run<C: BlockCipher>(cipher: &C, units: Units<'_, C>, mut run: Run<'_>) {
    let unit_blocks = units.blocks();
    let total = run.blocks();
    let mut starts = IvStream::new(units, None, total.div_ceil(unit_blocks));
    let mut counter = 0u128;
    let mut left = 0;
    let mut at = 0;
    while at < total {
        let count = (total - at).min(BATCH);
        let mut stream = [[0; 16]; BATCH];
        let mut blocks = [[0; 16]; BATCH];
        let (stream, blocks) = (&mut stream[..count], &mut blocks[..count]);
        for block in stream.iter_mut() {
            if left == 0 {
                left = unit_blocks;
                counter = u128::from_be_bytes(starts.next());
            }
            left -= 1;
            *block = counter.to_be_bytes();
            counter = counter.wrapping_add(1);
        }
        cipher.encrypt(stream);
        run.load(at, blocks);
        for (block, stream) in blocks.iter_mut().zip(stream) {
            *block = xor(block, stream);
        }
        run.store(at, blocks);
        at += count;
    }
}
