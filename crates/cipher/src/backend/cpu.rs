//! What an x86-64 CPU says of itself (Intel SDM, volume 1, chapter 13 and 15.2, and volume 2, CPUID), and which of its
//! registers the system saves.

use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
use core::sync::atomic::{AtomicU16, Ordering};

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
    /// VBMI and GFNI beside AVX-512.
    #[cfg_attr(
        not(any(feature = "camellia", feature = "twofish")),
        allow(dead_code, reason = "only ciphers with S-boxes of bytes ask")
    )]
    bytes: bool,
    /// VAES and VPCLMULQDQ.
    vaes: bool,
    /// The SHA extensions: SHA-1 and SHA-256.
    #[cfg_attr(not(feature = "sha2"), allow(dead_code, reason = "only SHA-2 asks"))]
    sha: bool,
}

impl Cpu {
    /// Asks the CPU which instructions it has, and which registers the system saves. Under Miri there is no CPU to ask.
    pub(super) fn ask() -> Self {
        let features = if cfg!(miri) { 0 } else { features() };
        let has = |feature: u16| features & feature == feature;
        let saved = if has(XSAVE) {
            // SAFETY: bit 27 of leaf 1, OSXSAVE, says that XGETBV may be used.
            unsafe { registers_saved() }
        } else {
            0
        };
        // XCR0: 1 xmm, 2 ymm; 5 opmasks, 6 the upper halves of zmm0 to 15, 7 zmm16 to 31.
        let ymm_saved = saved & 0b110 == 0b110;
        let zmm_saved = ymm_saved && saved & 0b1110_0000 == 0b1110_0000;
        Self {
            aes: has(AES),
            pclmul: has(PCLMUL),
            avx: ymm_saved && has(AVX),
            avx2: ymm_saved && has(AVX2),
            avx512: zmm_saved && has(AVX512),
            ifma: zmm_saved && has(AVX512 | IFMA),
            bytes: zmm_saved && has(AVX512 | BYTES),
            vaes: ymm_saved && has(VAES),
            sha: has(SHA),
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

    #[cfg(any(feature = "camellia", feature = "twofish"))]
    pub(super) fn has_avx512_bytes(self) -> bool {
        self.bytes
    }

    #[cfg(feature = "sha2")]
    pub(super) fn has_sha(self) -> bool {
        self.sha
    }

    pub(super) fn has_vaes_256(self) -> bool {
        self.has_aes_avx() && self.avx2 && self.vaes
    }

    pub(super) fn has_vaes_512(self) -> bool {
        self.has_vaes_256() && self.avx512
    }
}

const AES: u16 = 1;
const PCLMUL: u16 = 1 << 1;
const XSAVE: u16 = 1 << 2;
const AVX: u16 = 1 << 3;
const AVX2: u16 = 1 << 4;
const AVX512: u16 = 1 << 5;
const IFMA: u16 = 1 << 6;
const VAES: u16 = 1 << 7;
const SHA: u16 = 1 << 8;
const BYTES: u16 = 1 << 9;
/// Set in every answer, so that no answer is 0.
const ASKED: u16 = 1 << 15;

/// The features that CPUID reports. They never change, so it is asked once: under a hypervisor the instruction takes
/// microseconds. XCR0 is cheap to read, and read every time.
fn features() -> u16 {
    static ANSWER: AtomicU16 = AtomicU16::new(0);
    let known = ANSWER.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // Threads that come here together all find the same.
    let asked = ask_cpuid();
    ANSWER.store(asked, Ordering::Relaxed);
    asked
}

fn ask_cpuid() -> u16 {
    // Leaves 0 and 1 are there on every CPU with 64-bit mode.
    let basic = __cpuid(1).ecx;
    let extended = (__cpuid(0).eax >= 7).then(|| __cpuid_count(7, 0));
    let (extended_b, extended_c) = extended.map_or((0, 0), |leaf| (leaf.ebx, leaf.ecx));
    let questions: [(u16, u32, &[u32]); 10] = [
        (AES, basic, &[25]),
        (PCLMUL, basic, &[1]),
        (XSAVE, basic, &[27]),
        (AVX, basic, &[28]),
        (AVX2, extended_b, &[5]),
        (AVX512, extended_b, &[16, 17, 30, 31]),
        (IFMA, extended_b, &[21]),
        (VAES, extended_c, &[9, 10]),
        (SHA, extended_b, &[29]),
        (BYTES, extended_c, &[1, 8]),
    ];
    let found = questions.iter().filter(|(_, register, bits)| all(*register, bits));
    found.fold(ASKED, |features, (feature, ..)| features | feature)
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
