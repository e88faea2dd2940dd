//! The rounds, batches of eight registers, and ECB. XTS and CBC have files of their own.
//!
//! # Safety
//!
//! Every function here and there asks of its caller what [`Lanes`] asks, that a schedule has `R` + 1 keys, and that
//! `src` and `dst` are valid for `blocks` blocks and either the same or disjoint.
#![allow(clippy::needless_range_loop, reason = "constant bounds over several arrays at once, to be unrolled")]

use super::super::schedule::{Rounds, Schedule};
use super::super::wide::modes::{PREFETCH, Pointers, dispatch};
use super::super::wide::{Keys, Meanwhile};
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
    tweak_keys: &Keys,
    units: Units<'_, C>,
    run: Pointers,
) {
    // SAFETY: what this function asks for.
    unsafe { dispatch!(keys, direction, xts_run(schedule, run, (&tweak_keys.encrypt, units))) }
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

/// AES or its inverse of each block xor `before`, then xor `after`.
#[inline(always)]
pub(super) unsafe fn rounds<V: Lanes, M: Meanwhile, const R: usize, const ENCRYPT: bool, const W: usize>(
    schedule: &Schedule,
    blocks: &mut [V; W],
    before: &[V; W],
    after: &[V; W],
    meanwhile: &mut M,
) {
    // SAFETY: what this module asks for.
    unsafe {
        let first = V::broadcast(schedule.0[0].as_ptr());
        for i in 0..W {
            blocks[i] = blocks[i].xor3(before[i], first);
        }
        // A loop with so much in it would stay one, and keep in memory what `meanwhile` indexes by the round.
        macro_rules! round {
            ($($round:literal)+) => {
                $(one_round::<V, M, ENCRYPT, W>(schedule, blocks, $round, meanwhile);)+
            };
        }
        round!(1 2 3 4 5 6 7 8 9);
        if R > 10 {
            round!(10 11);
        }
        if R > 12 {
            round!(12 13);
        }
        let last = V::broadcast(schedule.0[R].as_ptr());
        for i in 0..W {
            let key = after[i].xor(last);
            blocks[i] = if ENCRYPT { blocks[i].encrypt_last(key) } else { blocks[i].decrypt_last(key) };
        }
    }
}

#[inline(always)]
unsafe fn one_round<V: Lanes, M: Meanwhile, const ENCRYPT: bool, const W: usize>(
    schedule: &Schedule,
    blocks: &mut [V; W],
    round: usize,
    meanwhile: &mut M,
) {
    // SAFETY: what this module asks for.
    unsafe {
        let key = V::broadcast(schedule.0[round].as_ptr());
        for block in blocks.iter_mut() {
            *block = if ENCRYPT { block.encrypt_round(key) } else { block.decrypt_round(key) };
        }
        meanwhile.step(round);
        if let Ok(all) = blocks.as_mut_slice().try_into() {
            V::keep_together(all);
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
            V::prefetch(run.src.wrapping_add(PREFETCH + 64 * line));
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
