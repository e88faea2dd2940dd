//! CBC (NIST SP 800-38A, 6.2), a chain per data unit. A chain is serial when it is encrypted, so that as many units as
//! a batch has lanes go side by side; when it is decrypted, nothing is serial.
#![allow(clippy::needless_range_loop, reason = "constant bounds over several arrays at once, to be unrolled")]

use core::marker::PhantomData;

use super::super::rounds::rounds;
use super::super::schedule::Schedule;
use super::super::wide::Meanwhile;
use super::super::wide::modes::Pointers;
use super::batches::{few, load, store};
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
    ///
    /// A *tile* is as many columns of blocks as a register has lanes. In memory a register's worth of a unit stands in a
    /// row, in the registers a block of each unit: tiles are transposed on their way in and out. That of the next tile and
    /// that of the last one are done between the rounds of this one.
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
            let mut tiles = [const { Tile::zeroed() }; 3];
            let [mut now, mut next, mut last] = tiles.each_mut();
            let whole = self.unit_blocks - self.unit_blocks % V::LANES;
            if whole > 0 {
                for register in 0..W {
                    self.read::<V, FULL>(register, 0, now);
                }
            }
            let mut column = 0;
            while column < whole {
                for block in 0..V::LANES {
                    let mut text = [V::zero(); W];
                    for i in 0..W {
                        text[i] = V::load(now.0[block].at(V::LANES * i));
                    }
                    let mut moves = Moves::<V, W, FULL> {
                        chains: self,
                        block,
                        column,
                        // After the last tile it is read once more, and not used.
                        next_column: if column + V::LANES < whole { column + V::LANES } else { column },
                        next,
                        last,
                        lanes: PhantomData,
                    };
                    rounds::<V, _, R, true, W>(schedule, &mut chains, &text, &none, &mut moves);
                    for i in 0..W {
                        chains[i].store(now.0[block].0.as_mut_ptr().add(V::LANES * i).cast());
                    }
                }
                (now, next, last) = (next, last, now);
                column += V::LANES;
            }
            if whole > 0 {
                for register in 0..W {
                    self.write::<V, FULL>(register, whole - V::LANES, last);
                }
            }
            self.encrypt_rest::<V, R, W>(schedule, &mut chains, whole);
        }
    }

    /// The columns from `column` on, one by one.
    #[inline(always)]
    unsafe fn encrypt_rest<V: Lanes, const R: usize, const W: usize>(
        &self,
        schedule: &Schedule,
        chains: &mut [V; W],
        mut column: usize,
    ) {
        // SAFETY: as for `encrypt`; the units that are read and written are those that count.
        unsafe {
            while column < self.unit_blocks {
                let mut blocks = Blocks::zeroed();
                for (unit, block) in blocks.0[..self.count].iter_mut().enumerate() {
                    *block = *self.run.src.add(self.place::<true>(unit, column)).cast::<Block>();
                }
                let mut text = [V::zero(); W];
                for i in 0..W {
                    text[i] = V::load(blocks.at(V::LANES * i));
                }
                rounds::<V, (), R, true, W>(schedule, chains, &text, &[V::zero(); W], &mut ());
                for i in 0..W {
                    chains[i].store(blocks.0.as_mut_ptr().add(V::LANES * i).cast());
                }
                for (unit, block) in blocks.0[..self.count].iter().enumerate() {
                    *self.run.dst.add(self.place::<true>(unit, column)).cast::<Block>() = *block;
                }
                column += 1;
            }
        }
    }

    /// Reads what belongs into one register of each column of a tile.
    #[inline(always)]
    unsafe fn read<V: Lanes, const FULL: bool>(&self, register: usize, column: usize, tile: &mut Tile) {
        // SAFETY: as for `encrypt`.
        unsafe {
            let mut rows = [V::zero(); 4];
            for lane in 0..V::LANES {
                rows[lane] =
                    V::load(self.run.src.add(self.place::<FULL>(V::LANES * register + lane, column)));
            }
            V::transpose(&mut rows);
            for block in 0..V::LANES {
                rows[block].store(tile.0[block].0.as_mut_ptr().add(V::LANES * register).cast());
            }
        }
    }

    /// Writes what [`read`](Self::read) has read, to the units that there are.
    #[inline(always)]
    unsafe fn write<V: Lanes, const FULL: bool>(&self, register: usize, column: usize, tile: &Tile) {
        // SAFETY: as for `encrypt`.
        unsafe {
            let mut rows = [V::zero(); 4];
            for block in 0..V::LANES {
                rows[block] = V::load(tile.0[block].at(V::LANES * register));
            }
            V::transpose(&mut rows);
            for lane in 0..V::LANES {
                let unit = V::LANES * register + lane;
                if FULL || unit < self.count {
                    rows[lane].store(self.run.dst.add(self.place::<FULL>(unit, column)));
                }
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

/// A block of each unit, for as many columns as a register has lanes.
struct Tile([Blocks; 4]);

impl Tile {
    const fn zeroed() -> Self {
        Self([const { Blocks::zeroed() }; 4])
    }
}

/// The part of reading the next tile and writing the last one that falls to one column of this one.
struct Moves<'a, V, const W: usize, const FULL: bool> {
    chains: &'a Chains,
    /// The column of this tile that is being encrypted.
    block: usize,
    column: usize,
    next_column: usize,
    next: &'a mut Tile,
    last: &'a Tile,
    lanes: PhantomData<V>,
}

impl<V: Lanes, const W: usize, const FULL: bool> Meanwhile for Moves<'_, V, W, FULL> {
    #[inline(always)]
    unsafe fn step(&mut self, round: usize) {
        // Registers of a tile per column; with fewer of them than columns, one for each of the first columns.
        let share = (W / V::LANES).max(1);
        // SAFETY: as for `Chains::encrypt`, which calls this with the columns of its tiles.
        unsafe {
            if (1..=share).contains(&round) {
                let register = self.block * share + round - 1;
                if register < W {
                    self.chains.read::<V, FULL>(register, self.next_column, self.next);
                }
            }
            if (5..5 + share).contains(&round) {
                let register = self.block * share + round - 5;
                if register < W && self.column > 0 {
                    self.chains.write::<V, FULL>(register, self.column - V::LANES, self.last);
                }
            }
        }
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
