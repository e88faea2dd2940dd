//! HCTR2 over a run whose data units are whole batches of eight registers: each byte is touched once for both of a unit's
//! hashes and its keystream.
//!
//! Units go in groups. While the AES rounds of a group's keystream run, the batch of output before is hashed between them
//! (the second hash of this group), and a batch of the next group's input (its first hash). A unit's first block, which is
//! no part of its bulk, has a place in these batches: keystream made for it is overwritten, and the hash finds there what
//! the tweak's hash was before its last multiplication.
//!
//! # Safety
//!
//! Every function here asks of its caller what [`Multiply`] asks, and of `run` what the modes ask. What is inlined here
//! runs inside a function that enables the CPU features.
#![allow(clippy::needless_range_loop, reason = "constant bounds over several arrays at once, to be unrolled")]

use zeroize::Zeroize;

use super::hctr2::{Multiply, Product, nothing};
use super::modes::{PREFETCH, Pointers};
use super::{Keys, Meanwhile};
use crate::backend::polyval::{POWERS, PolyvalKey};
use crate::backend::register::prefetch;
use crate::backend::schedule::{Rounds, Schedule};
use crate::block::{Block, BlockCipher, Direction};
use crate::mode::hctr2::{Hctr2Key, IV_LEN};
use crate::tweak::Units;

/// Registers in flight.
const REGISTERS: usize = 8;

/// Units in a group, at most.
const UNITS: usize = 16;

/// Bytes in a group, where that is at least two units: two groups stay in the first cache.
const GROUP: usize = 8 << 10;

/// Whether units of so many blocks are whole batches.
pub(crate) const fn is_whole_batches<V: Multiply>(blocks: usize) -> bool {
    blocks.is_multiple_of(REGISTERS * V::LANES)
}

/// HCTR2 over a run of units that are whole batches.
#[inline(always)]
pub(crate) unsafe fn run<V: Multiply, C: BlockCipher>(
    keys: &Keys,
    key: &Hctr2Key<PolyvalKey>,
    direction: Direction,
    units: Units<'_, C>,
    cipher: &C,
    run: Pointers,
) {
    let runner = Runner { key, direction, cipher, schedule: &keys.encrypt, unit_blocks: units.blocks() };
    // SAFETY: what this function asks for; the rounds are those of the schedule.
    unsafe {
        match keys.rounds {
            Rounds::Ten => runner.groups::<V, 10>(units, run),
            Rounds::Twelve => runner.groups::<V, 12>(units, run),
            Rounds::Fourteen => runner.groups::<V, 14>(units, run),
        }
    }
}

/// What stays the same over a run.
struct Runner<'a, C> {
    key: &'a Hctr2Key<PolyvalKey>,
    direction: Direction,
    cipher: &'a C,
    schedule: &'a Schedule,
    unit_blocks: usize,
}

/// Blocks of a group's units, one for each; as numbers, which take less to be wiped.
type Column = [u128; UNITS];

/// What is kept of the units of a group.
struct Group {
    count: usize,
    /// Hashes of the tweaks, before their last multiplication.
    tweaks: Column,
    /// Hashes of tweak and input.
    inputs: Column,
}

/// What a run needs room for. Wiped on drop.
struct Work {
    groups: [Group; 2],
    nonces: Column,
    /// The first blocks, on their way through the cipher.
    ends: Column,
    /// Hashes of tweak and output.
    outputs: Column,
}

impl Work {
    fn new() -> Self {
        let group = || Group { count: 0, tweaks: [0; UNITS], inputs: [0; UNITS] };
        Self { groups: [group(), group()], nonces: [0; UNITS], ends: [0; UNITS], outputs: [0; UNITS] }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        for group in &mut self.groups {
            group.tweaks.zeroize();
            group.inputs.zeroize();
        }
        self.nonces.zeroize();
        self.ends.zeroize();
        self.outputs.zeroize();
    }
}

/// Units whose blocks a column holds, as the cipher takes them.
fn blocks(column: &mut Column, count: usize) -> &mut [Block] {
    // SAFETY: a number is a block: as long, valid whatever its bits, and aligned to more.
    let blocks: &mut [Block; UNITS] = unsafe { &mut *(&raw mut *column).cast() };
    &mut blocks[..count.min(UNITS)]
}

impl<C: BlockCipher> Runner<'_, C> {
    #[inline(always)]
    unsafe fn groups<V: Multiply, const R: usize>(&self, mut units: Units<'_, C>, mut run: Pointers) {
        let together = (GROUP / (16 * self.unit_blocks)).clamp(2, UNITS);
        let mut left = run.blocks / self.unit_blocks;
        let mut work = Work::new();
        // SAFETY: what this function asks for; a group's units are units that are left.
        unsafe {
            let Work { groups: [group, next], nonces, ends, outputs } = &mut work;
            let (mut group, mut next) = (group, next);
            self.begin::<V>(&mut units, group, left.min(together));
            let mut ahead = Hash::<V>::new(run.src, self.unit_blocks);
            for _ in 0..self.batches::<V>(group.count) {
                ahead.begin(&group.tweaks);
                ahead.batch(self.powers::<V>());
                ahead.end(&mut group.inputs);
            }
            while group.count > 0 {
                left -= group.count;
                self.begin::<V>(&mut units, next, left.min(together));
                self.encrypt_or_decrypt::<V, R>(group, next, [nonces, ends, outputs], run);
                run.advance(group.count * self.unit_blocks);
                (group, next) = (next, group);
            }
        }
    }

    /// Hashes the tweaks of the next units, and no input yet.
    #[inline(always)]
    unsafe fn begin<V: Multiply>(&self, units: &mut Units<'_, C>, group: &mut Group, count: usize) {
        group.count = count.min(UNITS);
        let mut halves = [[[0; 16]; UNITS]; 2];
        for unit in 0..group.count {
            let mut iv = [[0; 16]; IV_LEN / 16];
            units.next_of_any_length(iv.as_flattened_mut());
            [halves[0][unit], halves[1][unit]] = iv;
        }
        // SAFETY: what this module asks for; registers divide the arrays. As these CPUs are little-endian, a number lies
        // in memory as a block does.
        unsafe {
            let power = V::broadcast((&raw const self.key.hash.powers[POWERS - 1]).cast());
            let start = V::broadcast((&raw const self.key.iv_start).cast());
            for unit in (0..group.count).step_by(V::LANES) {
                let mut sum = nothing();
                let first = V::load(halves[0].as_ptr().add(unit).cast()).xor(start);
                first.multiply_add(power, &mut sum);
                let tweak = V::reduce(sum).xor(V::load(halves[1].as_ptr().add(unit).cast()));
                tweak.store(group.tweaks.as_mut_ptr().add(unit).cast());
            }
        }
    }

    /// Batches of so many units.
    #[inline(always)]
    fn batches<V: Multiply>(&self, units: usize) -> usize {
        units * (self.unit_blocks / (REGISTERS * V::LANES))
    }

    /// The powers of the hash's key for a batch.
    #[inline(always)]
    fn powers<V: Multiply>(&self) -> *const u8 {
        self.key.hash.powers[POWERS - REGISTERS * V::LANES..].as_ptr().cast()
    }

    /// A group, which `run` starts with; and the first hash of the next one, which follows.
    #[inline(always)]
    unsafe fn encrypt_or_decrypt<V: Multiply, const R: usize>(
        &self,
        group: &Group,
        next: &mut Group,
        [nonces, ends, outputs]: [&mut Column; 3],
        run: Pointers,
    ) {
        let count = group.count;
        let unit_bytes = 16 * self.unit_blocks;
        let batch_bytes = 16 * REGISTERS * V::LANES;
        // SAFETY: what this module asks for: `count` units from `run` on, after them as many as `next` has. Each batch is
        // read before it is written, and its units' first blocks before any.
        unsafe {
            for unit in 0..count {
                let first = run.src.add(unit * unit_bytes).cast::<u128>().read_unaligned();
                ends[unit] = first ^ group.inputs[unit];
                nonces[unit] = ends[unit];
            }
            self.cipher.apply(self.direction, blocks(ends, count));
            let separator = u128::from_le_bytes(self.key.separator);
            for unit in 0..count {
                nonces[unit] ^= ends[unit] ^ separator;
            }

            let mut hashes = Hashes {
                powers: self.powers::<V>(),
                output: Hash::<V>::new(run.dst.cast_const(), self.unit_blocks),
                input: Hash::<V>::new(run.src.add(count * unit_bytes), self.unit_blocks),
            };
            let inputs = self.batches::<V>(next.count);
            let step = V::load(NUMBERS[V::LANES].as_ptr().cast());
            let mut done = 0;
            for unit in 0..count {
                let nonce = V::broadcast((&raw const nonces[unit]).cast());
                let mut numbers = V::load(NUMBERS[0].as_ptr().cast());
                for _ in 0..self.batches::<V>(1) {
                    let at = done * batch_bytes;
                    // The first batch has no output before it, and the last group no next one: then something is hashed
                    // that nobody asks for.
                    let (has_output, has_input) = (done > 0, done < inputs);
                    if has_output {
                        hashes.output.begin(&group.tweaks);
                    }
                    if has_input {
                        hashes.input.begin(&next.tweaks);
                        for line in 0..batch_bytes / 64 {
                            prefetch(hashes.input.at.wrapping_add(PREFETCH + 64 * line));
                        }
                    } else {
                        hashes.input.at = run.src.add(at);
                    }
                    let mut blocks = [V::zero(); REGISTERS];
                    for i in 0..REGISTERS {
                        blocks[i] = nonce.xor(numbers);
                        numbers = numbers.add64(step);
                    }
                    let none = [V::zero(); REGISTERS];
                    V::encrypt::<R, REGISTERS, _>(&mut blocks, self.schedule, &none, &mut hashes);
                    for i in 0..REGISTERS {
                        let offset = at + 16 * V::LANES * i;
                        blocks[i].xor(V::load(run.src.add(offset))).store(run.dst.add(offset));
                    }
                    if has_output {
                        hashes.output.end(outputs);
                    }
                    if has_input {
                        hashes.input.end(&mut next.inputs);
                    }
                    done += 1;
                }
            }
            hashes.output.begin(&group.tweaks);
            hashes.output.batch(hashes.powers);
            hashes.output.end(outputs);
            for unit in 0..count {
                let first = ends[unit] ^ outputs[unit];
                run.dst.add(unit * unit_bytes).cast::<u128>().write_unaligned(first);
            }
        }
    }
}

/// Blocks that number the lanes of a register; from the second register on, how many lanes it has.
static NUMBERS: [[u128; 4]; 5] = [[0, 1, 2, 3], [1; 4], [2; 4], [0; 4], [4; 4]];

/// All bits of all blocks but the first.
static BUT_FIRST: [u128; 4] = [0, !0, !0, !0];
static ALL: [u128; 4] = [!0; 4];

/// Hashes of consecutive units, a batch at a time.
struct Hash<V> {
    /// The batch.
    at: *const u8,
    unit_batches: usize,
    batch: usize,
    unit: usize,
    /// What counts of the batch's first register.
    keep: V,
    /// What is added to it.
    state: V,
    sum: Product<V>,
}

impl<V: Multiply> Hash<V> {
    #[inline(always)]
    unsafe fn new(at: *const u8, unit_blocks: usize) -> Self {
        // SAFETY: what this module asks for.
        unsafe {
            Self {
                at,
                unit_batches: unit_blocks / (REGISTERS * V::LANES),
                batch: 0,
                unit: 0,
                keep: V::zero(),
                state: V::zero(),
                sum: nothing(),
            }
        }
    }

    /// Before a batch.
    #[inline(always)]
    unsafe fn begin(&mut self, tweaks: &Column) {
        // SAFETY: what this module asks for.
        unsafe {
            if self.batch == 0 {
                self.keep = V::load(BUT_FIRST.as_ptr().cast());
                self.state = V::load_first((&raw const tweaks[self.unit % UNITS]).cast(), 1);
            } else {
                self.keep = V::load(ALL.as_ptr().cast());
            }
        }
    }

    /// After a batch.
    #[inline(always)]
    unsafe fn end(&mut self, hashes: &mut Column) {
        self.at = self.at.wrapping_add(16 * REGISTERS * V::LANES);
        self.batch += 1;
        if self.batch == self.unit_batches {
            // SAFETY: what this module asks for.
            unsafe { self.state.store_first((&raw mut hashes[self.unit % UNITS]).cast(), 1) };
            self.batch = 0;
            self.unit += 1;
        }
    }

    /// Registers 2 · `pair` and the one after it.
    #[inline(always)]
    unsafe fn pair(&mut self, powers: *const u8, pair: usize) {
        let (first, second) = (16 * V::LANES * 2 * pair, 16 * V::LANES * (2 * pair + 1));
        // SAFETY: what this module asks for; the batch can be read.
        unsafe {
            let mut block = V::load(self.at.add(first));
            if pair == 0 {
                self.sum = nothing();
                block = block.and(self.keep).xor(self.state);
            }
            let pairs = [
                (block, V::load(powers.add(first))),
                (V::load(self.at.add(second)), V::load(powers.add(second))),
            ];
            V::multiply_add_pairs(pairs, &mut self.sum);
            let Product { low, middle, high } = self.sum;
            self.sum = Product { low: low.kept(), middle: middle.kept(), high: high.kept() };
        }
    }

    #[inline(always)]
    unsafe fn reduce(&mut self) {
        // SAFETY: what this module asks for.
        self.state = unsafe { V::reduce(self.sum).folded().kept() };
    }

    /// A batch by itself.
    #[inline(always)]
    unsafe fn batch(&mut self, powers: *const u8) {
        // SAFETY: what this module asks for.
        unsafe {
            for pair in 0..REGISTERS / 2 {
                self.pair(powers, pair);
            }
            self.reduce();
        }
    }
}

/// The hashes that grow while AES runs: one after the other, so that one sum at a time is in registers.
struct Hashes<V> {
    powers: *const u8,
    output: Hash<V>,
    input: Hash<V>,
}

impl<V: Multiply> Meanwhile for Hashes<V> {
    #[inline(always)]
    unsafe fn step(&mut self, round: usize) {
        // SAFETY: the caller has the CPU features; both batches can be read.
        unsafe {
            match round {
                1..=4 => self.output.pair(self.powers, round - 1),
                5..=8 => {
                    if round == 5 {
                        self.output.reduce();
                    }
                    self.input.pair(self.powers, round - 5);
                }
                9 => self.input.reduce(),
                _ => {}
            }
        }
    }
}
