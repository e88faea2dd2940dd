//! XTS (IEEE 1619-2018, clause 5) by batches: the tweak of block j is the encrypted IV times x^j.
#![allow(clippy::needless_range_loop, reason = "constant bounds over several arrays at once, to be unrolled")]

use super::super::rounds::rounds;
use super::super::schedule::Schedule;
use super::super::wide::modes::Pointers;
use super::super::wide::{Meanwhile, TweakKeys};
use super::batches::{few, load, store};
use super::{Blocks, Lanes, REGISTERS};
use crate::block::BlockCipher;
use crate::gf128::double;
use crate::tweak::Units;

/// XTS over a run.
#[inline(always)]
pub(super) unsafe fn run<V: Lanes, C: BlockCipher, const R: usize, const ENCRYPT: bool>(
    schedule: &Schedule,
    run: Pointers,
    (keys, units): (TweakKeys<'_>, Units<'_, C>),
) {
    let unit_blocks = units.blocks();
    let left = run.blocks.div_ceil(unit_blocks);
    let starts = Starts { units, keys, left, ahead: Blocks::zeroed() };
    // SAFETY: what this function asks for.
    unsafe {
        if unit_blocks.is_multiple_of(V::BATCH) && run.blocks.is_multiple_of(V::BATCH) {
            whole_batches::<V, C, R, ENCRYPT>(schedule, run, unit_blocks, starts);
        } else {
            any_units::<V, C, R, ENCRYPT>(schedule, run, unit_blocks, starts);
        }
    }
}

/// The encrypted IVs of a run's units, as many at a time as four registers hold.
struct Starts<'a, C> {
    units: Units<'a, C>,
    keys: TweakKeys<'a>,
    left: usize,
    ahead: Blocks,
}

impl<C: BlockCipher> Starts<'_, C> {
    /// Units whose IVs are encrypted at once.
    const fn together<V: Lanes>() -> usize {
        4 * V::LANES
    }

    /// Puts the next ones into `ahead`, from its start.
    #[inline(always)]
    unsafe fn refill<V: Lanes, const R: usize>(&mut self) {
        let count = self.left.min(Self::together::<V>());
        if count == 0 {
            return;
        }
        self.units.fill(&mut self.ahead.0[..count]);
        self.left -= count;
        // SAFETY: what this module asks for; four registers are at most half of `ahead`.
        unsafe {
            let mut ivs = [V::zero(); 4];
            for i in 0..4 {
                ivs[i] = V::load(self.ahead.at(V::LANES * i));
            }
            let none = [V::zero(); 4];
            rounds::<V, (), R, true, 4>(&self.keys.keys.encrypt, &mut ivs, &none, &none, &mut ());
            if self.keys.doubled {
                for iv in &mut ivs {
                    *iv = iv.double();
                }
            }
            for i in 0..4 {
                ivs[i].store(self.ahead.0.as_mut_ptr().add(V::LANES * i).cast());
            }
        }
    }
}

/// The tweaks of the next batch, four registers at a time. The first four are there already.
struct TweaksAhead<V> {
    made: [V; REGISTERS],
}

impl<V: Lanes> Meanwhile for TweaksAhead<V> {
    #[inline(always)]
    unsafe fn step(&mut self, round: usize) {
        // Even the shortest key has nine rounds that call this.
        if round == 5 {
            // SAFETY: the caller has the CPU features.
            self.made = unsafe { and_further(first_four(&self.made)) };
        }
    }
}

#[inline(always)]
fn first_four<V: Copy>(of: &[V; REGISTERS]) -> [V; 4] {
    [of[0], of[1], of[2], of[3]]
}

/// The tweaks of a batch from the first half of them.
#[inline(always)]
unsafe fn and_further<V: Lanes>(half: [V; 4]) -> [V; REGISTERS] {
    let [a, b, c, d] = half;
    // SAFETY: the caller has the CPU features.
    let [e, f, g, h] = unsafe { V::four_further(&half) };
    [a, b, c, d, e, f, g, h]
}

/// Units of whole batches. The last batch of each unit makes the tweaks of the next unit's first.
#[inline(always)]
unsafe fn whole_batches<V: Lanes, C: BlockCipher, const R: usize, const ENCRYPT: bool>(
    schedule: &Schedule,
    mut run: Pointers,
    unit_blocks: usize,
    mut starts: Starts<'_, C>,
) {
    // SAFETY: what this function asks for; each step covers a batch that is left.
    unsafe {
        let mut tweaks = [V::zero(); REGISTERS];
        let mut begun = false;
        while run.blocks > 0 {
            starts.refill::<V, R>();
            let mut next = 0;
            if !begun {
                begun = true;
                next = 1;
                tweaks = and_further(V::first_four(V::broadcast(starts.ahead.at(0))));
            }
            while next < Starts::<C>::together::<V>() && run.blocks > 0 {
                let mut left_of_unit = unit_blocks;
                while left_of_unit > 0 {
                    left_of_unit -= V::BATCH;
                    let half = if left_of_unit > 0 {
                        V::four_further(&[tweaks[4], tweaks[5], tweaks[6], tweaks[7]])
                    } else {
                        // After the last unit of all this is made of whatever is there, and not used.
                        V::first_four(V::broadcast(starts.ahead.at(next)))
                    };
                    let zero = V::zero();
                    let [a, b, c, d] = half;
                    let mut ahead = TweaksAhead { made: [a, b, c, d, zero, zero, zero, zero] };
                    let mut blocks = load::<V>(run);
                    rounds::<V, _, R, ENCRYPT, REGISTERS>(
                        schedule,
                        &mut blocks,
                        &tweaks,
                        &tweaks,
                        &mut ahead,
                    );
                    store(blocks, run);
                    run.advance(V::BATCH);
                    tweaks = ahead.made;
                }
                next += 1;
            }
        }
    }
}

/// Units of any size: the tweaks of a batch are written to memory one by one, whichever units they belong to.
#[inline(always)]
unsafe fn any_units<V: Lanes, C: BlockCipher, const R: usize, const ENCRYPT: bool>(
    schedule: &Schedule,
    mut run: Pointers,
    unit_blocks: usize,
    mut starts: Starts<'_, C>,
) {
    let together = Starts::<C>::together::<V>();
    let mut used = together;
    let mut left_of_unit = 0;
    let mut tweak = 0;
    let mut tweaks = Blocks::zeroed();
    while run.blocks > 0 {
        let count = run.blocks.min(V::BATCH);
        for slot in &mut tweaks.0[..count] {
            if left_of_unit == 0 {
                left_of_unit = unit_blocks;
                if used == together {
                    // SAFETY: what this function asks for.
                    unsafe { starts.refill::<V, R>() };
                    used = 0;
                }
                tweak = u128::from_le_bytes(starts.ahead.0[used]);
                used += 1;
            } else {
                tweak = double(tweak);
            }
            left_of_unit -= 1;
            *slot = tweak.to_le_bytes();
        }
        // SAFETY: what this function asks for; `count` blocks are left.
        unsafe {
            few::<V, R, ENCRYPT>(schedule, run, count, &tweaks, &tweaks);
            run.advance(count);
        }
    }
}
