//! What an x86-64 CPU says of itself (Intel SDM, volume 1, chapters 13 and 15.2, and volume 2, CPUID), and which of its
//! registers the system saves. The CPU is asked once: under a hypervisor each
//! question takes microseconds.

use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
use core::sync::atomic::{AtomicU8, Ordering};

/// Answers to the questions of the backends. A feature counts only if the system saves the registers that it uses.
#[derive(Clone, Copy)]
pub(super) struct Cpu {
    /// The SHA extensions, and the SSSE3 and SSE4.1 that move words between their registers.
    pub(super) sha: bool,
    /// AVX-512 Foundation with VL: rotations and three-way logic on 128-bit registers.
    pub(super) avx512: bool,
    /// AVX.
    pub(super) avx: bool,
    /// AVX2.
    pub(super) avx2: bool,
    /// AVX-512 F, BW and VBMI, and GFNI: bytes looked up in registers, and their bits mixed.
    #[cfg(any(feature = "streebog", feature = "whirlpool"))]
    pub(super) bytes: bool,
}

impl Cpu {
    /// What the CPU has said, and what the system saves now. Under Miri there is no CPU to ask.
    pub(super) fn ask() -> Self {
        let features = if cfg!(miri) { 0 } else { features() };
        let has = |feature: u8| features & feature == feature;
        let saved = if has(XSAVE) {
            // SAFETY: bit 27 of leaf 1, OSXSAVE, says that XGETBV may be used.
            unsafe { registers_saved() }
        } else {
            0
        };
        // XCR0: 1 xmm, 2 ymm; 5 opmasks, 6 the upper halves of zmm0 to 15, 7 zmm16 to 31.
        let zmm_saved = saved & 0b1110_0110 == 0b1110_0110;
        let ymm_saved = saved & 0b110 == 0b110;
        Self {
            sha: has(SHA),
            avx: ymm_saved && has(AVX),
            avx2: ymm_saved && has(AVX2),
            avx512: zmm_saved && has(AVX512),
            #[cfg(any(feature = "streebog", feature = "whirlpool"))]
            bytes: zmm_saved && has(BYTES),
        }
    }
}

const SHA: u8 = 1;
const XSAVE: u8 = 1 << 1;
const AVX: u8 = 1 << 2;
const AVX512: u8 = 1 << 3;
const AVX2: u8 = 1 << 4;
const BYTES: u8 = 1 << 5;
/// The CPU was asked.
const KNOWN: u8 = 1 << 7;

/// What the CPU has. It is asked once; two threads that are the first get the same answer.
fn features() -> u8 {
    static FEATURES: AtomicU8 = AtomicU8::new(0);
    let known = FEATURES.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // Leaves 0 and 1 are there on every CPU with 64-bit mode.
    let basic = __cpuid(1).ecx;
    let (extended, bytes) = match __cpuid(0).eax {
        7.. => (__cpuid_count(7, 0).ebx, __cpuid_count(7, 0).ecx),
        _ => (0, 0),
    };
    let bit = |feature: u8, has: bool| if has { feature } else { 0 };
    let features = KNOWN
        | bit(SHA, all(basic, &[9, 19]) && all(extended, &[29]))
        | bit(XSAVE, all(basic, &[27]))
        | bit(AVX, all(basic, &[28]))
        | bit(AVX512, all(extended, &[16, 31]))
        | bit(AVX2, all(extended, &[5]))
        | bit(BYTES, all(extended, &[16, 30]) && all(bytes, &[1, 8]));
    FEATURES.store(features, Ordering::Relaxed);
    features
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
