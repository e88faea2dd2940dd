//! LRW by batches of eight registers, where data units are whole batches. See [`mode::lrw`](crate::mode::lrw).
//!
//! Of a block's index the part that is a multiple of 32 has a product of its own, the *base*, which changes every 32 blocks;
//! that of what is left comes from a table. A batch meets at most two bases.
//!
//! # Safety
//!
//! As for [`modes`](super::modes).
#![allow(clippy::needless_range_loop, reason = "constant bounds over several arrays at once, to be unrolled")]

use super::modes::{PREFETCH, Pointers, dispatch};
use super::{Keys, Vector};
use crate::backend::register::prefetch;
use crate::backend::schedule::{Rounds, Schedule};
use crate::block::{BlockCipher, Direction};
use crate::mode::lrw::{LrwKey, SPAN};
use crate::tweak::{IvStream, Units};

/// Registers in flight.
const REGISTERS: usize = 8;

/// Which blocks of a batch have the second base, from the place on at which it begins: not those before [`SPAN`].
static SECOND: [u128; 2 * SPAN] = {
    let mut second = [0; 2 * SPAN];
    let mut i = SPAN;
    while i < 2 * SPAN {
        second[i] = !0;
        i += 1;
    }
    second
};

/// Whether units of so many blocks are whole batches.
pub(crate) const fn is_whole_batches<V: Vector>(blocks: usize) -> bool {
    blocks.is_multiple_of(REGISTERS * V::LANES)
}

/// LRW over a run of units that are whole batches.
#[inline(always)]
pub(crate) unsafe fn run<V: Vector, C: BlockCipher>(
    keys: &Keys,
    key: &LrwKey,
    direction: Direction,
    units: Units<'_, C>,
    run: Pointers,
) {
    // SAFETY: what this function asks for.
    unsafe { dispatch!(keys, direction, lrw(schedule, run, (key, units))) }
}

#[inline(always)]
unsafe fn lrw<V: Vector, C: BlockCipher, const R: usize, const ENCRYPT: bool>(
    schedule: &Schedule,
    mut run: Pointers,
    (key, units): (&LrwKey, Units<'_, C>),
) {
    let unit_blocks = units.blocks();
    let batch = REGISTERS * V::LANES;
    let public = units.are_public();
    let mut starts = IvStream::new(units, None, run.blocks.div_ceil(unit_blocks));
    let mut index = 0u128;
    // Products of `index` without its low bits, and of the next such number; as the cipher's blocks are.
    let mut bases = key.bases(0);
    // SAFETY: what this module asks for; each step covers a batch that is left. Places are below 2 * SPAN.
    unsafe {
        while run.blocks >= batch {
            let start = u128::from_be_bytes(starts.next());
            if start != index {
                bases = if public { key.bases_from(bases, index, start) } else { key.bases(start) };
                index = start;
            }
            let mut left = unit_blocks;
            while left >= batch {
                let place = index as usize % SPAN;
                let [first, second] = bases.map(u128::to_be_bytes);
                let first = V::broadcast(first.as_ptr());
                let change = first.xor(V::broadcast(second.as_ptr()));
                let mut tweaks = [first; REGISTERS];
                let mut blocks = [first; REGISTERS];
                for line in 0..batch / 4 {
                    prefetch(run.src.wrapping_add(PREFETCH + 64 * line));
                }
                for i in 0..REGISTERS {
                    let at = place + V::LANES * i;
                    let changed = change.and(V::load(SECOND.as_ptr().add(at).cast()));
                    tweaks[i] = V::load(key.products.as_ptr().add(at).cast()).xor(first).xor(changed);
                    blocks[i] = V::load(run.src.add(16 * V::LANES * i)).xor(tweaks[i]);
                }
                if ENCRYPT {
                    V::encrypt::<R, REGISTERS, ()>(&mut blocks, schedule, &tweaks, &mut ());
                } else {
                    V::decrypt::<R, REGISTERS, ()>(&mut blocks, schedule, &tweaks, &mut ());
                }
                for i in 0..REGISTERS {
                    blocks[i].store(run.dst.add(16 * V::LANES * i));
                }
                run.advance(batch);
                left -= batch;
                index = index.wrapping_add(batch as u128);
                if place + batch >= SPAN {
                    bases = key.next_bases(bases, index);
                }
            }
        }
    }
}
