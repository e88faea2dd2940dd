//! The masks of XTS and XEX for ciphers that take many blocks at once: tweaks that come of each other by doublings, and their exclusive or with blocks, four
//! in a 512-bit register.
#![allow(clippy::needless_range_loop, reason = "constant bounds over several arrays at once, to be unrolled")]

use core::arch::x86_64::{_mm_loadu_si128, _mm512_broadcast_i32x4};

use super::cpu::Cpu;
use super::powers::{first_four, four_further};
use super::register::Register;
use crate::block::{Block, xor_all};
use crate::gf128;

/// Proof that the CPU has these parts of AVX-512, and that the system saves the registers.
#[derive(Clone, Copy)]
pub(crate) struct Masks(());

/// Blocks whose tweaks are made at once.
const AT_ONCE: usize = 16;

impl Masks {
    /// Asks the CPU.
    pub(super) fn detect() -> Option<Self> {
        Cpu::ask().has_avx512().then_some(Self(()))
    }
}

/// Writes `first` and what comes of it by doubling it again and again, and returns the last one.
pub(super) fn doublings(proof: Option<Masks>, first: u128, to: &mut [Block]) -> u128 {
    match proof {
        // SAFETY: `Masks` proves that the CPU has the features.
        Some(Masks(())) => unsafe { wide_doublings(first, to) },
        None => gf128::doublings(first, to),
    }
}

/// Xors `masks` to as many blocks.
pub(super) fn mask(proof: Option<Masks>, blocks: &mut [Block], masks: &[Block]) {
    match proof {
        // SAFETY: `Masks` proves that the CPU has the features.
        Some(Masks(())) => unsafe { wide_mask(blocks, masks) },
        None => xor_all(blocks, masks),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn wide_doublings(first: u128, to: &mut [Block]) -> u128 {
    let (batches, rest) = to.as_chunks_mut::<AT_ONCE>();
    let mut last = first;
    let mut powers = None;
    for batch in batches {
        let at: *mut u8 = batch.as_mut_ptr().cast();
        // SAFETY: the features are enabled here; four registers are the batch.
        unsafe {
            let next = match &powers {
                None => first_four(_mm512_broadcast_i32x4(_mm_loadu_si128((&raw const first).cast()))),
                Some(before) => four_further(before),
            };
            for i in 0..4 {
                next[i].store(at.add(64 * i));
            }
            powers = Some(next);
        }
        last = u128::from_le_bytes(batch[AT_ONCE - 1]);
    }
    if rest.is_empty() {
        return last;
    }
    let next = if powers.is_some() { gf128::double(last) } else { first };
    gf128::doublings(next, rest)
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn wide_mask(blocks: &mut [Block], masks: &[Block]) {
    // Inlined here, it is compiled for four blocks in a register.
    xor_all(blocks, masks);
}
