//! Serpent with a block in each lane.
//!
//! # Safety
//!
//! Every function here asks of its caller what [`Lanes`] asks.

use super::Lanes;
use crate::block::{Block, Direction};
use crate::serpent::{Keys, Word};

/// The widest register has as many lanes.
const MOST: usize = 16;

/// One word of each of as many blocks as there are lanes.
///
/// Invariant: one is made only in functions of this module, whose caller has the features of the register.
#[derive(Clone, Copy)]
struct Vector<V>(V);

// SAFETY (all of the blocks below): the invariant of `Vector`; registers only.
impl<V: Lanes> Word for Vector<V> {
    #[inline(always)]
    fn splat(value: u32) -> Self {
        // SAFETY: see above.
        Self(unsafe { V::splat32(value) })
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { self.0.xor(other.0) })
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { self.0.and(other.0) })
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { self.0.or(other.0) })
    }

    #[inline(always)]
    fn not(self) -> Self {
        self.xor(Self::splat(u32::MAX))
    }

    #[inline(always)]
    fn and_not(self, other: Self) -> Self {
        // The compiler has one instruction for the two.
        self.and(other.not())
    }

    #[inline(always)]
    fn up<const UP: i32>(self) -> Self {
        // SAFETY: see above.
        Self(unsafe { self.0.up32::<UP>() })
    }

    #[inline(always)]
    fn turned<const UP: i32, const DOWN: i32>(self) -> Self {
        // SAFETY: see above.
        Self(unsafe { self.0.turned_left32::<UP, DOWN>() })
    }
}

/// Encrypts or decrypts blocks, each on its own. Where fewer are left than there are lanes, the other lanes have zeros.
#[inline(always)]
pub(super) unsafe fn run<V: Lanes>(keys: &Keys, direction: Direction, blocks: &mut [Block]) {
    let mut batches = blocks.chunks_exact_mut(V::WORDS);
    for batch in &mut batches {
        // SAFETY: a batch is as many blocks as there are lanes; the features are the caller's promise.
        unsafe { lanes::<V>(keys, direction, batch.as_mut_ptr().cast()) };
    }
    let rest = batches.into_remainder();
    if !rest.is_empty() {
        let mut whole = [[0; 16]; MOST];
        whole[..rest.len()].copy_from_slice(rest);
        // SAFETY: no register has more lanes than that; the features are the caller's promise.
        unsafe { lanes::<V>(keys, direction, whole.as_mut_ptr().cast()) };
        rest.copy_from_slice(&whole[..rest.len()]);
    }
}

/// As many blocks as there are lanes, which `at` points to.
#[inline(always)]
unsafe fn lanes<V: Lanes>(keys: &Keys, direction: Direction, at: *mut u8) {
    // SAFETY: the caller's promise: four registers are a block for each lane.
    unsafe {
        let places = [at, at.add(4 * V::WORDS), at.add(8 * V::WORDS), at.add(12 * V::WORDS)];
        let loaded = [V::load(places[0]), V::load(places[1]), V::load(places[2]), V::load(places[3])];
        let [a, b, c, d] = V::transposed32(loaded);
        let words = [Vector(a), Vector(b), Vector(c), Vector(d)];
        let words = match direction {
            Direction::Encrypt => keys.encrypted(words),
            Direction::Decrypt => keys.decrypted(words),
        };
        let [a, b, c, d] = words;
        let done = V::transposed32([a.0, b.0, c.0, d.0]);
        for i in 0..4 {
            done[i].store(places[i]);
        }
    }
}

/// Vector instructions that have Serpent. A value is a proof, as in [`super::VectorInstructions`].
pub(crate) trait SerpentInstructions: Copy {
    /// Encrypts or decrypts blocks, each on its own.
    fn serpent(self, keys: &Keys, direction: Direction, blocks: &mut [Block]);
}

/// Implements [`SerpentInstructions`] for a proof, with a function in `$module` that enables `$features`.
macro_rules! serpent_instructions {
    ($proof:ty, $register:ty, $module:ident, $features:literal) => {
        mod $module {
            use $crate::block::{Block, Direction};
            use $crate::serpent::Keys;

            #[target_feature(enable = $features)]
            pub(super) unsafe fn run(keys: &Keys, direction: Direction, blocks: &mut [Block]) {
                // SAFETY: the features are enabled here.
                unsafe { $crate::backend::lanes::serpent::run::<$register>(keys, direction, blocks) }
            }
        }

        impl $crate::backend::lanes::serpent::SerpentInstructions for $proof {
            fn serpent(
                self,
                keys: &$crate::serpent::Keys,
                direction: $crate::block::Direction,
                blocks: &mut [$crate::block::Block],
            ) {
                // SAFETY: `self` proves that the CPU has the features.
                unsafe { $module::run(keys, direction, blocks) }
            }
        }
    };
}

pub(super) use serpent_instructions;
