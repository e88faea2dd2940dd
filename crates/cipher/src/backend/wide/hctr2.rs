//! HCTR2's two passes over a data unit for CPUs with a carry-less multiplier beside AES: eight blocks in flight, their
//! products summed before one reduction; in the second pass the hash of eight blocks of output is multiplied between
//! the AES rounds of the next eight.
//!
//! # Safety
//!
//! Every function here asks of its caller what [`Multiply`] asks. What is inlined here runs inside a function that
//! enables the CPU features.
#![allow(clippy::needless_range_loop, reason = "constant bounds over several arrays at once, to be unrolled")]

use super::super::schedule::{Rounds, Schedule};
use super::{Keys, Meanwhile, Vector};
use crate::block::{Block, BlockCipher, Direction};
use crate::mode::hctr2::Hctr2Key;
use crate::polyval::{POWERS, PolyvalKey};
use crate::run::Run;
use crate::tweak::Units;

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

/// What [`Wide`](super::Wide) asks of an instruction set beside the modes. `None` without a multiplier.
pub(crate) trait Hashing: Copy {
    /// See [`BlockCipher::polyval`](crate::block::BlockCipher::polyval).
    fn polyval(self, key: &PolyvalKey, state: u128, blocks: &[Block]) -> Option<u128>;
    /// See [`BlockCipher::xctr_polyval`](crate::block::BlockCipher::xctr_polyval).
    fn xctr_polyval(
        self,
        keys: &Keys,
        hash: &PolyvalKey,
        nonce: &Block,
        state: u128,
        blocks: &mut [Block],
    ) -> Option<u128>;
    /// See [`BlockCipher::hctr2`]. Gives back a run that it does not take, with nothing done.
    fn hctr2<'u, 'r, C: BlockCipher>(
        self,
        keys: &Keys,
        key: &Hctr2Key,
        direction: Direction,
        units: Units<'u, C>,
        cipher: &C,
        run: Run<'r>,
    ) -> Option<(Units<'u, C>, Run<'r>)>;
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

/// Implements [`Hashing`] for a proof, with functions in `$module` that enable `$features` and use `$register`, which has
/// one lane, and for runs `$wide` where units are long enough. The multiplier's proof is in the hash's key.
macro_rules! hashing {
    ($proof:ty, $module:ident, $features:literal, $register:ident, $wide:ident) => {
        mod $module {
            use $crate::backend::wide::modes::Pointers;
            use $crate::backend::wide::{Keys, hctr2, hctr2_run};
            use $crate::block::{Block, BlockCipher, Direction};
            use $crate::mode::hctr2::Hctr2Key;
            use $crate::polyval::PolyvalKey;
            use $crate::tweak::Units;

            #[target_feature(enable = $features)]
            pub(super) unsafe fn run<C: BlockCipher>(
                keys: &Keys,
                key: &Hctr2Key,
                direction: Direction,
                units: Units<'_, C>,
                cipher: &C,
                run: Pointers,
            ) {
                // SAFETY: the features are enabled here; the pointers are the caller's promise.
                unsafe {
                    if hctr2_run::is_whole_batches::<super::$wide>(units.blocks()) {
                        hctr2_run::run::<super::$wide, C>(keys, key, direction, units, cipher, run)
                    } else {
                        hctr2_run::run::<super::$register, C>(keys, key, direction, units, cipher, run)
                    }
                }
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn polyval(key: &PolyvalKey, state: u128, blocks: &[Block]) -> u128 {
                // SAFETY: the features are enabled here.
                unsafe { hctr2::polyval::<super::$register>(key, state, blocks) }
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn xctr_polyval(
                keys: &Keys,
                hash: &PolyvalKey,
                nonce: &Block,
                state: u128,
                blocks: &mut [Block],
            ) -> u128 {
                // SAFETY: the features are enabled here.
                unsafe { hctr2::xctr_polyval::<super::$register>(keys, hash, nonce, state, blocks) }
            }
        }

        impl $crate::backend::wide::hctr2::Hashing for $proof {
            fn polyval(
                self,
                key: &$crate::polyval::PolyvalKey,
                state: u128,
                blocks: &[$crate::block::Block],
            ) -> Option<u128> {
                key.multiplier?;
                // SAFETY: `self` and the key's multiplier prove that the CPU has the features.
                Some(unsafe { $module::polyval(key, state, blocks) })
            }

            fn xctr_polyval(
                self,
                keys: &$crate::backend::wide::Keys,
                hash: &$crate::polyval::PolyvalKey,
                nonce: &$crate::block::Block,
                state: u128,
                blocks: &mut [$crate::block::Block],
            ) -> Option<u128> {
                hash.multiplier?;
                // SAFETY: `self` and the key's multiplier prove that the CPU has the features.
                Some(unsafe { $module::xctr_polyval(keys, hash, nonce, state, blocks) })
            }

            fn hctr2<'u, 'r, C: $crate::block::BlockCipher>(
                self,
                keys: &$crate::backend::wide::Keys,
                key: &$crate::mode::hctr2::Hctr2Key,
                direction: $crate::block::Direction,
                units: $crate::tweak::Units<'u, C>,
                cipher: &C,
                mut run: $crate::run::Run<'r>,
            ) -> Option<($crate::tweak::Units<'u, C>, $crate::run::Run<'r>)> {
                let whole = $crate::backend::wide::hctr2_run::is_whole_batches::<$register>(units.blocks())
                    && run.blocks().is_multiple_of(units.blocks());
                if key.hash.multiplier.is_none() || !whole {
                    return Some((units, run));
                }
                let pointers = $crate::backend::wide::modes::Pointers::of(&mut run);
                // SAFETY: `self` and the key's multiplier prove that the CPU has the features; the pointers are those of
                // a run of whole units.
                unsafe { $module::run(keys, key, direction, units, cipher, pointers) };
                None
            }
        }
    };
}

pub(crate) use hashing;
