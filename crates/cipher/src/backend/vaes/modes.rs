//! The rounds, batches of eight registers, and ECB. XTS and CBC have files of their own.
//!
//! # Safety
//!
//! Every function here and there asks of its caller what [`Lanes`] asks, that a schedule has `R` + 1 keys, and that
//! `src` and `dst` are valid for `blocks` blocks and either the same or disjoint.
#![allow(clippy::needless_range_loop, reason = "constant bounds over several arrays at once, to be unrolled")]

use super::super::register::prefetch;
use super::super::rounds::rounds;
use super::super::schedule::{Rounds, Schedule};
use super::super::wide::modes::{PREFETCH, Pointers, dispatch};
use super::super::wide::{Keys, TweakKeys};
use super::{Blocks, Lanes, REGISTERS};
use crate::block::{BlockCipher, Direction};
use crate::tweak::Units;

use super::cbc::run as cbc_run;
use super::xts::run as xts_run;

/// ECB over a run.
#[inline(always)]
pub(super) unsafe fn ecb<V: Lanes>(keys: &Keys, direction: Direction, run: Pointers) {
    // SAFETY: what this function asks for.
    unsafe { dispatch!(keys, direction, ecb_run(schedule, run, ())) }
}

/// XTS over a run.
#[inline(always)]
pub(super) unsafe fn xts<V: Lanes, C: BlockCipher>(
    keys: &Keys,
    direction: Direction,
    tweak_keys: TweakKeys<'_>,
    units: Units<'_, C>,
    run: Pointers,
) {
    // SAFETY: what this function asks for.
    unsafe { dispatch!(keys, direction, xts_run(schedule, run, (tweak_keys, units))) }
}

/// CBC over a run.
#[inline(always)]
pub(super) unsafe fn cbc<V: Lanes, C: BlockCipher>(
    keys: &Keys,
    direction: Direction,
    units: Units<'_, C>,
    run: Pointers,
) {
    // SAFETY: what this function asks for.
    unsafe { dispatch!(keys, direction, cbc_run(schedule, run, units)) }
}

#[inline(always)]
unsafe fn ecb_run<V: Lanes, T, const R: usize, const ENCRYPT: bool>(
    schedule: &Schedule,
    mut run: Pointers,
    _: T,
) {
    let masks = Blocks::zeroed();
    // SAFETY: what this function asks for; each step covers blocks that are left.
    unsafe {
        while run.blocks >= V::BATCH {
            let mut blocks = load::<V>(run);
            rounds::<V, (), R, ENCRYPT, REGISTERS>(
                schedule,
                &mut blocks,
                &[V::zero(); REGISTERS],
                &[V::zero(); REGISTERS],
                &mut (),
            );
            store(blocks, run);
            run.advance(V::BATCH);
        }
        if run.blocks > 0 {
            few::<V, R, ENCRYPT>(schedule, run, run.blocks, &masks, &masks);
        }
    }
}

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
