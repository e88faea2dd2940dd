//! VAES on x86-64 (Intel SDM, volume 2, AESENC and relatives in their VEX.256 and EVEX.512 forms): two or four cipher
//! blocks per register, eight registers in flight, written once over a small trait.
//!
//! What AES-NI's modes do block by block is done here by batches of eight registers, 256 or 512 bytes. Data units of
//! whole batches (512 and 4096 bytes are) run without a tail, and the XTS tweaks of the next batch, whose unit may be the
//! next one, are made between the rounds of this one. Any other unit, and the end of a run, goes through masks that are
//! prepared in memory, again across the borders of units. CBC encrypts 16 or 32 units side by side.
//!
//! On eight 512-bit registers XTS keeps data and tweaks of this batch and of the next one without a spill; what is read
//! from the stack there is round keys. The 112 rounds of a batch of AES-256 take as many cycles at least. On a Zen 4 the
//! whole takes 119 in units of 4096 bytes and 127 in units of 512, each of which begins with the encryption of an IV.
//!
//! Constant time is checked by valgrind for other backends, but valgrind has no VAES. Of these the generated code was read:
//! no vector becomes a condition, a mask or an address, and what passes through general registers (words of the key
//! schedule, IVs, tweaks of odd units) is only moved, shifted, masked and combined.

mod batches;
mod cbc;
mod modes;
mod xts;
mod ymm;
mod zmm;

use core::arch::x86_64::{__m256i, __m512i};

use super::aesni::{inverse_mix, sub_word};
use super::cpu::Cpu;
use super::rounds::Steps;
use super::wide::instructions;
use crate::block::Block;

/// Proof that the CPU has AES-NI, AVX2, VAES and VPCLMULQDQ, and that the system saves AVX registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vaes256(());

/// Proof of what [`Vaes256`] proves and of AVX-512 F, BW, DQ and VL, and that the system saves AVX-512 registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vaes512(());

impl Vaes256 {
    /// Asks the CPU.
    pub(super) fn detect() -> Option<Self> {
        Cpu::ask().has_vaes_256().then_some(Self(()))
    }
}

impl Vaes512 {
    /// Asks the CPU.
    pub(super) fn detect() -> Option<Self> {
        Cpu::ask().has_vaes_512().then_some(Self(()))
    }
}

instructions!(Vaes256, ymm256, "aes,avx2,vaes,vpclmulqdq", modes, __m256i);
instructions!(Vaes512, zmm512, "aes,avx2,avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq", modes, __m512i);

/// Registers in flight: enough to hide the latency of a round, few enough to leave room for the tweaks.
const REGISTERS: usize = 8;

/// Blocks that eight registers hold at most.
const MOST: usize = 32;

/// Two or four cipher blocks side by side in one register, as XTS and CBC want them.
///
/// # Safety
///
/// As for [`Steps`].
pub(super) trait Lanes: Steps {
    /// Blocks in eight registers: one batch.
    const BATCH: usize = REGISTERS * Self::LANES;

    /// x^(4 · `LANES`) times each lane as XTS reads it: the tweaks of as many blocks further on.
    ///
    /// Carry-less multiplication takes the place of a round of AES on AMD's CPUs and a shift does so on Intel's, so that
    /// there should be few of either.
    unsafe fn four_further(four: &[Self; 4]) -> [Self; 4];
    /// Powers of x times lanes that are all the same, as XTS reads them: lane l of register i times x^(i · `LANES` + l).
    unsafe fn first_four(start: Self) -> [Self; 4];
    /// The last lane of `previous`, then all of these but the last.
    unsafe fn behind(self, previous: Self) -> Self;
    /// Turns the first [`LANES`](Self::LANES) registers: lane i of register j becomes lane j of register i.
    unsafe fn transpose(tile: &mut [Self; 4]);
}

/// A batch of blocks in memory: IVs, tweaks or masks.
#[repr(C, align(64))]
struct Blocks([Block; MOST]);

impl Blocks {
    const fn zeroed() -> Self {
        Self([[0; 16]; MOST])
    }

    /// The address of block number `at`.
    #[inline(always)]
    fn at(&self, at: usize) -> *const u8 {
        self.0.as_ptr().wrapping_add(at).cast()
    }
}
