//! CBC (NIST SP 800-38A, 6.2), a chain per data unit. A chain is serial when it is encrypted, so that as many units as
//! a batch has lanes go side by side; when it is decrypted, nothing is serial.
#![allow(clippy::needless_range_loop, reason = "constant bounds over several arrays at once, to be unrolled")]

use super::super::schedule::Schedule;
use super::super::wide::modes::Pointers;
use super::modes::{few, load, rounds, store};
use super::{Blocks, Lanes, REGISTERS};
use crate::block::{Block, BlockCipher};
use crate::tweak::{IvStream, Units};

/// CBC over a run.
#[inline(always)]
pub(super) unsafe fn run<V: Lanes, C: BlockCipher, const R: usize, const ENCRYPT: bool>(
    schedule: &Schedule,
    run: Pointers,
    units: Units<'_, C>,
) {
    // SAFETY: what this function asks for.
    unsafe {
        if ENCRYPT {
            encrypt::<V, C, R>(schedule, run, units);
        } else if units.blocks().is_multiple_of(V::BATCH) && run.blocks.is_multiple_of(V::BATCH) {
            decrypt_whole_batches::<V, C, R>(schedule, run, units);
        } else {
            decrypt_any_units::<V, C, R>(schedule, run, units);
        }
    }
}

#[inline(always)]
unsafe fn encrypt<V: Lanes, C: BlockCipher, const R: usize>(
    schedule: &Schedule,
    mut run: Pointers,
    mut units: Units<'_, C>,
) {
    let unit_blocks = units.blocks();
    let mut left = run.blocks / unit_blocks;
    // SAFETY: what this function asks for; each step covers units that are left.
    unsafe {
        while left > 0 {
            let count = left.min(V::BATCH);
            let mut ivs = Blocks::zeroed();
            units.fill(&mut ivs.0[..count]);
            let chains = Chains { run, unit_blocks, count };
            if count == V::BATCH {
                chains.encrypt::<V, R, REGISTERS, true>(schedule, &ivs);
            } else if count > 4 * V::LANES {
                chains.encrypt::<V, R, REGISTERS, false>(schedule, &ivs);
            } else if count > 2 * V::LANES {
                chains.encrypt::<V, R, 4, false>(schedule, &ivs);
            } else {
                chains.encrypt::<V, R, 2, false>(schedule, &ivs);
            }
            run.advance(count * unit_blocks);
            left -= count;
        }
    }
}

/// Units side by side: number i is in lane i mod `LANES` of register i / `LANES`.
///
/// Lanes without a unit read what the last unit has and write nothing.
struct Chains {
    run: Pointers,
    unit_blocks: usize,
    count: usize,
}

impl Chains {
    /// In `W` registers; `FULL` says that each lane has a unit.
    #[inline(always)]
    unsafe fn encrypt<V: Lanes, const R: usize, const W: usize, const FULL: bool>(
        &self,
        schedule: &Schedule,
        ivs: &Blocks,
    ) {
        // SAFETY: what this module asks for. What is read and written lies in units that the run has, as `place` says.
        // Of each column all blocks are read before one is written.
        unsafe {
            let mut chains = [V::zero(); W];
            for i in 0..W {
                chains[i] = V::load(ivs.at(V::LANES * i));
            }
            let none = [V::zero(); W];
            let mut column = 0;
            // Columns of as many blocks as a register has lanes: a register's worth of each unit.
            while column + V::LANES <= self.unit_blocks {
                let mut text = [[V::zero(); W]; 4];
                for i in 0..W {
                    let mut tile = [V::zero(); 4];
                    for lane in 0..V::LANES {
                        let at = self.place::<FULL>(V::LANES * i + lane, column);
                        tile[lane] = V::load(self.run.src.add(at));
                    }
                    V::transpose(&mut tile);
                    for block in 0..V::LANES {
                        text[block][i] = tile[block];
                    }
                }
                for block in 0..V::LANES {
                    rounds::<V, (), R, true, W>(schedule, &mut chains, &text[block], &none, &mut ());
                    text[block] = chains;
                }
                for i in 0..W {
                    let mut tile = [V::zero(); 4];
                    for block in 0..V::LANES {
                        tile[block] = text[block][i];
                    }
                    V::transpose(&mut tile);
                    for lane in 0..V::LANES {
                        let unit = V::LANES * i + lane;
                        if FULL || unit < self.count {
                            tile[lane].store(self.run.dst.add(self.place::<FULL>(unit, column)));
                        }
                    }
                }
                column += V::LANES;
            }
            while column < self.unit_blocks {
                let mut text = Blocks::zeroed();
                for (unit, block) in text.0[..self.count].iter_mut().enumerate() {
                    *block = *self.run.src.add(self.place::<true>(unit, column)).cast::<Block>();
                }
                let mut plain = [V::zero(); W];
                for i in 0..W {
                    plain[i] = V::load(text.at(V::LANES * i));
                }
                rounds::<V, (), R, true, W>(schedule, &mut chains, &plain, &none, &mut ());
                for i in 0..W {
                    chains[i].store(text.0.as_mut_ptr().add(V::LANES * i).cast());
                }
                for (unit, block) in text.0[..self.count].iter().enumerate() {
                    *self.run.dst.add(self.place::<true>(unit, column)).cast::<Block>() = *block;
                }
                column += 1;
            }
        }
    }

    /// Offset in bytes of a block of a unit; of the last unit, for a unit beyond it.
    #[inline(always)]
    fn place<const FULL: bool>(&self, unit: usize, block: usize) -> usize {
        let unit = if FULL { unit } else { unit.min(self.count - 1) };
        16 * (unit * self.unit_blocks + block)
    }
}

#[inline(always)]
unsafe fn decrypt_whole_batches<V: Lanes, C: BlockCipher, const R: usize>(
    schedule: &Schedule,
    mut run: Pointers,
    units: Units<'_, C>,
) {
    let unit_blocks = units.blocks();
    let mut ivs = IvStream::new(units, None, run.blocks.div_ceil(unit_blocks));
    // SAFETY: what this function asks for; each step covers a batch that is left.
    unsafe {
        while run.blocks > 0 {
            let mut previous = V::broadcast(ivs.next().as_ptr());
            let mut left_of_unit = unit_blocks;
            while left_of_unit > 0 {
                let mut blocks = load::<V>(run);
                let mut masks = [V::zero(); REGISTERS];
                for i in 0..REGISTERS {
                    masks[i] = blocks[i].behind(previous);
                    previous = blocks[i];
                }
                let none = [V::zero(); REGISTERS];
                rounds::<V, (), R, false, REGISTERS>(schedule, &mut blocks, &none, &masks, &mut ());
                store(blocks, run);
                run.advance(V::BATCH);
                left_of_unit -= V::BATCH;
            }
        }
    }
}

/// Units of any size: what each block is masked with is collected in memory first, whichever units they belong to.
#[inline(always)]
unsafe fn decrypt_any_units<V: Lanes, C: BlockCipher, const R: usize>(
    schedule: &Schedule,
    mut run: Pointers,
    units: Units<'_, C>,
) {
    let unit_blocks = units.blocks();
    let mut ivs = IvStream::new(units, None, run.blocks.div_ceil(unit_blocks));
    let mut left_of_unit = 0;
    let mut previous = [0; 16];
    let none = Blocks::zeroed();
    let mut masks = Blocks::zeroed();
    while run.blocks > 0 {
        let count = run.blocks.min(V::BATCH);
        // SAFETY: what this function asks for; `count` blocks are left, and none of them has been written yet.
        unsafe {
            for (at, mask) in masks.0[..count].iter_mut().enumerate() {
                if left_of_unit == 0 {
                    left_of_unit = unit_blocks;
                    previous = ivs.next();
                }
                left_of_unit -= 1;
                *mask = previous;
                previous = *run.src.add(16 * at).cast::<Block>();
            }
            few::<V, R, false>(schedule, run, count, &none, &masks);
            run.advance(count);
        }
    }
}
