//! ECB, XTS and CBC over a [`Vector`].
//!
//! # Safety
//!
//! Every function here asks of its caller what [`Vector`] asks, and that `src` and `dst` are valid for `blocks` blocks
//! and either the same or disjoint. What is inlined here runs inside a function that enables the CPU features.
#![allow(clippy::needless_range_loop, reason = "constant bounds over several arrays at once, to be unrolled")]

use super::super::register::prefetch;
use super::super::schedule::{Rounds, Schedule};
use super::{Keys, Meanwhile, TweakKeys, Vector};
use crate::block::{BlockCipher, Direction};
use crate::run::Run;
use crate::tweak::Units;

/// Blocks in flight.
const WIDTH: usize = 8;

/// How far ahead of the reads memory is asked for: a page, because hardware does not look beyond its own.
pub(crate) const PREFETCH: usize = 4096;

/// Calls `$function::<V, R, DIRECTION>` for the key's number of rounds.
macro_rules! dispatch {
    ($keys:expr, $direction:expr, $function:ident ($schedule:ident $(, $argument:expr)*)) => {
        match ($direction, $keys.rounds) {
            (Direction::Encrypt, rounds) => {
                let $schedule = &$keys.encrypt;
                match rounds {
                    Rounds::Ten => $function::<V, _, 10, true>($schedule $(, $argument)*),
                    Rounds::Twelve => $function::<V, _, 12, true>($schedule $(, $argument)*),
                    Rounds::Fourteen => $function::<V, _, 14, true>($schedule $(, $argument)*),
                }
            }
            (Direction::Decrypt, rounds) => {
                let $schedule = &$keys.decrypt;
                match rounds {
                    Rounds::Ten => $function::<V, _, 10, false>($schedule $(, $argument)*),
                    Rounds::Twelve => $function::<V, _, 12, false>($schedule $(, $argument)*),
                    Rounds::Fourteen => $function::<V, _, 14, false>($schedule $(, $argument)*),
                }
            }
        }
    };
}

pub(crate) use dispatch;

/// Where a run comes from and goes to.
#[derive(Clone, Copy)]
pub(crate) struct Pointers {
    pub(crate) src: *const u8,
    pub(crate) dst: *mut u8,
    pub(crate) blocks: usize,
}

impl Pointers {
    /// Those of a run, which say what this module asks of them.
    pub(crate) fn of(run: &mut Run<'_>) -> Self {
        let blocks = run.blocks();
        let (src, dst) = run.pointers();
        Self { src, dst, blocks }
    }

    /// Steps over `count` blocks.
    #[inline(always)]
    pub(crate) unsafe fn advance(&mut self, count: usize) {
        // SAFETY: the caller has not passed the last block yet.
        unsafe {
            self.src = self.src.add(16 * count);
            self.dst = self.dst.add(16 * count);
        }
        self.blocks -= count;
    }
}

/// ECB over a run.
#[inline(always)]
pub(crate) unsafe fn ecb<V: Vector>(keys: &Keys, direction: Direction, run: Pointers) {
    // SAFETY: what this function asks for.
    unsafe { dispatch!(keys, direction, ecb_rounds(schedule, run, ())) }
}

/// XTS over a run.
#[inline(always)]
pub(crate) unsafe fn xts<V: Vector, C: BlockCipher>(
    keys: &Keys,
    direction: Direction,
    tweak_keys: TweakKeys<'_>,
    units: Units<'_, C>,
    run: Pointers,
) {
    // SAFETY: what this function asks for.
    unsafe { dispatch!(keys, direction, xts_rounds(schedule, run, (tweak_keys, units))) }
}

/// CBC over a run.
#[inline(always)]
pub(crate) unsafe fn cbc<V: Vector, C: BlockCipher>(
    keys: &Keys,
    direction: Direction,
    units: Units<'_, C>,
    run: Pointers,
) {
    // SAFETY: what this function asks for.
    unsafe { dispatch!(keys, direction, cbc_rounds(schedule, run, units)) }
}

#[inline(always)]
unsafe fn ecb_rounds<V: Vector, T, const R: usize, const ENCRYPT: bool>(
    schedule: &Schedule,
    mut run: Pointers,
    _: T,
) {
    // SAFETY: what this function asks for; each step covers blocks that are left.
    unsafe {
        while run.blocks >= WIDTH {
            xex::<V, (), R, ENCRYPT, WIDTH>(schedule, &[V::zero(); WIDTH], run, &mut ());
            run.advance(WIDTH);
        }
        if run.blocks >= 4 {
            xex::<V, (), R, ENCRYPT, 4>(schedule, &[V::zero(); 4], run, &mut ());
            run.advance(4);
        }
        while run.blocks > 0 {
            xex::<V, (), R, ENCRYPT, 1>(schedule, &[V::zero(); 1], run, &mut ());
            run.advance(1);
        }
    }
}

/// Masks `W` blocks, encrypts or decrypts them, and masks them again.
#[inline(always)]
unsafe fn xex<V: Vector, M: Meanwhile, const R: usize, const ENCRYPT: bool, const W: usize>(
    schedule: &Schedule,
    masks: &[V; W],
    run: Pointers,
    meanwhile: &mut M,
) {
    // SAFETY: what this function asks for, and `run` has at least W blocks.
    unsafe {
        let mut blocks = [V::zero(); W];
        for i in 0..W {
            blocks[i] = V::load(run.src.add(16 * i)).xor(masks[i]);
        }
        if ENCRYPT {
            V::encrypt::<R, W, M>(&mut blocks, schedule, masks, meanwhile);
        } else {
            V::decrypt::<R, W, M>(&mut blocks, schedule, masks, meanwhile);
        }
        for i in 0..W {
            blocks[i].store(run.dst.add(16 * i));
        }
    }
}

/// The IVs of a run's units, eight at a time, encrypted if there are keys to do it with.
struct Starts<'a, V, C, const R: usize> {
    units: Units<'a, C>,
    keys: Option<TweakKeys<'a>>,
    ahead: [V; WIDTH],
    used: usize,
    remaining: usize,
}

impl<'a, V: Vector, C: BlockCipher, const R: usize> Starts<'a, V, C, R> {
    #[inline(always)]
    unsafe fn new(units: Units<'a, C>, keys: Option<TweakKeys<'a>>, count: usize) -> Self {
        // SAFETY: the caller has the CPU features.
        let ahead = unsafe { [V::zero(); WIDTH] };
        Self { units, keys, ahead, used: WIDTH, remaining: count }
    }

    /// The next unit's IV; anything after the last.
    #[inline(always)]
    unsafe fn next(&mut self) -> V {
        if self.used == WIDTH && self.remaining > 0 {
            let count = self.remaining.min(WIDTH);
            let mut ivs = [[0; 16]; WIDTH];
            self.units.fill(&mut ivs[..count]);
            // SAFETY: the caller has the CPU features; each IV is 16 bytes long.
            unsafe {
                for i in 0..WIDTH {
                    self.ahead[i] = V::load(ivs[i].as_ptr());
                }
                if let Some(TweakKeys { keys, doubled }) = self.keys {
                    V::encrypt::<R, WIDTH, ()>(&mut self.ahead, &keys.encrypt, &[V::zero(); WIDTH], &mut ());
                    if doubled {
                        for start in &mut self.ahead {
                            *start = start.double();
                        }
                    }
                }
            }
            self.remaining -= count;
            self.used = 0;
        }
        let start = self.ahead[self.used % WIDTH];
        self.used = (self.used + 1).min(WIDTH);
        start
    }
}

/// The tweaks of the next eight blocks, one made per round.
struct TweaksAhead<V> {
    next: V,
    made: [V; WIDTH],
}

impl<V: Vector> Meanwhile for TweaksAhead<V> {
    #[inline(always)]
    unsafe fn step(&mut self, round: usize) {
        // Even the shortest key has nine rounds that call this.
        if round <= WIDTH {
            self.made[round - 1] = self.next;
            // SAFETY: the caller has the CPU features.
            self.next = unsafe { self.next.double() };
        }
    }
}

#[inline(always)]
unsafe fn xts_rounds<V: Vector, C: BlockCipher, const R: usize, const ENCRYPT: bool>(
    schedule: &Schedule,
    mut run: Pointers,
    (tweak_keys, units): (TweakKeys<'_>, Units<'_, C>),
) {
    let unit_blocks = units.blocks();
    // SAFETY: what this function asks for; each step covers blocks that are left.
    unsafe {
        let count = run.blocks.div_ceil(unit_blocks);
        let mut starts = Starts::<V, C, R>::new(units, Some(tweak_keys), count);
        let mut left_of_unit = unit_blocks;
        let mut tweaks = first_tweaks(starts.next());
        if unit_blocks.is_multiple_of(WIDTH) {
            while run.blocks >= WIDTH {
                left_of_unit -= WIDTH;
                let next = if left_of_unit == 0 {
                    left_of_unit = unit_blocks;
                    starts.next()
                } else {
                    tweaks[WIDTH - 1].double()
                };
                let mut ahead = TweaksAhead { next, made: [V::zero(); WIDTH] };
                prefetch(run.src.wrapping_add(PREFETCH));
                prefetch(run.src.wrapping_add(PREFETCH + 64));
                xex::<V, _, R, ENCRYPT, WIDTH>(schedule, &tweaks, run, &mut ahead);
                tweaks = ahead.made;
                run.advance(WIDTH);
            }
        }
        while run.blocks > 0 {
            while left_of_unit >= WIDTH && run.blocks >= WIDTH {
                left_of_unit -= WIDTH;
                let mut ahead = TweaksAhead { next: tweaks[WIDTH - 1].double(), made: [V::zero(); WIDTH] };
                xex::<V, _, R, ENCRYPT, WIDTH>(schedule, &tweaks, run, &mut ahead);
                tweaks = ahead.made;
                run.advance(WIDTH);
            }
            // Fewer than eight are left, so there are tweaks for them all.
            let mut at = 0;
            if left_of_unit >= 4 && run.blocks >= 4 {
                let four = [tweaks[0], tweaks[1], tweaks[2], tweaks[3]];
                xex::<V, (), R, ENCRYPT, 4>(schedule, &four, run, &mut ());
                run.advance(4);
                left_of_unit -= 4;
                at = 4;
            }
            while left_of_unit > 0 && run.blocks > 0 {
                xex::<V, (), R, ENCRYPT, 1>(schedule, &[tweaks[at % WIDTH]], run, &mut ());
                run.advance(1);
                left_of_unit -= 1;
                at += 1;
            }
            left_of_unit = unit_blocks;
            tweaks = first_tweaks(starts.next());
        }
    }
}

/// `start` times 1, x, x^2 … x^7.
#[inline(always)]
unsafe fn first_tweaks<V: Vector>(start: V) -> [V; WIDTH] {
    let mut tweaks = [start; WIDTH];
    for i in 1..WIDTH {
        // SAFETY: the caller has the CPU features.
        tweaks[i] = unsafe { tweaks[i - 1].double() };
    }
    tweaks
}

#[inline(always)]
unsafe fn cbc_rounds<V: Vector, C: BlockCipher, const R: usize, const ENCRYPT: bool>(
    schedule: &Schedule,
    run: Pointers,
    units: Units<'_, C>,
) {
    // SAFETY: what this function asks for.
    unsafe {
        if ENCRYPT {
            cbc_encrypt::<V, C, R>(schedule, run, units);
        } else {
            cbc_decrypt::<V, C, R>(schedule, run, units);
        }
    }
}

#[inline(always)]
unsafe fn cbc_encrypt<V: Vector, C: BlockCipher, const R: usize>(
    schedule: &Schedule,
    mut run: Pointers,
    units: Units<'_, C>,
) {
    let unit_blocks = units.blocks();
    let mut left = run.blocks / unit_blocks;
    // SAFETY: what this function asks for; each step covers units that are left.
    unsafe {
        let mut starts = Starts::<V, C, R>::new(units, None, left);
        while left >= 8 {
            cbc_chains::<V, C, R, 8>(schedule, run, unit_blocks, &mut starts);
            run.advance(8 * unit_blocks);
            left -= 8;
        }
        if left >= 4 {
            cbc_chains::<V, C, R, 4>(schedule, run, unit_blocks, &mut starts);
            run.advance(4 * unit_blocks);
            left -= 4;
        }
        if left >= 2 {
            cbc_chains::<V, C, R, 2>(schedule, run, unit_blocks, &mut starts);
            run.advance(2 * unit_blocks);
            left -= 2;
        }
        if left == 1 {
            cbc_chains::<V, C, R, 1>(schedule, run, unit_blocks, &mut starts);
        }
    }
}

/// `W` units side by side.
#[inline(always)]
unsafe fn cbc_chains<V: Vector, C: BlockCipher, const R: usize, const W: usize>(
    schedule: &Schedule,
    run: Pointers,
    unit_blocks: usize,
    starts: &mut Starts<'_, V, C, R>,
) {
    // SAFETY: what this module asks for, and `run` has at least W units.
    unsafe {
        let mut chains = [V::zero(); W];
        for chain in &mut chains {
            *chain = starts.next();
        }
        for block in 0..unit_blocks {
            for i in 0..W {
                let at = 16 * (i * unit_blocks + block);
                chains[i] = chains[i].xor(V::load(run.src.add(at)));
            }
            V::encrypt::<R, W, ()>(&mut chains, schedule, &[V::zero(); W], &mut ());
            for i in 0..W {
                chains[i].store(run.dst.add(16 * (i * unit_blocks + block)));
            }
        }
    }
}

#[inline(always)]
unsafe fn cbc_decrypt<V: Vector, C: BlockCipher, const R: usize>(
    schedule: &Schedule,
    mut run: Pointers,
    units: Units<'_, C>,
) {
    let unit_blocks = units.blocks();
    // SAFETY: what this function asks for; each step covers blocks that are left.
    unsafe {
        let mut starts = Starts::<V, C, R>::new(units, None, run.blocks.div_ceil(unit_blocks));
        while run.blocks > 0 {
            let mut left_of_unit = unit_blocks.min(run.blocks);
            let mut previous = starts.next();
            while left_of_unit >= WIDTH {
                prefetch(run.src.wrapping_add(PREFETCH));
                prefetch(run.src.wrapping_add(PREFETCH + 64));
                previous = cbc_links::<V, R, WIDTH>(schedule, run, previous);
                run.advance(WIDTH);
                left_of_unit -= WIDTH;
            }
            if left_of_unit >= 4 {
                previous = cbc_links::<V, R, 4>(schedule, run, previous);
                run.advance(4);
                left_of_unit -= 4;
            }
            while left_of_unit > 0 {
                previous = cbc_links::<V, R, 1>(schedule, run, previous);
                run.advance(1);
                left_of_unit -= 1;
            }
        }
    }
}

/// `W` blocks of a chain; gives back the last of their ciphertexts.
#[inline(always)]
unsafe fn cbc_links<V: Vector, const R: usize, const W: usize>(
    schedule: &Schedule,
    run: Pointers,
    previous: V,
) -> V {
    // SAFETY: what this module asks for, and `run` has at least W blocks. All of them are read before one is written.
    unsafe {
        let mut blocks = [V::zero(); W];
        let mut masks = [previous; W];
        for i in 0..W {
            blocks[i] = V::load(run.src.add(16 * i));
            if i + 1 < W {
                masks[i + 1] = blocks[i];
            }
        }
        let last = blocks[W - 1];
        V::decrypt::<R, W, ()>(&mut blocks, schedule, &masks, &mut ());
        for i in 0..W {
            blocks[i].store(run.dst.add(16 * i));
        }
        last
    }
}
