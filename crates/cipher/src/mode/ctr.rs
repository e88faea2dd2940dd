//! CTR (NIST SP 800-38A, 6.5): the keystream is the encrypted IV, counted on big-endian as the kernel's `ctr` does.
//!
//! What is written twice to a data unit is xored with the same keystream: whoever sees both ciphertexts knows the
//! difference of the plaintexts.

use crate::block::{BlockCipher, xor};
use crate::run::Run;
use crate::tweak::{IvStream, Units};

/// Blocks of keystream made at once.
const BATCH: usize = 16;

/// Encrypts or decrypts a run, which is the same.
pub(crate) fn run<C: BlockCipher>(cipher: &C, units: Units<'_, C>, mut run: Run<'_>) {
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
