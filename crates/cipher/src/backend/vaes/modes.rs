//! The rounds that a key asks for, and ECB. XTS and CBC have files of their own.
//!
//! # Safety
//!
//! As in [`batches`](super::batches).

use super::super::rounds::rounds;
use super::super::schedule::{Rounds, Schedule};
use super::super::wide::modes::{Pointers, dispatch};
use super::super::wide::{Keys, TweakKeys};
use super::batches::{few, load, store};
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
