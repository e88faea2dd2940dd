//! What an x86-64 CPU says of itself (Intel SDM, volume 1, chapters 13 and 15.2, and volume 2, CPUID), and which of its
//! registers the system saves. The CPU is asked once for each derivation.

use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

/// Answers to the questions of the backends. A feature counts only if the system saves the registers that it uses.
#[derive(Clone, Copy)]
pub(super) struct Cpu {
    /// The SHA extensions, and the SSSE3 and SSE4.1 that move words between their registers.
    pub(super) sha: bool,
    /// AVX-512 Foundation with VL: rotations and three-way logic on 128-bit registers.
    pub(super) avx512: bool,
    /// AVX.
    pub(super) avx: bool,
}

impl Cpu {
    /// Asks the CPU.
    pub(super) fn ask() -> Self {
        if cfg!(miri) {
            // An interpreter has no CPU.
            return Self { sha: false, avx: false, avx512: false };
        }
        // Leaves 0 and 1 are there on every CPU with 64-bit mode.
        let basic = __cpuid(1).ecx;
        let extended = if __cpuid(0).eax >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
        let saved = if all(basic, &[27]) {
            // SAFETY: bit 27, OSXSAVE, says that XGETBV may be used.
            unsafe { registers_saved() }
        } else {
            0
        };
        // XCR0: 1 xmm, 2 ymm; 5 opmasks, 6 the upper halves of zmm0 to 15, 7 zmm16 to 31.
        let zmm_saved = saved & 0b1110_0110 == 0b1110_0110;
        Self {
            sha: all(basic, &[9, 19]) && all(extended, &[29]),
            avx: saved & 0b110 == 0b110 && all(basic, &[28]),
            avx512: zmm_saved && all(extended, &[16, 31]),
        }
    }
}

/// Whether all of these bits are set.
fn all(register: u32, bits: &[u32]) -> bool {
    bits.iter().all(|bit| register >> bit & 1 == 1)
}

/// XCR0.
#[target_feature(enable = "xsave")]
unsafe fn registers_saved() -> u64 {
    // SAFETY: the caller knows that the instruction is there.
    unsafe { _xgetbv(0) }
}
