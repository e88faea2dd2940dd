//! Adiantum and HPolyC over a run, phase by phase for a batch of data units, and ChaCha alone.

use zeroize::Zeroize;

use super::{Batch, Scratch, UNITS, VectorInstructions};
use crate::block::{Block, BlockCipher, Direction};
use crate::chacha::StreamKey;
use crate::chacha_poly::{Job, nonce, padded};
use crate::mode::adiantum::{HashKeys, WideHash};
use crate::run::Run;
use crate::tweak::Units;

/// Bytes of a batch, where a unit is not longer: it stays in the first cache from one phase to the next.
const BATCH: usize = 16 << 10;

/// Encrypts or decrypts a run.
pub(crate) fn run<I: VectorInstructions, C: BlockCipher>(
    instructions: I,
    (stream, hash): (&StreamKey, &HashKeys),
    cipher: &C,
    direction: Direction,
    mut units: Units<'_, C>,
    mut run: Run<'_>,
) {
    let len = units.blocks() * 16;
    let mut left = run.blocks() / units.blocks();
    let (mut src, mut dst) = run.pointers();
    let together = (BATCH / len).clamp(hash.least_units(), UNITS);
    let mut work = Work::new();
    while left > 0 {
        let count = left.min(together);
        let mut blocks = 0;
        for unit in 0..count {
            let (header, used) = hash.header(len - 16, |iv| units.next_of_any_length(iv));
            for (pair, block) in work.scratch.header.as_chunks_mut::<2>().0.iter_mut().zip(header) {
                let words = u128::from_le_bytes(block);
                pair[0][unit] = words as u64;
                pair[1][unit] = (words >> 64) as u64;
            }
            blocks = used;
        }
        instructions.start(hash, &mut work.scratch, blocks, count);
        // SAFETY: these are units of the run, which has `left` of them from here on.
        unsafe {
            work.encrypt_or_decrypt(
                instructions,
                cipher,
                (stream, hash),
                direction,
                Batch { src, dst, len, count },
            );
            src = src.add(count * len);
            dst = dst.add(count * len);
        }
        left -= count;
    }
}

/// Encrypts or decrypts one data unit of at least 16 bytes, in place.
pub(crate) fn unit<I: VectorInstructions, C: BlockCipher>(
    instructions: I,
    (stream, hash): (&StreamKey, &HashKeys),
    cipher: &C,
    direction: Direction,
    tweak: &[u8],
    unit: &mut [u8],
) {
    let Some(bulk) = unit.len().checked_sub(16) else { return };
    let mut work = Work::new();
    let start = hash.start(tweak, bulk);
    for (column, limb) in work.scratch.starts.iter_mut().zip(start.limbs()) {
        column[0] = limb.into();
    }
    let dst = unit.as_mut_ptr();
    let batch = Batch { src: dst.cast_const(), dst, len: unit.len(), count: 1 };
    // SAFETY: one unit, in place.
    unsafe { work.encrypt_or_decrypt(instructions, cipher, (stream, hash), direction, batch) }
}

/// Xors ChaCha's keystreams to a run of units of `unit_blocks` cipher blocks; `nonce` is asked for that of each unit.
pub(crate) fn stream<I: VectorInstructions>(
    instructions: I,
    key: &StreamKey,
    unit_blocks: usize,
    nonce: impl Fn(usize) -> [u8; 8],
    mut run: Run<'_>,
) {
    let len = unit_blocks * 16;
    let total = run.blocks() / unit_blocks;
    let (src, dst) = run.pointers();
    let mut scratch = Scratch::new();
    for first in (0..total).step_by(UNITS) {
        let count = (total - first).min(UNITS);
        for unit in 0..count {
            let words = u64::from_le_bytes(nonce(first + unit));
            scratch.nonces[1][unit] = words as u32;
            scratch.nonces[2][unit] = (words >> 32) as u32;
        }
        let at = first * len;
        // SAFETY: these are units of the run, which has `total` of them.
        unsafe {
            let batch = Batch { src: src.add(at), dst: dst.add(at), len, count };
            instructions.short_nonce_stream(key, &mut scratch, batch);
        }
    }
}

/// ChaCha20 and Poly1305 over data units.
pub(crate) fn chacha_poly<I: VectorInstructions>(instructions: I, job: Job<'_>) {
    let lengths = job.lengths();
    let Job { key, open, unit: len, data, associated, tags } = job;
    assert!(len.is_multiple_of(128), "a unit is whole strides");
    let mut scratch = Scratch::new();
    let batches = data.chunks_mut(len * UNITS).zip(associated.chunks(UNITS)).zip(tags.chunks_mut(UNITS));
    for ((data, associated), tags) in batches {
        let count = data.len() / len;
        for (unit, associated) in associated.iter().enumerate() {
            for (column, word) in scratch.nonces.iter_mut().zip(nonce(associated).as_chunks().0) {
                column[unit] = u32::from_le_bytes(*word);
            }
            let words = padded(associated);
            for (column, word) in scratch.header[2..].iter_mut().zip(words.as_chunks().0) {
                column[unit] = u64::from_le_bytes(*word);
            }
        }
        let dst = data.as_mut_ptr();
        // SAFETY: these are units in place, of which none is cut off: `count` rounds down.
        unsafe {
            let batch = Batch { src: dst.cast_const(), dst, len, count };
            instructions.chacha_poly(key, &mut scratch, batch, lengths, open);
        }
        for (unit, tag) in tags.iter_mut().enumerate() {
            tag[..16].copy_from_slice(&scratch.tag_of(unit).to_le_bytes());
        }
    }
}

/// What a run needs room for.
struct Work {
    scratch: Scratch,
    nonces: [Block; UNITS],
    ends: [Block; UNITS],
}

impl Work {
    fn new() -> Self {
        Self { scratch: Scratch::new(), nonces: [[0; 16]; UNITS], ends: [[0; 16]; UNITS] }
    }

    /// All phases; the hashes have been started.
    ///
    /// # Safety
    ///
    /// The batch is what it says.
    unsafe fn encrypt_or_decrypt<I: VectorInstructions, C: BlockCipher>(
        &mut self,
        instructions: I,
        cipher: &C,
        (stream, hash): (&StreamKey, &HashKeys),
        direction: Direction,
        batch: Batch,
    ) {
        let ends = &mut self.ends[..batch.count];
        let bulk = batch.len - 16;
        // SAFETY: the batch is the caller's promise; each unit ends in a block, which is read before it is written.
        unsafe {
            instructions.hash(hash, &mut self.scratch, batch);
            for (unit, end) in ends.iter_mut().enumerate() {
                let block: Block = batch.src.add(unit * batch.len + bulk).cast::<Block>().read_unaligned();
                *end = u128::from_le_bytes(block).wrapping_add(self.scratch.hash_of(unit)).to_le_bytes();
            }
            // The nonce is the block cipher's output, whichever way the unit goes.
            if direction == Direction::Decrypt {
                self.nonces[..batch.count].copy_from_slice(ends);
            }
            cipher.apply(direction, ends);
            if direction == Direction::Encrypt {
                self.nonces[..batch.count].copy_from_slice(ends);
            }
            instructions.stream(stream, &mut self.scratch, &self.nonces, batch);
            instructions.hash(hash, &mut self.scratch, Batch { src: batch.dst.cast_const(), ..batch });
            for (unit, end) in ends.iter().enumerate() {
                let block = u128::from_le_bytes(*end).wrapping_sub(self.scratch.hash_of(unit)).to_le_bytes();
                batch.dst.add(unit * batch.len + bulk).cast::<Block>().write_unaligned(block);
            }
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.nonces.zeroize();
        self.ends.zeroize();
    }
}
