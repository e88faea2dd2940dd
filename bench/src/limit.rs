//! What nobody can beat: AES with a backend's instructions, its rounds alone, in registers, without a byte of memory; and
//! reading and writing memory with next to no work.

/// The names of those limits in tables.
pub const MEMCPY: &str = "limit: memcpy";
pub const XOR: &str = "limit: xor in place";

/// The name of the rounds that a backend of that name computes.
pub fn rounds_name(backend: &str) -> String {
    format!("limit: rounds alone, {backend}")
}

/// Bytes per second over 10^9, once, of `rounds` rounds by the instructions that a backend of that name uses; `None` for
/// others.
pub fn speed(backend: &str, rounds: u32) -> Option<f64> {
    #[cfg(target_arch = "x86_64")]
    return x86::speed(backend, rounds);
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (backend, rounds);
        None
    }
}

/// Changes every byte, and does nothing else.
pub fn xor(run: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has the instructions.
        return unsafe { x86::xor(run) };
    }
    run.iter_mut().for_each(|byte| *byte ^= 0x55);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;

    use crate::machine::thread_time;

    /// Batches of eight registers in a slice of some milliseconds.
    const BATCHES: u64 = 100_000;

    #[target_feature(enable = "avx2")]
    pub unsafe fn xor(run: &mut [u8]) {
        run.iter_mut().for_each(|byte| *byte ^= 0x55);
    }

    pub fn speed(backend: &str, rounds: u32) -> Option<f64> {
        match rounds {
            10 => timed::<10>(backend),
            14 => timed::<14>(backend),
            _ => None,
        }
    }

    fn timed<const ROUNDS: u32>(backend: &str) -> Option<f64> {
        // The detection of the backend of that name has asked for these already; asking again keeps this sound.
        let (rounds, bytes): (unsafe fn(u64), u64) = match backend {
            "vaes-512" if is_x86_feature_detected!("vaes") && is_x86_feature_detected!("avx512f") => {
                (zmm::<ROUNDS>, 64)
            }
            "vaes-256" if is_x86_feature_detected!("vaes") && is_x86_feature_detected!("avx2") => {
                (ymm::<ROUNDS>, 32)
            }
            "aes-ni" if is_x86_feature_detected!("aes") && is_x86_feature_detected!("avx") => {
                (xmm::<ROUNDS>, 16)
            }
            "aes-ni-sse" if is_x86_feature_detected!("aes") => (sse::<ROUNDS>, 16),
            _ => return None,
        };
        let begun = thread_time();
        // SAFETY: the CPU has the instructions.
        unsafe { rounds(BATCHES) };
        Some((BATCHES * 8 * bytes) as f64 / (thread_time() - begun) / 1e9)
    }

    /// A function that runs so many rounds over eight registers, again and again. Whatever is in them is encrypted.
    macro_rules! rounds {
        ($name:ident, $features:literal, $round:literal, $($register:literal)+) => {
            #[target_feature(enable = $features)]
            unsafe fn $name<const ROUNDS: u32>(batches: u64) {
                // SAFETY: the caller's CPU has the instructions; no memory and no stack is touched.
                unsafe {
                    asm!(
                        "2:",
                        ".rept {rounds}",
                        $(concat!($round, $register),)+
                        ".endr",
                        "dec {left}",
                        "jnz 2b",
                        left = inout(reg) batches => _, rounds = const ROUNDS,
                        out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                        out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                        options(nomem, nostack)
                    );
                }
            }
        };
    }

    rounds!(zmm, "avx512f,vaes", "vaesenc ", "zmm0, zmm0, zmm8" "zmm1, zmm1, zmm8" "zmm2, zmm2, zmm8"
        "zmm3, zmm3, zmm8" "zmm4, zmm4, zmm8" "zmm5, zmm5, zmm8" "zmm6, zmm6, zmm8" "zmm7, zmm7, zmm8");
    rounds!(ymm, "avx2,vaes", "vaesenc ", "ymm0, ymm0, ymm8" "ymm1, ymm1, ymm8" "ymm2, ymm2, ymm8"
        "ymm3, ymm3, ymm8" "ymm4, ymm4, ymm8" "ymm5, ymm5, ymm8" "ymm6, ymm6, ymm8" "ymm7, ymm7, ymm8");
    rounds!(xmm, "avx,aes", "vaesenc ", "xmm0, xmm0, xmm8" "xmm1, xmm1, xmm8" "xmm2, xmm2, xmm8"
        "xmm3, xmm3, xmm8" "xmm4, xmm4, xmm8" "xmm5, xmm5, xmm8" "xmm6, xmm6, xmm8" "xmm7, xmm7, xmm8");
    rounds!(sse, "aes", "aesenc ", "xmm0, xmm8" "xmm1, xmm8" "xmm2, xmm8" "xmm3, xmm8" "xmm4, xmm8" "xmm5, xmm8"
        "xmm6, xmm8" "xmm7, xmm8");
}
