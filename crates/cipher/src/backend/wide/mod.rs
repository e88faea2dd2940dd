//! The modes for CPUs with AES instructions, written once over a small vector trait: eight registers in flight. CTR, LRW
//! and runs of HCTR2 are for registers of any width; XTS and CBC here for one block in each, and in `vaes` for more.
//!
//! Everything here is inlined into functions of the instruction-set files that enable the CPU features. What makes
//! a run faster than its data units one by one: the tweaks of the next eight blocks, also across the border of two
//! units, are made while this eight are in the pipeline; the IVs of eight units are encrypted at once; CBC
//! encryption runs eight chains side by side; HCTR2's two hashes grow between the AES rounds of its counter mode.

pub(crate) mod ctr;
pub(crate) mod ghash;
pub(crate) mod hashing;
pub(crate) mod hctr2;
pub(crate) mod hctr2_run;
pub(crate) mod lrw;
pub(crate) mod modes;

use self::hashing::Hashing;
use super::polyval::PolyvalKey;
use super::register::Register;
use super::schedule::{self, Rounds, Schedule};
use crate::block::{Block, BlockCipher, Direction};
use crate::mode;
use crate::mode::cbc::CbcBackend;
use crate::mode::ctr::CtrBackend;
use crate::mode::ecb::EcbBackend;
use crate::mode::gcm::{self, GcmBackend};
use crate::mode::hctr2::{Hctr2Backend, Hctr2Key, Polyval};
use crate::mode::lrw::{LrwBackend, LrwKey};
use crate::mode::xex1::Xex1Backend;
use crate::mode::xts::{XtsBackend, XtsUnits};
use crate::run::Run;
use crate::tweak::Units;

/// One cipher block in a register, or several side by side, its *lanes*, and what AES instructions do with
/// them. What is provided is for one.
///
/// # Safety
///
/// As for [`Register`]. The CPU also has the AES instructions of the implementing file; schedules hold at least `R` + 1
/// round keys, as [`Keys`] says.
pub(crate) trait Vector: Register {
    /// Blocks in a register.
    const LANES: usize;
    /// One block from memory in all lanes.
    #[inline(always)]
    unsafe fn broadcast(from: *const u8) -> Self {
        // SAFETY: 16 readable bytes, which fill the only lane.
        unsafe { Self::load(from) }
    }
    /// The first `count` lanes, at most all of them, from memory; touches no more of it. The others are zero.
    #[inline(always)]
    unsafe fn load_first(from: *const u8, count: usize) -> Self {
        // SAFETY: 16 readable bytes for each block that is counted.
        unsafe { if count == 0 { Self::zero() } else { Self::load(from) } }
    }
    /// The first `count` lanes, at most all of them, to memory; touches no more of it.
    #[inline(always)]
    unsafe fn store_first(self, to: *mut u8, count: usize) {
        if count > 0 {
            // SAFETY: 16 writable bytes for each block that is counted.
            unsafe { self.store(to) }
        }
    }
    /// The bytes of each block in reverse order.
    unsafe fn reversed(self) -> Self;
    /// x times each block as XTS reads it.
    unsafe fn double(self) -> Self;
    /// `blocks[i]` = AES of `blocks[i]`, xor `masks[i]`.
    unsafe fn encrypt<const R: usize, const W: usize, M: Meanwhile>(
        blocks: &mut [Self; W],
        schedule: &Schedule,
        masks: &[Self; W],
        meanwhile: &mut M,
    );
    /// `blocks[i]` = inverse AES of `blocks[i]`, xor `masks[i]`.
    unsafe fn decrypt<const R: usize, const W: usize, M: Meanwhile>(
        blocks: &mut [Self; W],
        schedule: &Schedule,
        masks: &[Self; W],
        meanwhile: &mut M,
    );
}

/// Work to be put between the rounds, where the CPU has slots to spare.
pub(crate) trait Meanwhile {
    /// Called once per round, with rounds counted from 1.
    ///
    /// # Safety
    ///
    /// As for [`Vector`].
    unsafe fn step(&mut self, round: usize);
}

impl Meanwhile for () {
    #[inline(always)]
    unsafe fn step(&mut self, _: usize) {}
}

/// An expanded key: the schedule of the cipher and that of the equivalent inverse cipher (FIPS 197, 5.3.5), each in
/// the order of use and `rounds` + 1 long.
pub(crate) struct Keys {
    pub(crate) encrypt: Schedule,
    pub(crate) decrypt: Schedule,
    pub(crate) rounds: Rounds,
}

/// What encrypts the IVs of XTS or XEX.
#[derive(Clone, Copy)]
pub(crate) struct TweakKeys<'a> {
    pub(crate) keys: &'a Keys,
    /// Whether a unit's tweaks start with x times that, as ours do with a single key.
    pub(crate) doubled: bool,
}

/// An instruction set with AES. A value is a proof that the CPU has it, so that calling these is safe.
pub(crate) trait Instructions: Copy {
    /// Fills `keys`, whose `rounds` say how long `key` is.
    fn expand(self, key: &[u8], keys: &mut Keys);
    /// See [`EcbBackend::ecb`].
    fn ecb(self, keys: &Keys, direction: Direction, run: Run<'_>);
    /// See [`XtsBackend::xts`] and [`Xex1Backend::xex1`].
    fn xts<C: BlockCipher>(
        self,
        keys: &Keys,
        direction: Direction,
        tweak_keys: TweakKeys<'_>,
        units: Units<'_, C>,
        run: Run<'_>,
    );
    /// See [`CbcBackend::cbc`].
    fn cbc<C: BlockCipher>(self, keys: &Keys, direction: Direction, units: Units<'_, C>, run: Run<'_>);
    /// See [`CtrBackend::ctr`].
    fn ctr<C: BlockCipher>(self, keys: &Keys, units: Units<'_, C>, run: Run<'_>);
    /// See [`LrwBackend::lrw`]. What does not come in whole batches, the mode does with `cipher`.
    fn lrw<C: BlockCipher>(
        self,
        keys: &Keys,
        key: &LrwKey,
        direction: Direction,
        units: Units<'_, C>,
        run: Run<'_>,
        cipher: &C,
    );
}

/// AES by an instruction set.
pub(crate) struct Wide<I> {
    keys: Keys,
    instructions: I,
}

impl<I: Instructions> Wide<I> {
    /// Expands a key; `None` if AES takes no key of that length.
    pub(crate) fn new(instructions: I, key: &[u8]) -> Option<Self> {
        let rounds = Rounds::for_key(key.len())?;
        let keys = Keys { encrypt: Schedule::zeroed(), decrypt: Schedule::zeroed(), rounds };
        let mut cipher = Self { keys, instructions };
        instructions.expand(key, &mut cipher.keys);
        Some(cipher)
    }
}

impl<I: Instructions> BlockCipher for Wide<I> {
    fn is_constant_time(&self) -> bool {
        true
    }

    fn encrypt(&self, blocks: &mut [Block]) {
        self.instructions.ecb(&self.keys, Direction::Encrypt, Run::of_blocks(blocks));
    }

    fn decrypt(&self, blocks: &mut [Block]) {
        self.instructions.ecb(&self.keys, Direction::Decrypt, Run::of_blocks(blocks));
    }
}

impl<I: Instructions> EcbBackend for Wide<I> {
    fn ecb(&self, direction: Direction, run: Run<'_>) {
        self.instructions.ecb(&self.keys, direction, run);
    }
}

impl<I: Instructions> CbcBackend for Wide<I> {
    fn cbc(&self, direction: Direction, units: Units<'_, Self>, run: Run<'_>) {
        self.instructions.cbc(&self.keys, direction, units, run);
    }
}

impl<I: Instructions> CtrBackend for Wide<I> {
    fn ctr(&self, units: Units<'_, Self>, run: Run<'_>) {
        self.instructions.ctr(&self.keys, units, run);
    }
}

impl<I: Instructions> XtsBackend for Wide<I> {
    fn xts(&self, direction: Direction, units: XtsUnits<'_, Self>, run: Run<'_>) {
        let tweak_keys = TweakKeys { keys: &units.tweak_cipher.keys, doubled: false };
        self.instructions.xts(&self.keys, direction, tweak_keys, units.units, run);
    }
}

impl<I: Instructions> Xex1Backend for Wide<I> {
    fn xex1(&self, direction: Direction, units: Units<'_, Self>, run: Run<'_>) {
        let tweak_keys = TweakKeys { keys: &self.keys, doubled: true };
        self.instructions.xts(&self.keys, direction, tweak_keys, units, run);
    }
}

impl<I: Instructions> LrwBackend for Wide<I> {
    fn lrw(&self, key: &LrwKey, direction: Direction, units: Units<'_, Self>, run: Run<'_>) {
        self.instructions.lrw(&self.keys, key, direction, units, run, self);
    }
}

impl<I: Instructions + Hashing> Hctr2Backend for Wide<I> {
    type Hash = PolyvalKey;

    fn hctr2(&self, key: &Hctr2Key<PolyvalKey>, direction: Direction, units: Units<'_, Self>, run: Run<'_>) {
        let left = self.instructions.hctr2(&self.keys, key, direction, units, self, run);
        if let Some((units, run)) = left {
            mode::hctr2::run(self, key, direction, units, run);
        }
    }

    fn polyval(&self, key: &PolyvalKey, state: u128, blocks: &[Block]) -> u128 {
        self.instructions.polyval(key, state, blocks).unwrap_or_else(|| key.absorb(state, blocks))
    }

    fn xctr_polyval(&self, hash: &PolyvalKey, nonce: &Block, state: u128, blocks: &mut [Block]) -> u128 {
        self.instructions
            .xctr_polyval(&self.keys, hash, nonce, state, blocks)
            .unwrap_or_else(|| mode::hctr2::xctr_polyval(self, hash, nonce, state, blocks))
    }
}

impl<I: Instructions + Hashing> GcmBackend for Wide<I> {
    fn ghash(&self, key: &PolyvalKey, state: u128, blocks: &[Block]) -> u128 {
        self.instructions.ghash(key, state, blocks).unwrap_or_else(|| gcm::ghash(key, state, blocks))
    }
}

/// Fills both schedules. `sub_word` is the S-box on each byte, `inverse_mix` InvMixColumns on a round key.
#[inline(always)]
pub(crate) fn expand(
    key: &[u8],
    keys: &mut Keys,
    sub_word: impl Fn(u32) -> u32,
    inverse_mix: impl Fn(&Block) -> Block,
) {
    schedule::expand(key, keys.rounds, &mut keys.encrypt, sub_word);
    let rounds = keys.rounds.count();
    for (round, to) in keys.decrypt.0.iter_mut().enumerate().take(rounds + 1) {
        let key = &keys.encrypt.0[rounds - round];
        *to = if round == 0 || round == rounds { *key } else { inverse_mix(key) };
    }
}

/// Implements [`Instructions`] for a proof, with functions in `$module` that enable `$features` and call the modes of
/// `$modes` with `$register`. The invoking file names these two, and `sub_word` and `inverse_mix` as [`expand`] wants them.
macro_rules! instructions {
    ($proof:ty, $module:ident, $features:literal, $modes:ident, $register:ident) => {
        mod $module {
            use super::{inverse_mix, sub_word, $modes, $register};
            use $crate::backend::wide::modes::Pointers;
            use $crate::backend::wide::{Keys, TweakKeys, ctr, expand, lrw};
            use $crate::block::{BlockCipher, Direction};
            use $crate::mode::lrw::LrwKey;
            use $crate::tweak::Units;

            #[target_feature(enable = $features)]
            pub(super) unsafe fn expand_key(key: &[u8], keys: &mut Keys) {
                // SAFETY: the features are enabled here.
                expand(key, keys, |word| unsafe { sub_word(word) }, |key| unsafe { inverse_mix(key) });
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn ecb(keys: &Keys, direction: Direction, run: Pointers) {
                // SAFETY: the features are enabled here; the pointers are the caller's promise.
                unsafe { $modes::ecb::<$register>(keys, direction, run) }
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn xts<C: BlockCipher>(
                keys: &Keys,
                direction: Direction,
                tweak_keys: TweakKeys<'_>,
                units: Units<'_, C>,
                run: Pointers,
            ) {
                // SAFETY: the features are enabled here; the pointers are the caller's promise.
                unsafe { $modes::xts::<$register, C>(keys, direction, tweak_keys, units, run) }
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn cbc<C: BlockCipher>(
                keys: &Keys,
                direction: Direction,
                units: Units<'_, C>,
                run: Pointers,
            ) {
                // SAFETY: the features are enabled here; the pointers are the caller's promise.
                unsafe { $modes::cbc::<$register, C>(keys, direction, units, run) }
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn ctr<C: BlockCipher>(keys: &Keys, units: Units<'_, C>, run: Pointers) {
                // SAFETY: the features are enabled here; the pointers are the caller's promise.
                unsafe { ctr::run::<$register, C>(keys, units, run) }
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn lrw<C: BlockCipher>(
                keys: &Keys,
                key: &LrwKey,
                direction: Direction,
                units: Units<'_, C>,
                run: Pointers,
            ) {
                // SAFETY: the features are enabled here; the pointers are the caller's promise.
                unsafe { lrw::run::<$register, C>(keys, key, direction, units, run) }
            }
        }

        impl $crate::backend::wide::Instructions for $proof {
            fn expand(self, key: &[u8], keys: &mut $crate::backend::wide::Keys) {
                // SAFETY: `self` proves that the CPU has the features.
                unsafe { $module::expand_key(key, keys) }
            }

            fn ecb(
                self,
                keys: &$crate::backend::wide::Keys,
                direction: $crate::block::Direction,
                mut run: $crate::run::Run<'_>,
            ) {
                let pointers = $crate::backend::wide::modes::Pointers::of(&mut run);
                // SAFETY: `self` proves that the CPU has the features; the pointers are those of a run.
                unsafe { $module::ecb(keys, direction, pointers) }
            }

            fn xts<C: $crate::block::BlockCipher>(
                self,
                keys: &$crate::backend::wide::Keys,
                direction: $crate::block::Direction,
                tweak_keys: $crate::backend::wide::TweakKeys<'_>,
                units: $crate::tweak::Units<'_, C>,
                mut run: $crate::run::Run<'_>,
            ) {
                let pointers = $crate::backend::wide::modes::Pointers::of(&mut run);
                // SAFETY: `self` proves that the CPU has the features; the pointers are those of a run.
                unsafe { $module::xts(keys, direction, tweak_keys, units, pointers) }
            }

            fn cbc<C: $crate::block::BlockCipher>(
                self,
                keys: &$crate::backend::wide::Keys,
                direction: $crate::block::Direction,
                units: $crate::tweak::Units<'_, C>,
                mut run: $crate::run::Run<'_>,
            ) {
                let pointers = $crate::backend::wide::modes::Pointers::of(&mut run);
                // SAFETY: `self` proves that the CPU has the features; the pointers are those of a run.
                unsafe { $module::cbc(keys, direction, units, pointers) }
            }

            fn ctr<C: $crate::block::BlockCipher>(
                self,
                keys: &$crate::backend::wide::Keys,
                units: $crate::tweak::Units<'_, C>,
                mut run: $crate::run::Run<'_>,
            ) {
                let pointers = $crate::backend::wide::modes::Pointers::of(&mut run);
                // SAFETY: `self` proves that the CPU has the features; the pointers are those of a run.
                unsafe { $module::ctr(keys, units, pointers) }
            }

            fn lrw<C: $crate::block::BlockCipher>(
                self,
                keys: &$crate::backend::wide::Keys,
                key: &$crate::mode::lrw::LrwKey,
                direction: $crate::block::Direction,
                units: $crate::tweak::Units<'_, C>,
                mut run: $crate::run::Run<'_>,
                cipher: &C,
            ) {
                let whole = $crate::backend::wide::lrw::is_whole_batches::<$register>(units.blocks())
                    && run.blocks().is_multiple_of(units.blocks());
                if !whole {
                    return $crate::mode::lrw::run(cipher, key, direction, units, run);
                }
                let pointers = $crate::backend::wide::modes::Pointers::of(&mut run);
                // SAFETY: `self` proves that the CPU has the features; the pointers are those of a run of whole units.
                unsafe { $module::lrw(keys, key, direction, units, pointers) };
            }
        }
    };
}

pub(crate) use instructions;
