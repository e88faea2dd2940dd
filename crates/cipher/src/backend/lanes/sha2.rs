//! HMAC with SHA-256 and SHA-512 (FIPS 180-4, RFC 2104) over data units, a unit per lane. It is written once, for words of 32 and
//! of 64 bits.
//!
//! # Safety
//!
//! Every function here asks of its caller what [`Lanes`] asks.

use core::marker::PhantomData;

use super::{Lanes, PREFETCH, UNITS};
use crate::backend::register::prefetch;
use crate::sha2_pads::{K, Pads, Sha2};
use crate::tweak::Associated;

const ASSOCIATED: usize = size_of::<Associated>();

/// What SHA-2 needs of a register beside.
///
/// # Safety
///
/// As for [`Lanes`].
pub(crate) trait Turning: Lanes {
    /// Shifts 32-bit lanes down.
    unsafe fn down32(self, bits: u32) -> Self;
    /// Rotates 32-bit lanes down.
    unsafe fn turned32(self, bits: u32) -> Self;
    /// Shifts 64-bit lanes down.
    unsafe fn shifted64(self, bits: u32) -> Self;
    /// Rotates 64-bit lanes down.
    unsafe fn turned64(self, bits: u32) -> Self;

    #[inline(always)]
    unsafe fn xor3(self, b: Self, c: Self) -> Self {
        // SAFETY: what the trait asks for.
        unsafe { self.xor(b).xor(c) }
    }

    /// Bits of `f` where this has ones, of `g` elsewhere.
    #[inline(always)]
    unsafe fn choose(self, f: Self, g: Self) -> Self {
        // SAFETY: what the trait asks for.
        unsafe { self.and(f.xor(g)).xor(g) }
    }

    /// Bits that at least two of three have.
    #[inline(always)]
    unsafe fn majority(self, b: Self, c: Self) -> Self {
        // SAFETY: what the trait asks for.
        unsafe { self.and(b).or(self.or(b).and(c)) }
    }
}

/// A word of SHA-2 in each lane.
///
/// # Safety
///
/// As for [`Lanes`].
pub(super) trait Word: Copy {
    type Register: Turning;
    /// Bytes in it.
    const BYTES: usize;
    const LANES: usize;
    const ROUNDS: usize;
    /// By how many bits the functions of FIPS 180-4, 4.1.2 and 4.1.3, rotate; the last count of the small ones is a shift.
    const SUM0: [u32; 3];
    const SUM1: [u32; 3];
    const SIGMA0: [u32; 3];
    const SIGMA1: [u32; 3];

    /// The low bits of a number in all lanes.
    unsafe fn all(value: u64) -> Self::Register;
    /// A constant of [`K`], of which the short words have the high half.
    unsafe fn constant(value: u64) -> Self::Register;
    unsafe fn add(a: Self::Register, b: Self::Register) -> Self::Register;
    unsafe fn turned(a: Self::Register, bits: u32) -> Self::Register;
    unsafe fn down(a: Self::Register, bits: u32) -> Self::Register;
    /// The sixteen words of a block of each row, as numbers.
    unsafe fn message(rows: &[*const u8; UNITS]) -> [Self::Register; 16];
    /// Writes what one lane has to the bytes of each word.
    unsafe fn digest(state: &[Self::Register; 8], lane: usize, to: &mut [u8; 64]);
}

/// Words of 32 bits: SHA-256.
#[derive(Clone, Copy)]
pub(super) struct Short<V>(PhantomData<V>);

/// Words of 64 bits: SHA-512.
#[derive(Clone, Copy)]
pub(super) struct Long<V>(PhantomData<V>);

impl<V: Turning> Word for Short<V> {
    type Register = V;
    const BYTES: usize = 4;
    const LANES: usize = V::WORDS;
    const ROUNDS: usize = 64;
    const SUM0: [u32; 3] = [2, 13, 22];
    const SUM1: [u32; 3] = [6, 11, 25];
    const SIGMA0: [u32; 3] = [7, 18, 3];
    const SIGMA1: [u32; 3] = [17, 19, 10];

    #[inline(always)]
    unsafe fn all(value: u64) -> V {
        // SAFETY: what this module asks for.
        unsafe { V::splat32(value as u32) }
    }

    #[inline(always)]
    unsafe fn constant(value: u64) -> V {
        // SAFETY: what this module asks for.
        unsafe { V::splat32((value >> 32) as u32) }
    }

    #[inline(always)]
    unsafe fn add(a: V, b: V) -> V {
        // SAFETY: what this module asks for.
        unsafe { a.add32(b) }
    }

    #[inline(always)]
    unsafe fn turned(a: V, bits: u32) -> V {
        // SAFETY: what this module asks for.
        unsafe { a.turned32(bits) }
    }

    #[inline(always)]
    unsafe fn down(a: V, bits: u32) -> V {
        // SAFETY: what this module asks for.
        unsafe { a.down32(bits) }
    }

    #[inline(always)]
    unsafe fn message(rows: &[*const u8; UNITS]) -> [V; 16] {
        let register = 4 * V::WORDS;
        // SAFETY: what this module asks for; a row has 64 bytes, which are `parts` registers, and so has each of the blocks.
        unsafe {
            let parts = 16 / V::WORDS;
            let mut gathered = [V::zero(); 16];
            for part in 0..parts {
                for lane in 0..V::WORDS {
                    gathered[part * V::WORDS + lane] = V::load(rows[lane].add(part * register));
                }
            }
            // Block i has word i of each part, and of that a word of each row.
            let mut blocks = [[0u8; 64]; 16];
            V::store_blocks(&gathered, blocks.as_mut_ptr().cast());
            for part in 0..parts {
                for word in 0..V::WORDS {
                    let words = V::load(blocks[word].as_ptr().add(part * register));
                    gathered[part * V::WORDS + word] = swapped32(words);
                }
            }
            gathered
        }
    }

    #[inline(always)]
    unsafe fn digest(state: &[V; 8], lane: usize, to: &mut [u8; 64]) {
        for (word, to) in state.iter().zip(to.as_chunks_mut::<4>().0) {
            let mut lanes = [0u32; 16];
            // SAFETY: what this module asks for; 16 words are at least a register.
            unsafe { word.store(lanes.as_mut_ptr().cast()) };
            *to = lanes[lane % 16].to_be_bytes();
        }
    }
}

impl<V: Turning> Word for Long<V> {
    type Register = V;
    const BYTES: usize = 8;
    const LANES: usize = V::HALF;
    const ROUNDS: usize = 80;
    const SUM0: [u32; 3] = [28, 34, 39];
    const SUM1: [u32; 3] = [14, 18, 41];
    const SIGMA0: [u32; 3] = [1, 8, 7];
    const SIGMA1: [u32; 3] = [19, 61, 6];

    #[inline(always)]
    unsafe fn all(value: u64) -> V {
        // SAFETY: what this module asks for.
        unsafe { V::splat64(value) }
    }

    #[inline(always)]
    unsafe fn constant(value: u64) -> V {
        // SAFETY: what this module asks for.
        unsafe { V::splat64(value) }
    }

    #[inline(always)]
    unsafe fn add(a: V, b: V) -> V {
        // SAFETY: what this module asks for.
        unsafe { a.add64(b) }
    }

    #[inline(always)]
    unsafe fn turned(a: V, bits: u32) -> V {
        // SAFETY: what this module asks for.
        unsafe { a.turned64(bits) }
    }

    #[inline(always)]
    unsafe fn down(a: V, bits: u32) -> V {
        // SAFETY: what this module asks for.
        unsafe { a.shifted64(bits) }
    }

    #[inline(always)]
    unsafe fn message(rows: &[*const u8; UNITS]) -> [V; 16] {
        // SAFETY: what this module asks for; a row has 128 bytes, which are `parts` registers.
        unsafe {
            let parts = 16 / V::HALF;
            let mut words = [V::zero(); 16];
            for part in 0..parts {
                let mut turned = [V::zero(); 8];
                for lane in 0..V::HALF {
                    turned[lane] = V::load(rows[lane].add(part * 8 * V::HALF));
                }
                V::transpose64(&mut turned);
                for word in 0..V::HALF {
                    words[part * V::HALF + word] = swapped32(turned[word]).turned64(32);
                }
            }
            words
        }
    }

    #[inline(always)]
    unsafe fn digest(state: &[V; 8], lane: usize, to: &mut [u8; 64]) {
        for (word, to) in state.iter().zip(to.as_chunks_mut::<8>().0) {
            let mut lanes = [0u64; 8];
            // SAFETY: what this module asks for; 8 words are at least a register.
            unsafe { word.store(lanes.as_mut_ptr().cast()) };
            *to = lanes[lane % 8].to_be_bytes();
        }
    }
}

/// The bytes of each 32-bit lane in the other order.
#[inline(always)]
unsafe fn swapped32<V: Turning>(words: V) -> V {
    // SAFETY: what this module asks for.
    unsafe {
        let even = words.turned32(8).and(V::splat32(0xff00_ff00));
        let odd = words.turned32(24).and(V::splat32(0x00ff_00ff));
        even.or(odd)
    }
}

/// Whole data units of one length: a multiple of 128 bytes.
#[derive(Clone, Copy)]
pub(crate) struct Messages<'a> {
    pub(crate) data: &'a [u8],
    pub(crate) unit: usize,
    /// What is authenticated before each unit; there are as many as units.
    pub(crate) associated: &'a [Associated],
}

/// The MAC of each message, from the start of its tag on.
#[inline(always)]
pub(super) unsafe fn hmac<W: Word>(pads: &Pads, messages: Messages<'_>, tags: &mut [[u8; 64]]) {
    let block = 16 * W::BYTES;
    let Messages { data, unit, associated } = messages;
    assert!(unit.is_multiple_of(block) && data.len() == unit * tags.len() && associated.len() == tags.len());
    for (number, tags) in tags.chunks_mut(W::LANES).enumerate() {
        // Lanes without a unit repeat the last one.
        let group: [usize; UNITS] = core::array::from_fn(|lane| number * W::LANES + lane.min(tags.len() - 1));
        let row = |lane: usize, at: usize| data[group[lane] * unit + at..].as_ptr();
        // SAFETY: what this module asks for; every row has a block, as it ends before its unit does, or is one of the edges.
        unsafe {
            // The first block begins with what is authenticated before the unit, and the last one ends with the padding.
            let mut first = [[0; 128]; UNITS];
            let mut last = [[0; 128]; UNITS];
            let end = unit - ASSOCIATED;
            let bits = 8 * (block + ASSOCIATED + unit) as u64;
            for (lane, (first, last)) in first.iter_mut().zip(&mut last).enumerate().take(W::LANES) {
                let data = &data[group[lane] * unit..][..unit];
                first[..ASSOCIATED].copy_from_slice(&associated[group[lane]]);
                first[ASSOCIATED..block].copy_from_slice(&data[..block - ASSOCIATED]);
                last[..ASSOCIATED].copy_from_slice(&data[end..]);
                last[ASSOCIATED] = 0x80;
                last[block - 8..block].copy_from_slice(&bits.to_be_bytes());
            }
            let mut state = start::<W>(&pads.inner);
            for number in 0..=unit / block {
                let rows: [*const u8; UNITS] = if number == 0 {
                    first.each_ref().map(|row| row.as_ptr())
                } else if number == unit / block {
                    last.each_ref().map(|row| row.as_ptr())
                } else {
                    core::array::from_fn(|lane| row(lane, number * block - ASSOCIATED))
                };
                for row in rows.iter().take(W::LANES) {
                    prefetch(row.wrapping_add(PREFETCH));
                }
                compress::<W>(&mut state, W::message(&rows));
            }
            // The digest is the message of the outer hash, and the rest of a block pads it.
            let mut message = [W::all(0); 16];
            message[..8].copy_from_slice(&state);
            message[8] = W::all(1 << (8 * W::BYTES - 1));
            message[15] = W::all(8 * (block + 8 * W::BYTES) as u64);
            let mut state = start::<W>(&pads.outer);
            compress::<W>(&mut state, message);
            for (lane, tag) in tags.iter_mut().enumerate() {
                W::digest(&state, lane, tag);
            }
        }
    }
}

#[inline(always)]
unsafe fn start<W: Word>(words: &[u64; 8]) -> [W::Register; 8] {
    // SAFETY: what this module asks for.
    words.map(|word| unsafe { W::all(word) })
}

/// One round (FIPS 180-4, 6.2.2, step 3).
macro_rules! round {
    ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $k:expr, $w:expr) => {
        let t = W::add(W::add($h, W::add($w, W::constant($k))), $e.choose($f, $g));
        let t = W::add(t, sum::<W>($e, W::SUM1));
        $d = W::add($d, t);
        $h = W::add(t, W::add(sum::<W>($a, W::SUM0), $a.majority($b, $c)));
    };
}

macro_rules! eight_rounds {
    ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $k:expr, $w:ident, $from:literal) => {
        round!($a $b $c $d $e $f $g $h, $k[$from], $w[$from]);
        round!($h $a $b $c $d $e $f $g, $k[$from + 1], $w[$from + 1]);
        round!($g $h $a $b $c $d $e $f, $k[$from + 2], $w[$from + 2]);
        round!($f $g $h $a $b $c $d $e, $k[$from + 3], $w[$from + 3]);
        round!($e $f $g $h $a $b $c $d, $k[$from + 4], $w[$from + 4]);
        round!($d $e $f $g $h $a $b $c, $k[$from + 5], $w[$from + 5]);
        round!($c $d $e $f $g $h $a $b, $k[$from + 6], $w[$from + 6]);
        round!($b $c $d $e $f $g $h $a, $k[$from + 7], $w[$from + 7]);
    };
}

/// Words of the message, each in the place of the one that is sixteen older (step 1).
macro_rules! next {
    ($w:ident, $($i:literal)*) => {$(
        $w[$i] = W::add(
            W::add($w[$i], $w[($i + 9) % 16]),
            W::add(sigma::<W>($w[($i + 1) % 16], W::SIGMA0), sigma::<W>($w[($i + 14) % 16], W::SIGMA1)),
        );
    )*};
}

/// Replaces each state by what the compression function makes of it and a block.
#[inline(always)]
unsafe fn compress<W: Word>(state: &mut [W::Register; 8], message: [W::Register; 16]) {
    let mut w = message;
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    let (constants, _) = K.as_chunks::<16>();
    // SAFETY: what this module asks for.
    unsafe {
        let mut left = W::ROUNDS / 16;
        for k in constants.iter().take(W::ROUNDS / 16) {
            eight_rounds!(a b c d e f g h, k, w, 0);
            eight_rounds!(a b c d e f g h, k, w, 8);
            left -= 1;
            if left > 0 {
                next!(w, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
            }
        }
        for (state, word) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *state = W::add(*state, word);
        }
    }
}

#[inline(always)]
unsafe fn sum<W: Word>(x: W::Register, [a, b, c]: [u32; 3]) -> W::Register {
    // SAFETY: what this module asks for.
    unsafe { W::turned(x, a).xor3(W::turned(x, b), W::turned(x, c)) }
}

#[inline(always)]
unsafe fn sigma<W: Word>(x: W::Register, [a, b, c]: [u32; 3]) -> W::Register {
    // SAFETY: what this module asks for.
    unsafe { W::turned(x, a).xor3(W::turned(x, b), W::down(x, c)) }
}

/// Vector instructions that have SHA-2. A value is a proof, as in [`super::VectorInstructions`].
pub(crate) trait ShaInstructions: Copy {
    /// The MAC of each message, from the start of its tag on.
    fn hmac(self, sha: Sha2, pads: &Pads, messages: Messages<'_>, tags: &mut [[u8; 64]]);
}

/// Implements [`ShaInstructions`] for a proof, with functions in `$module` that enable `$features`.
macro_rules! sha_instructions {
    ($proof:ty, $register:ty, $module:ident, $features:literal) => {
        mod $module {
            use $crate::backend::lanes::sha2::{Long, Messages, Short, hmac};
            use $crate::sha2_pads::Pads;

            #[target_feature(enable = $features)]
            pub(super) unsafe fn sha256(pads: &Pads, messages: Messages<'_>, tags: &mut [[u8; 64]]) {
                // SAFETY: the features are enabled here.
                unsafe { hmac::<Short<$register>>(pads, messages, tags) }
            }

            #[target_feature(enable = $features)]
            pub(super) unsafe fn sha512(pads: &Pads, messages: Messages<'_>, tags: &mut [[u8; 64]]) {
                // SAFETY: the features are enabled here.
                unsafe { hmac::<Long<$register>>(pads, messages, tags) }
            }
        }

        impl $crate::backend::lanes::sha2::ShaInstructions for $proof {
            fn hmac(
                self,
                sha: $crate::sha2_pads::Sha2,
                pads: &$crate::sha2_pads::Pads,
                messages: $crate::backend::lanes::sha2::Messages<'_>,
                tags: &mut [[u8; 64]],
            ) {
                match sha {
                    // SAFETY: `self` proves that the CPU has the features.
                    $crate::sha2_pads::Sha2::Sha256 => unsafe { $module::sha256(pads, messages, tags) },
                    // SAFETY: `self` proves that the CPU has the features.
                    $crate::sha2_pads::Sha2::Sha512 => unsafe { $module::sha512(pads, messages, tags) },
                }
            }
        }
    };
}

pub(super) use sha_instructions;
