//! CTR (NIST SP 800-38A, 6.5) by batches of eight registers. Counters are counted as numbers of 64 bits in lanes, and
//! turned into big-endian blocks on their way into the cipher.
//!
//! # Safety
//!
//! As for [`modes`](super::modes).
#![allow(clippy::needless_range_loop, reason = "constant bounds over several arrays at once, to be unrolled")]

use super::modes::{PREFETCH, Pointers, dispatch};
use super::{Keys, Vector};
use crate::backend::register::prefetch;
use crate::backend::schedule::{Rounds, Schedule};
use crate::block::{Block, BlockCipher, Direction, xor};
use crate::tweak::{IvStream, Units};

/// Registers in flight.
const REGISTERS: usize = 8;

/// Blocks that eight registers hold at most.
const MOST: usize = 32;

/// What the blocks of a batch add to its counter.
static NUMBERS: [u128; MOST] = {
    let mut numbers = [0; MOST];
    let mut i = 0;
    while i < MOST {
        numbers[i] = i as u128;
        i += 1;
    }
    numbers
};

/// CTR over a run.
#[inline(always)]
pub(crate) unsafe fn run<V: Vector, C: BlockCipher>(keys: &Keys, units: Units<'_, C>, run: Pointers) {
    // SAFETY: what this function asks for.
    unsafe { dispatch!(keys, Direction::Encrypt, ctr(schedule, run, units)) }
}

#[inline(always)]
unsafe fn ctr<V: Vector, C: BlockCipher, const R: usize, const ENCRYPT: bool>(
    schedule: &Schedule,
    mut run: Pointers,
    units: Units<'_, C>,
) {
    let unit_blocks = units.blocks();
    let mut starts = IvStream::new(units, None, run.blocks.div_ceil(unit_blocks));
    let (mut counter, mut left) = (0u128, 0);
    let batch = REGISTERS * V::LANES;
    while run.blocks > 0 {
        if left == 0 {
            (counter, left) = (u128::from_be_bytes(starts.next()), unit_blocks);
        }
        let carries = (counter as u64).checked_add(batch as u64).is_none();
        // SAFETY: what this module asks for; each step covers blocks that are left.
        unsafe {
            if left >= batch && run.blocks >= batch && !carries {
                let counters = V::broadcast((&raw const counter).cast());
                let mut stream = [V::zero(); REGISTERS];
                for i in 0..REGISTERS {
                    let numbers = V::load(NUMBERS[V::LANES * i..].as_ptr().cast());
                    stream[i] = counters.add64(numbers).reversed();
                }
                V::encrypt::<R, REGISTERS, ()>(&mut stream, schedule, &[V::zero(); REGISTERS], &mut ());
                for line in 0..batch / 4 {
                    prefetch(run.src.wrapping_add(PREFETCH + 64 * line));
                }
                for i in 0..REGISTERS {
                    let at = 16 * V::LANES * i;
                    stream[i].xor(V::load(run.src.add(at))).store(run.dst.add(at));
                }
                run.advance(batch);
                counter = counter.wrapping_add(batch as u128);
                left -= batch;
                continue;
            }
            // Whichever units the next blocks belong to.
            let count = run.blocks.min(batch);
            let mut blocks = [[0; 16]; MOST];
            for block in &mut blocks[..count] {
                if left == 0 {
                    (counter, left) = (u128::from_be_bytes(starts.next()), unit_blocks);
                }
                *block = counter.to_be_bytes();
                counter = counter.wrapping_add(1);
                left -= 1;
            }
            let mut stream = [V::zero(); REGISTERS];
            for i in 0..REGISTERS {
                stream[i] = V::load(blocks[V::LANES * i..].as_ptr().cast());
            }
            V::encrypt::<R, REGISTERS, ()>(&mut stream, schedule, &[V::zero(); REGISTERS], &mut ());
            for i in 0..REGISTERS {
                stream[i].store(blocks.as_mut_ptr().add(V::LANES * i).cast());
            }
            for (at, stream) in blocks[..count].iter().enumerate() {
                let text = run.src.add(16 * at).cast::<Block>().read();
                run.dst.add(16 * at).cast::<Block>().write(xor(&text, stream));
            }
            run.advance(count);
        }
    }
}
