//! Batches of eight registers, and what is less than one, between memory and the rounds.
//!
//! # Safety
//!
//! Every function here and in the modes asks of its caller what [`Lanes`] asks, that a schedule has `R` + 1 keys, and that
//! `src` and `dst` are valid for `blocks` blocks and either the same or disjoint.
#![allow(clippy::needless_range_loop, reason = "constant bounds over several arrays at once, to be unrolled")]

use super::super::register::prefetch;
use super::super::rounds::rounds;
use super::super::schedule::Schedule;
use super::super::wide::modes::{PREFETCH, Pointers};
use super::{Blocks, Lanes, REGISTERS};

/// The next batch of a run, which has one; asks for memory further on.
#[inline(always)]
pub(super) unsafe fn load<V: Lanes>(run: Pointers) -> [V; REGISTERS] {
    // SAFETY: what this module asks for.
    unsafe {
        let mut blocks = [V::zero(); REGISTERS];
        for line in 0..V::BATCH / 4 {
            prefetch(run.src.wrapping_add(PREFETCH + 64 * line));
        }
        for i in 0..REGISTERS {
            blocks[i] = V::load(run.src.add(16 * V::LANES * i));
        }
        blocks
    }
}

/// Writes what [`load`] has read.
#[inline(always)]
pub(super) unsafe fn store<V: Lanes>(blocks: [V; REGISTERS], run: Pointers) {
    for i in 0..REGISTERS {
        // SAFETY: what this module asks for.
        unsafe { blocks[i].store(run.dst.add(16 * V::LANES * i)) };
    }
}

/// `count` blocks, from one to a batch, with masks from memory.
#[inline(always)]
pub(super) unsafe fn few<V: Lanes, const R: usize, const ENCRYPT: bool>(
    schedule: &Schedule,
    run: Pointers,
    count: usize,
    before: &Blocks,
    after: &Blocks,
) {
    // SAFETY: what this module asks for.
    unsafe {
        if count > 4 * V::LANES {
            few_registers::<V, R, ENCRYPT, REGISTERS>(schedule, run, count, before, after);
        } else if count > 2 * V::LANES {
            few_registers::<V, R, ENCRYPT, 4>(schedule, run, count, before, after);
        } else {
            few_registers::<V, R, ENCRYPT, 2>(schedule, run, count, before, after);
        }
    }
}

#[inline(always)]
unsafe fn few_registers<V: Lanes, const R: usize, const ENCRYPT: bool, const W: usize>(
    schedule: &Schedule,
    run: Pointers,
    count: usize,
    before: &Blocks,
    after: &Blocks,
) {
    // SAFETY: what this module asks for: of each register only the lanes that count are read and written. All are read
    // before one is written. The masks hold at least W registers.
    unsafe {
        // intended: no lanes are left behind the end.
        let lanes = |i: usize| count.saturating_sub(i * V::LANES).min(V::LANES);
        let mut blocks = [V::zero(); W];
        let mut masks = [V::zero(); W];
        let mut masks_after = [V::zero(); W];
        for i in 0..W {
            blocks[i] = V::load_first(run.src.wrapping_add(16 * V::LANES * i), lanes(i));
            masks[i] = V::load(before.at(V::LANES * i));
            masks_after[i] = V::load(after.at(V::LANES * i));
        }
        rounds::<V, (), R, ENCRYPT, W>(schedule, &mut blocks, &masks, &masks_after, &mut ());
        for i in 0..W {
            blocks[i].store_first(run.dst.wrapping_add(16 * V::LANES * i), lanes(i));
        }
    }
}
