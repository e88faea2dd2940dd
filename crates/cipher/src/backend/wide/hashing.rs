//! HCTR2 as an instruction set has it: which of the two ways a run goes.

use super::Keys;
use crate::backend::polyval::PolyvalKey;
use crate::block::{Block, BlockCipher, Direction};
use crate::mode::hctr2::Hctr2Key;
use crate::run::Run;
use crate::tweak::Units;

/// What [`Wide`](super::Wide) asks of an instruction set beside the modes. `None` without a multiplier.
pub(crate) trait Hashing: Copy {
    /// See [`Hctr2Backend::polyval`](crate::mode::hctr2::Hctr2Backend::polyval).
    fn polyval(self, key: &PolyvalKey, state: u128, blocks: &[Block]) -> Option<u128>;
    /// See [`GcmBackend::ghash`](crate::mode::gcm::GcmBackend::ghash).
    fn ghash(self, key: &PolyvalKey, state: u128, blocks: &[Block]) -> Option<u128>;
    /// See [`Hctr2Backend::xctr_polyval`](crate::mode::hctr2::Hctr2Backend::xctr_polyval).
    fn xctr_polyval(
        self,
        keys: &Keys,
        hash: &PolyvalKey,
        nonce: &Block,
        state: u128,
        blocks: &mut [Block],
    ) -> Option<u128>;
    /// See [`Hctr2Backend::hctr2`](crate::mode::hctr2::Hctr2Backend::hctr2). Gives back a run that it does not take, with nothing done.
    fn hctr2<'u, 'r, C: BlockCipher>(
        self,
        keys: &Keys,
        key: &Hctr2Key<PolyvalKey>,
        direction: Direction,
        units: Units<'u, C>,
        cipher: &C,
        run: Run<'r>,
    ) -> Option<(Units<'u, C>, Run<'r>)>;
}

/// Implements [`Hashing`] for a proof, with functions in `$module` that enable `$features` and use `$register`, which has
/// one lane, and for runs `$wide` where units are long enough. The multiplier's proof is in the hash's key.
macro_rules! hashing {
    ($proof:ty, $module:ident, $features:literal, $register:ident, $wide:ident) => {
        mod $module {
            use $crate::backend::polyval::PolyvalKey;
            use $crate::backend::wide::modes::Pointers;
            use $crate::backend::wide::{Keys, ghash, hctr2, hctr2_run};
            use $crate::block::{Block, BlockCipher, Direction};
            use $crate::mode::hctr2::Hctr2Key;
            use $crate::tweak::Units;

            #[target_feature(enable = $features)]
            pub(super) unsafe fn run<C: BlockCipher>(
                keys: &Keys,
                key: &Hctr2Key<PolyvalKey>,
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
            pub(super) unsafe fn ghash(key: &PolyvalKey, state: u128, blocks: &[Block]) -> u128 {
                // SAFETY: the features are enabled here.
                unsafe { ghash::ghash::<super::$wide>(key, state, blocks) }
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

        impl $crate::backend::wide::hashing::Hashing for $proof {
            fn polyval(
                self,
                key: &$crate::backend::polyval::PolyvalKey,
                state: u128,
                blocks: &[$crate::block::Block],
            ) -> Option<u128> {
                key.multiplier?;
                // SAFETY: `self` and the key's multiplier prove that the CPU has the features.
                Some(unsafe { $module::polyval(key, state, blocks) })
            }

            fn ghash(
                self,
                key: &$crate::backend::polyval::PolyvalKey,
                state: u128,
                blocks: &[$crate::block::Block],
            ) -> Option<u128> {
                key.multiplier?;
                // SAFETY: `self` and the key's multiplier prove that the CPU has the features.
                Some(unsafe { $module::ghash(key, state, blocks) })
            }

            fn xctr_polyval(
                self,
                keys: &$crate::backend::wide::Keys,
                hash: &$crate::backend::polyval::PolyvalKey,
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
                key: &$crate::mode::hctr2::Hctr2Key<$crate::backend::polyval::PolyvalKey>,
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
