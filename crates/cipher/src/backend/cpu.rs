//! What an x86-64 CPU says of itself (Intel SDM, volume 1, chapter 13 and 15.2, and volume 2, CPUID), and which of its
//! registers the system saves.

use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

/// Answers to the questions of the backends. A feature counts only if the system saves the registers that it uses.
#[derive(Clone, Copy)]
pub(super) struct Cpu {
    /// AES-NI on 128-bit registers, SSE-encoded.
    pub(super) aes: bool,
    /// PCLMULQDQ on 128-bit registers, SSE-encoded.
    pub(super) pclmul: bool,
    avx: bool,
    avx2: bool,
    /// AVX-512 Foundation with BW, DQ and VL.
    avx512: bool,
    /// IFMA beside that.
    ifma: bool,
    /// VAES and VPCLMULQDQ.
    vaes: bool,
}

impl Cpu {
    /// Asks the CPU. Miri has none: there nothing is but what every CPU has.
    pub(super) fn ask() -> Self {
        if cfg!(miri) {
            return Self {
                aes: false,
                pclmul: false,
                avx: false,
                avx2: false,
                avx512: false,
                ifma: false,
                vaes: false,
            };
        }
        // Leaves 0 and 1 are there on every CPU with 64-bit mode.
        let basic = __cpuid(1).ecx;
        let extended = (__cpuid(0).eax >= 7).then(|| __cpuid_count(7, 0));
        let (extended_b, extended_c) = extended.map_or((0, 0), |leaf| (leaf.ebx, leaf.ecx));
        let saved = if all(basic, &[27]) {
            // SAFETY: bit 27, OSXSAVE, says that XGETBV may be used.
            unsafe { registers_saved() }
        } else {
            0
        };
        // XCR0: 1 xmm, 2 ymm; 5 opmasks, 6 the upper halves of zmm0 to 15, 7 zmm16 to 31.
        let ymm_saved = saved & 0b110 == 0b110;
        let zmm_saved = ymm_saved && saved & 0b1110_0000 == 0b1110_0000;
        Self {
            aes: all(basic, &[25]),
            pclmul: all(basic, &[1]),
            avx: ymm_saved && all(basic, &[28]),
            avx2: ymm_saved && all(extended_b, &[5]),
            avx512: zmm_saved && all(extended_b, &[16, 17, 30, 31]),
            ifma: zmm_saved && all(extended_b, &[16, 17, 21, 30, 31]),
            vaes: ymm_saved && all(extended_c, &[9, 10]),
        }
    }

    pub(super) fn has_aes_avx(self) -> bool {
        self.aes && self.avx
    }

    pub(super) fn has_avx2(self) -> bool {
        self.avx2
    }

    pub(super) fn has_avx512(self) -> bool {
        self.avx512
    }

    pub(super) fn has_avx512_ifma(self) -> bool {
        self.ifma
    }

    pub(super) fn has_vaes_256(self) -> bool {
        self.has_aes_avx() && self.avx2 && self.vaes
    }

    pub(super) fn has_vaes_512(self) -> bool {
        self.has_vaes_256() && self.avx512
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
