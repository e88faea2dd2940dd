//! GHASH by a carry-less multiplier: the products of eight registers of blocks are summed before one reduction. Each lane keeps a sum of
//! its own until then.
//!
//! # Safety
//!
//! Every function here asks of its caller what [`Multiply`] asks. What is inlined here runs inside a function that
//! enables the CPU features.
#![allow(clippy::needless_range_loop, reason = "constant bounds over several arrays at once, to be unrolled")]

use super::super::polyval::{POWERS, PolyvalKey};
use super::hctr2::{Multiply, Product, nothing};
use crate::block::Block;

/// Registers of blocks before a reduction.
const REGISTERS: usize = 8;

/// GHASH's state after more blocks.
#[inline(always)]
pub(crate) unsafe fn ghash<V: Multiply>(key: &PolyvalKey, state: u128, blocks: &[Block]) -> u128 {
    let (whole, rest) = blocks.split_at(blocks.len() - blocks.len() % (REGISTERS * V::LANES));
    // SAFETY: the caller has the CPU features; every pointer is that of the blocks or powers that are counted.
    unsafe {
        let mut state = V::load_first((&raw const state).cast(), 1);
        for blocks in whole.chunks_exact(REGISTERS * V::LANES) {
            let mut sum = nothing();
            for i in 0..REGISTERS {
                let mut block = V::load(blocks.as_ptr().add(V::LANES * i).cast()).reversed();
                if i == 0 {
                    block = block.xor(state);
                }
                block.multiply_add(power(key, (REGISTERS - i) * V::LANES), &mut sum);
            }
            state = V::reduce(sum).folded();
        }
        if !rest.is_empty() {
            state = few(key, state, rest);
        }
        let mut number = [0; 16];
        state.store_first(number.as_mut_ptr(), 1);
        u128::from_le_bytes(number)
    }
}

/// Fewer blocks than eight registers hold, at least one. Those that fill no register come first.
#[inline(always)]
unsafe fn few<V: Multiply>(key: &PolyvalKey, state: V, blocks: &[Block]) -> V {
    let (odd, whole) = blocks.split_at(blocks.len() % V::LANES);
    let mut left = blocks.len();
    let mut pending = state;
    // SAFETY: the caller has the CPU features; every pointer is that of the blocks or powers that are counted.
    unsafe {
        let mut sum: Product<V> = nothing();
        if !odd.is_empty() {
            let block = V::load_first(odd.as_ptr().cast(), odd.len()).reversed();
            let powers = key.powers.as_ptr().add(POWERS - left);
            block.xor(pending).multiply_add(V::load_first(powers.cast(), odd.len()), &mut sum);
            pending = V::zero();
            left -= odd.len();
        }
        for blocks in whole.chunks_exact(V::LANES) {
            let block = V::load(blocks.as_ptr().cast()).reversed();
            block.xor(pending).multiply_add(power(key, left), &mut sum);
            pending = V::zero();
            left -= V::LANES;
        }
        V::reduce(sum).folded()
    }
}

/// The powers from that number on downwards, one in each lane.
#[inline(always)]
unsafe fn power<V: Multiply>(key: &PolyvalKey, highest: usize) -> V {
    // SAFETY: the caller has the CPU features; as these CPUs are little-endian, a power lies there as a block does.
    unsafe { V::load(key.powers.as_ptr().add(POWERS - highest).cast()) }
}
