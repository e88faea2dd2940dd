//! Serpent with a block in each lane, and two registers side by side where there are enough of them: one instruction waits for the other in a
//! single one, and most of the CPU's units have nothing to do.
//!
//! # Safety
//!
//! Every function here asks of its caller what [`Lanes`] asks.

use super::Lanes;
use crate::block::{Block, Direction};
use crate::serpent::{Keys, Word};

/// Two of the widest registers have as many lanes.
const MOST: usize = 32;

/// One word of each of as many blocks as there are lanes in `SETS` registers.
///
/// Invariant: one is made only in functions of this module, whose caller has the features of the register.
#[derive(Clone, Copy)]
struct Vectors<V, const SETS: usize>([V; SETS]);

// Loops without closures: those would not be compiled for the instructions of whoever calls this.
// SAFETY (all of the blocks below): the invariant of `Vectors`; registers only.
impl<V: Lanes, const SETS: usize> Word for Vectors<V, SETS> {
    #[inline(always)]
    fn splat(value: u32) -> Self {
        // SAFETY: see above.
        Self([unsafe { V::splat32(value) }; SETS])
    }

    #[inline(always)]
    fn xor(mut self, other: Self) -> Self {
        for set in 0..SETS {
            // SAFETY: see above.
            self.0[set] = unsafe { self.0[set].xor(other.0[set]) };
        }
        self
    }

    #[inline(always)]
    fn and(mut self, other: Self) -> Self {
        for set in 0..SETS {
            // SAFETY: see above.
            self.0[set] = unsafe { self.0[set].and(other.0[set]) };
        }
        self
    }

    #[inline(always)]
    fn or(mut self, other: Self) -> Self {
        for set in 0..SETS {
            // SAFETY: see above.
            self.0[set] = unsafe { self.0[set].or(other.0[set]) };
        }
        self
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
    fn up<const UP: i32>(mut self) -> Self {
        for set in 0..SETS {
            // SAFETY: see above.
            self.0[set] = unsafe { self.0[set].up32::<UP>() };
        }
        self
    }

    #[inline(always)]
    fn turned<const UP: i32, const DOWN: i32>(mut self) -> Self {
        for set in 0..SETS {
            // SAFETY: see above.
            self.0[set] = unsafe { self.0[set].turned_left32::<UP, DOWN>() };
        }
        self
    }
}

/// Encrypts or decrypts blocks, each on its own, `SETS` registers of each word at a time. Where fewer are left, the other lanes have zeros.
#[inline(always)]
pub(super) unsafe fn run<V: Lanes, const SETS: usize>(
    keys: &Keys,
    direction: Direction,
    blocks: &mut [Block],
) {
    let mut whole = [[0; 16]; MOST];
    // One place from which the rounds are called: they are many kilobytes of code.
    for batch in blocks.chunks_mut(SETS * V::WORDS) {
        let is_whole = batch.len() == SETS * V::WORDS;
        let at = match is_whole {
            true => batch.as_mut_ptr(),
            false => {
                whole[..batch.len()].copy_from_slice(batch);
                whole.as_mut_ptr()
            }
        };
        // SAFETY: a whole batch is as many blocks as there are lanes, and no two registers have more lanes than `whole` has blocks; the
        // features are the caller's promise.
        unsafe { lanes::<V, SETS>(keys, direction, at.cast()) };
        if !is_whole {
            batch.copy_from_slice(&whole[..batch.len()]);
        }
    }
}

/// As many blocks as there are lanes, which `at` points to.
#[inline(always)]
unsafe fn lanes<V: Lanes, const SETS: usize>(keys: &Keys, direction: Direction, at: *mut u8) {
    const { assert!(SETS * V::WORDS <= MOST) };
    // SAFETY: the caller's promise: four registers are a block for each lane.
    unsafe {
        let zero = V::splat32(0);
        let mut words = [Vectors([zero; SETS]); 4];
        for set in 0..SETS {
            let at = at.add(16 * V::WORDS * set);
            let places = [at, at.add(4 * V::WORDS), at.add(8 * V::WORDS), at.add(12 * V::WORDS)];
            let loaded = [V::load(places[0]), V::load(places[1]), V::load(places[2]), V::load(places[3])];
            let turned = V::transposed32(loaded);
            for i in 0..4 {
                words[i].0[set] = turned[i];
            }
        }
        let [a, b, c, d] = match direction {
            Direction::Encrypt => keys.encrypted(words),
            Direction::Decrypt => keys.decrypted(words),
        };
        for set in 0..SETS {
            let at = at.add(16 * V::WORDS * set);
            let done = V::transposed32([a.0[set], b.0[set], c.0[set], d.0[set]]);
            for i in 0..4 {
                done[i].store(at.add(4 * V::WORDS * i));
            }
        }
    }
}

/// Vector instructions that have Serpent. A value is a proof, as in [`super::VectorInstructions`].
pub(crate) trait SerpentInstructions: Copy {
    /// Encrypts or decrypts blocks, each on its own.
    fn serpent(self, keys: &Keys, direction: Direction, blocks: &mut [Block]);
}

/// Implements [`SerpentInstructions`] for a proof, with a function in `$module` that enables `$features` and takes `$sets` registers of each word at a
/// time.
macro_rules! serpent_instructions {
    ($proof:ty, $register:ty, $sets:literal, $module:ident, $features:literal) => {
        mod $module {
            use $crate::block::{Block, Direction};
            use $crate::serpent::Keys;

            #[target_feature(enable = $features)]
            pub(super) unsafe fn run(keys: &Keys, direction: Direction, blocks: &mut [Block]) {
                // SAFETY: the features are enabled here.
                unsafe { $crate::backend::lanes::serpent::run::<$register, $sets>(keys, direction, blocks) }
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
