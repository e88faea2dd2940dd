//! AEGIS by rounds of AES in registers: every lane of a register is a data unit of its own, and two registers for each block of the
//! state are in flight, because a round waits for the one before it.
//!
//! # Safety
//!
//! Every function here asks of its caller what [`Round`] asks; `data` is valid for `unit` bytes of each head, and `unit` is a multiple
//! of 64. What is inlined here runs inside a function that enables the CPU features.
#![allow(clippy::needless_range_loop, reason = "constant bounds over several arrays at once, to be unrolled")]

#[cfg(target_arch = "aarch64")]
mod arm;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::wide::Vector;
use crate::aegis::{AegisKey, Head, Job, LAST_UPDATES};
use crate::block::Block;

/// A vector register as AEGIS wants it.
///
/// # Safety
///
/// As for [`Vector`].
pub(crate) trait Round: Vector {
    /// SubBytes, ShiftRows and MixColumns of each block, xor `key`.
    unsafe fn round(self, key: Self) -> Self;
    /// Turns the first [`LANES`](Vector::LANES) registers: lane i of register j becomes lane j of register i.
    unsafe fn turn(tile: &mut [Self; 4]);
}

/// An instruction set with rounds of AES. A value is a proof that the CPU has it, so that calling this is safe.
pub(crate) trait Aegis: Copy {
    /// Encrypts or decrypts the units of a job in place, and makes their tags.
    fn aegis<const N: usize, const OPEN: bool>(self, job: Job<'_, N>);
}

/// What a group of units has.
#[derive(Clone, Copy)]
pub(crate) struct Group<'a, const N: usize> {
    pub(crate) key: &'a AegisKey<N>,
    pub(crate) heads: &'a [Head],
    pub(crate) unit: usize,
    pub(crate) data: *mut u8,
    pub(crate) tags: *mut Block,
}

impl<'a, const N: usize> Group<'a, N> {
    /// The units of a job that have all they need; none if units are not of whole tiles.
    pub(crate) fn of(job: Job<'a, N>) -> Self {
        let Job { key, heads, unit, data, tags } = job;
        let whole = if unit.is_multiple_of(64) { data.len().checked_div(unit) } else { None };
        // intended: a unit that is not whole is none.
        let count = heads.len().min(tags.len()).min(whole.unwrap_or(0));
        Self { key, heads: &heads[..count], unit, data: data.as_mut_ptr(), tags: tags.as_mut_ptr() }
    }

    /// Splits the first `count` units off.
    #[inline(always)]
    unsafe fn split(&mut self, count: usize) -> Self {
        let (heads, rest) = self.heads.split_at(count);
        let first = Self { heads, ..*self };
        self.heads = rest;
        // SAFETY: the caller has that many units left.
        unsafe {
            self.data = self.data.add(count * self.unit);
            self.tags = self.tags.add(count);
        }
        first
    }
}

/// All units of a group, in wide registers as long as they fill them.
#[inline(always)]
pub(crate) unsafe fn run<V: Round, One: Round, const N: usize, const OPEN: bool>(mut units: Group<'_, N>) {
    // SAFETY: what this module asks for; each step takes units that are left.
    unsafe {
        while units.heads.len() >= 2 * V::LANES {
            several::<V, N, 2, OPEN>(units.split(2 * V::LANES));
        }
        if units.heads.len() >= V::LANES {
            several::<V, N, 1, OPEN>(units.split(V::LANES));
        }
        while units.heads.len() >= 2 {
            several::<One, N, 2, OPEN>(units.split(2));
        }
        if !units.heads.is_empty() {
            several::<One, N, 1, OPEN>(units);
        }
    }
}

/// As many units as `W` registers have lanes.
#[inline(always)]
unsafe fn several<V: Round, const N: usize, const W: usize, const OPEN: bool>(units: Group<'_, N>) {
    let Group { key, heads, unit, data, tags } = units;
    // SAFETY: what this module asks for.
    unsafe {
        let mut state = [[V::zero(); N]; W];
        let starts = |lane: usize| key.start(&heads[lane].nonce);
        for w in 0..W {
            for i in 0..N {
                state[w][i] = gathered(w, |lane| starts(lane)[i]);
            }
        }
        let (_, first, times) = key.first_updates(&[[0; 16]; 2]);
        let mut early = [[V::zero(); 4]; W];
        for w in 0..W {
            for i in 0..first {
                early[w][i] = gathered(w, |lane| key.first_updates(&heads[lane].nonce).0[i]);
            }
        }
        for _ in 0..times {
            for i in 0..first {
                let mut messages = [V::zero(); W];
                for w in 0..W {
                    messages[w] = early[w][i];
                }
                update(&mut state, &messages);
            }
        }
        for i in 0..AegisKey::<N>::AD_BLOCKS {
            let mut messages = [V::zero(); W];
            for w in 0..W {
                messages[w] = gathered(w, |lane| heads[lane].associated[i]);
            }
            update(&mut state, &messages);
        }
        for at in (0..unit).step_by(16 * V::LANES) {
            let mut tile = [[V::zero(); 4]; W];
            for w in 0..W {
                for lane in 0..V::LANES {
                    tile[w][lane] = V::load(data.add((w * V::LANES + lane) * unit + at));
                }
                V::turn(&mut tile[w]);
            }
            for i in 0..V::LANES {
                let mut messages = [V::zero(); W];
                for w in 0..W {
                    let out = tile[w][i].xor(keystream(&state[w]));
                    messages[w] = if OPEN { out } else { tile[w][i] };
                    tile[w][i] = out;
                }
                update(&mut state, &messages);
            }
            for w in 0..W {
                V::turn(&mut tile[w]);
                for lane in 0..V::LANES {
                    tile[w][lane].store(data.add((w * V::LANES + lane) * unit + at));
                }
            }
        }
        let lengths = V::broadcast(AegisKey::<N>::lengths(unit).as_ptr());
        let mut messages = [V::zero(); W];
        for w in 0..W {
            messages[w] = lengths.xor(state[w][3]);
        }
        for _ in 0..LAST_UPDATES {
            update(&mut state, &messages);
        }
        for w in 0..W {
            let mut sum = state[w][0];
            for i in 1..N {
                sum = sum.xor(state[w][i]);
            }
            sum.store(tags.add(w * V::LANES).cast());
        }
    }
}

/// A block for each lane of register number `register`.
#[inline(always)]
fn gathered<V: Round>(register: usize, of: impl Fn(usize) -> Block) -> V {
    let mut blocks = [[0; 16]; 4];
    for lane in 0..V::LANES {
        blocks[lane] = of(register * V::LANES + lane);
    }
    // SAFETY: four blocks are as many as a register holds at most; the callers have the CPU features.
    unsafe { V::load(blocks.as_ptr().cast()) }
}

/// The state's contribution to the keystream.
#[inline(always)]
unsafe fn keystream<V: Round, const N: usize>(state: &[V; N]) -> V {
    // SAFETY: what this module asks for.
    unsafe {
        let mut z = state[1].xor(state[4]);
        if N > 5 {
            z = z.xor(state[N - 1]);
        }
        z.xor(state[2].and(state[3]))
    }
}

/// A round for each block of each state.
#[inline(always)]
unsafe fn update<V: Round, const N: usize, const W: usize>(state: &mut [[V; N]; W], messages: &[V; W]) {
    // SAFETY: what this module asks for.
    unsafe {
        for w in 0..W {
            let old = state[w];
            state[w][0] = old[N - 1].round(old[0].xor(messages[w]));
            for i in 1..N {
                state[w][i] = old[i - 1].round(old[i]);
            }
        }
    }
}

/// Implements [`Aegis`] for a proof, with functions in `$module` that enable `$features` and use `$wide`, and `$one`, which has one
/// lane, for what does not fill it.
macro_rules! aegis {
    ($proof:ty, $module:ident, $features:literal, $wide:ident, $one:ident) => {
        mod $module {
            use $crate::backend::aegis::{Group, run};

            #[target_feature(enable = $features)]
            pub(super) unsafe fn units<const N: usize, const OPEN: bool>(units: Group<'_, N>) {
                // SAFETY: the features are enabled here; the pointers are the caller's promise.
                unsafe { run::<super::$wide, super::$one, N, OPEN>(units) }
            }
        }

        impl $crate::backend::aegis::Aegis for $proof {
            fn aegis<const N: usize, const OPEN: bool>(self, job: $crate::aegis::Job<'_, N>) {
                let units = $crate::backend::aegis::Group::of(job);
                // SAFETY: `self` proves that the CPU has the features; the pointers are those of a job's units.
                unsafe { $module::units::<N, OPEN>(units) }
            }
        }
    };
}

pub(crate) use aegis;
