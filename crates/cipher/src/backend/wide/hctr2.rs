//! HCTR2's two passes over a data unit for CPUs with a carry-less multiplier beside AES: eight blocks in flight, their
//! products summed before one reduction; in the second pass the hash of eight blocks of output is multiplied between
//! the AES rounds of the next eight.
//!
//! # Safety
//!
//! Every function here asks of its caller what [`Multiply`] asks. What is inlined here runs inside a function that
//! enables the CPU features.
#![allow(clippy::needless_range_loop, reason = "constant bounds over several arrays at once, to be unrolled")]

use super::super::polyval::{POWERS, PolyvalKey};
use super::super::schedule::{Rounds, Schedule};
use super::{Keys, Meanwhile, Vector};
use crate::block::Block;

/// Blocks in flight; a round multiplies one of them, so that even the shortest key has enough rounds.
const WIDTH: usize = 8;

/// A 256-bit sum of products: its halves, and what goes between them.
#[derive(Clone, Copy)]
pub(crate) struct Product<V> {
    pub(crate) low: V,
    pub(crate) middle: V,
    pub(crate) high: V,
}

/// A carry-less multiplier of 64-bit halves.
///
/// # Safety
///
/// As for [`Vector`]; the CPU also has the multiplier.
pub(crate) trait Multiply: Vector {
    /// Adds the product of two polynomials.
    unsafe fn multiply_add(self, other: Self, sum: &mut Product<Self>);
    /// Adds two products.
    #[inline(always)]
    unsafe fn multiply_add_pairs(pairs: [(Self, Self); 2], sum: &mut Product<Self>) {
        for (a, b) in pairs {
            // SAFETY: the caller's promise.
            unsafe { a.multiply_add(b, sum) }
        }
    }
    /// The sum times x^-128, modulo POLYVAL's polynomial.
    unsafe fn reduce(sum: Product<Self>) -> Self;
    /// The sum of all lanes in the first, and nothing in the others.
    #[inline(always)]
    unsafe fn folded(self) -> Self {
        self
    }
}

/// POLYVAL's state after more blocks.
#[inline(always)]
pub(crate) unsafe fn polyval<V: Multiply>(key: &PolyvalKey, state: u128, blocks: &[Block]) -> u128 {
    // The odd ones first, so that the reductions of what follows overlap.
    let (odd, whole) = blocks.split_at(blocks.len() % WIDTH);
    // SAFETY: the caller has the CPU features; every pointer is that of a block.
    unsafe {
        let mut state = V::load(state.to_le_bytes().as_ptr());
        if !odd.is_empty() {
            state = absorb_few(key, state, odd);
        }
        for blocks in whole.as_chunks::<WIDTH>().0 {
            let mut sum = nothing();
            for i in (0..WIDTH).rev() {
                let mut block = V::load(blocks[i].as_ptr());
                if i == 0 {
                    block = block.xor(state);
                }
                block.multiply_add(power(key, i), &mut sum);
            }
            state = V::reduce(sum);
        }
        number(state)
    }
}

/// XCTR in place, and POLYVAL's state after what comes out.
#[inline(always)]
pub(crate) unsafe fn xctr_polyval<V: Multiply>(
    keys: &Keys,
    key: &PolyvalKey,
    nonce: &Block,
    state: u128,
    blocks: &mut [Block],
) -> u128 {
    let schedule = &keys.encrypt;
    // SAFETY: what this function asks for; the rounds are those of the schedule.
    unsafe {
        match keys.rounds {
            Rounds::Ten => xctr_rounds::<V, 10>(schedule, key, nonce, state, blocks),
            Rounds::Twelve => xctr_rounds::<V, 12>(schedule, key, nonce, state, blocks),
            Rounds::Fourteen => xctr_rounds::<V, 14>(schedule, key, nonce, state, blocks),
        }
    }
}

#[inline(always)]
unsafe fn xctr_rounds<V: Multiply, const R: usize>(
    schedule: &Schedule,
    key: &PolyvalKey,
    nonce: &Block,
    state: u128,
    blocks: &mut [Block],
) -> u128 {
    let (whole, rest) = blocks.as_chunks_mut::<WIDTH>();
    // SAFETY: the caller has the CPU features; every pointer is that of a block.
    unsafe {
        let mut inputs = Inputs { nonce: V::load(nonce.as_ptr()), count: V::zero() };
        let mut state = V::load(state.to_le_bytes().as_ptr());
        if let Some((first, more)) = whole.split_first_mut() {
            let mut hashing = Absorb { blocks: [V::zero(); WIDTH], key, sum: nothing(), state };
            hashing.blocks = xctr::<V, (), R>(schedule, &mut inputs, first, &mut ());
            hashing.blocks[0] = hashing.blocks[0].xor(state);
            for blocks in more {
                let out = xctr::<V, _, R>(schedule, &mut inputs, blocks, &mut hashing);
                hashing.blocks = out;
                hashing.blocks[0] = hashing.blocks[0].xor(hashing.state);
                hashing.sum = nothing();
            }
            for round in 1..=WIDTH + 1 {
                hashing.step(round);
            }
            state = hashing.state;
        }
        if !rest.is_empty() {
            let mut last = [[0; 16]; WIDTH];
            last[..rest.len()].copy_from_slice(rest);
            xctr::<V, (), R>(schedule, &mut inputs, &mut last, &mut ());
            rest.copy_from_slice(&last[..rest.len()]);
            state = absorb_few(key, state, rest);
        }
        number(state)
    }
}

static ONE: u128 = 1;

/// XCTR's inputs to the cipher, one after the other.
struct Inputs<V> {
    nonce: V,
    count: V,
}

/// Eight blocks in place; gives them back, too.
#[inline(always)]
unsafe fn xctr<V: Multiply, M: Meanwhile, const R: usize>(
    schedule: &Schedule,
    inputs: &mut Inputs<V>,
    blocks: &mut [Block; WIDTH],
    meanwhile: &mut M,
) -> [V; WIDTH] {
    // SAFETY: the caller has the CPU features; every pointer is that of a block.
    unsafe {
        let mut out = [V::zero(); WIDTH];
        let mut masks = [V::zero(); WIDTH];
        for i in 0..WIDTH {
            inputs.count = inputs.count.add64(V::load((&raw const ONE).cast()));
            out[i] = inputs.nonce.xor(inputs.count);
            masks[i] = V::load(blocks[i].as_ptr());
        }
        V::encrypt::<R, WIDTH, M>(&mut out, schedule, &masks, meanwhile);
        for i in 0..WIDTH {
            out[i].store(blocks[i].as_mut_ptr());
        }
        out
    }
}

/// Eight blocks that a hash takes in, the state already added to the first of them: a product per round, then the
/// reduction.
struct Absorb<'a, V> {
    blocks: [V; WIDTH],
    key: &'a PolyvalKey,
    sum: Product<V>,
    state: V,
}

impl<V: Multiply> Meanwhile for Absorb<'_, V> {
    #[inline(always)]
    unsafe fn step(&mut self, round: usize) {
        // SAFETY: the caller has the CPU features.
        unsafe {
            if round <= WIDTH {
                let i = round - 1;
                self.blocks[i].multiply_add(power(self.key, i), &mut self.sum);
            } else if round == WIDTH + 1 {
                self.state = V::reduce(self.sum);
            }
        }
    }
}

/// Fewer than eight blocks.
#[inline(always)]
unsafe fn absorb_few<V: Multiply>(key: &PolyvalKey, state: V, blocks: &[Block]) -> V {
    // SAFETY: the caller has the CPU features; every pointer is that of a block.
    unsafe {
        let mut sum = nothing();
        for (i, block) in blocks.iter().enumerate() {
            let mut block = V::load(block.as_ptr());
            if i == 0 {
                block = block.xor(state);
            }
            block.multiply_add(power(key, (WIDTH - blocks.len() + i) % WIDTH), &mut sum);
        }
        V::reduce(sum)
    }
}

/// The power that the block gets which has so many before it of eight.
#[inline(always)]
unsafe fn power<V: Multiply>(key: &PolyvalKey, before: usize) -> V {
    // SAFETY: the caller has the CPU features; as these CPUs are little-endian, a power lies there as a block does.
    unsafe { V::load((&raw const key.powers[POWERS - WIDTH + before]).cast()) }
}

#[inline(always)]
pub(super) unsafe fn nothing<V: Multiply>() -> Product<V> {
    // SAFETY: the caller has the CPU features.
    unsafe { Product { low: V::zero(), middle: V::zero(), high: V::zero() } }
}

#[inline(always)]
unsafe fn number<V: Multiply>(state: V) -> u128 {
    let mut bytes = [0; 16];
    // SAFETY: the caller has the CPU features; the pointer is that of 16 bytes.
    unsafe { state.store(bytes.as_mut_ptr()) };
    u128::from_le_bytes(bytes)
}
