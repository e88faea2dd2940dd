//! What every use of a vector register has in common: cipher blocks side by side, or numbers in lanes.

#[cfg(target_arch = "aarch64")]
use core::arch::aarch64::{
    uint8x16_t, uint32x4_t, vaddq_u64, vandq_u8, vdupq_n_u8, veorq_u8, vld1q_u8, vorrq_u8,
    vreinterpretq_u8_u32, vreinterpretq_u8_u64, vreinterpretq_u32_u8, vreinterpretq_u64_u8, vst1q_u8,
};
use core::arch::asm;
#[cfg(target_arch = "x86_64")]
use core::arch::x86_64::{
    __m128i, __m256i, __m512i, _MM_HINT_T0, _mm_add_epi64, _mm_and_si128, _mm_or_si128, _mm_prefetch,
    _mm_setzero_si128, _mm_xor_si128, _mm256_add_epi64, _mm256_and_si256, _mm256_or_si256,
    _mm256_setzero_si256, _mm256_xor_si256, _mm512_add_epi64, _mm512_and_si512, _mm512_or_si512,
    _mm512_setzero_si512, _mm512_xor_si512,
};

/// A vector register.
///
/// # Safety
///
/// Every method may be called only where the CPU has registers of that width, inside a function that enables them.
/// Pointers are valid for a register, with any alignment.
pub(crate) trait Register: Copy {
    unsafe fn zero() -> Self;
    unsafe fn load(from: *const u8) -> Self;
    unsafe fn store(self, to: *mut u8);
    unsafe fn xor(self, other: Self) -> Self;
    unsafe fn and(self, other: Self) -> Self;
    unsafe fn or(self, other: Self) -> Self;
    /// Sums of 64-bit lanes.
    unsafe fn add64(self, other: Self) -> Self;
    /// Emits nothing, but is computed here and not later. The compiler would otherwise move to the end what is done between
    /// rounds of AES and used after them.
    #[inline(always)]
    unsafe fn kept(self) -> Self {
        self
    }
    /// Emits nothing, but ends a round of AES for all registers in one place. The compiler would otherwise save registers
    /// by taking some of them through all rounds before the others, which leaves the AES unit idle.
    #[cfg(target_arch = "x86_64")]
    unsafe fn keep_together(registers: &mut [Self; 8]);
}

/// Asks for the cache line at an address, which need not be mapped.
#[inline(always)]
pub(crate) fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, and SSE is part of x86-64.
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch never faults and changes nothing but caches.
    unsafe {
        asm!("prfm pldl1keep, [{at}]", at = in(reg) at, options(nostack, readonly, preserves_flags));
    }
}

/// A register in memory, at any address.
///
/// It replaces the intrinsics that load and store. With debug assertions, those check that register and memory do not
/// overlap, and keep the register in memory for it. The crate would take two thirds longer to compile.
#[cfg(target_arch = "x86_64")]
#[repr(C, packed)]
struct Unaligned<R>(R);

/// A register of x86-64, with the features that it needs.
#[cfg(target_arch = "x86_64")]
macro_rules! register {
    ($register:ty, $class:ident, $features:literal, $zero:ident $xor:ident $and:ident $or:ident $add64:ident) => {
        impl Register for $register {
            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: the caller has the features of the register.
                unsafe { $zero() }
            }

            #[inline(always)]
            unsafe fn load(from: *const u8) -> Self {
                // SAFETY: the caller has the features of the register and passes a pointer to as many bytes.
                unsafe { (*from.cast::<Unaligned<Self>>()).0 }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut u8) {
                // SAFETY: the caller has the features of the register and passes a pointer to as many bytes.
                unsafe { (*to.cast::<Unaligned<Self>>()).0 = self }
            }

            #[inline(always)]
            unsafe fn xor(self, other: Self) -> Self {
                // SAFETY: the caller has the features of the register.
                unsafe { $xor(self, other) }
            }

            #[inline(always)]
            unsafe fn and(self, other: Self) -> Self {
                // SAFETY: the caller has the features of the register.
                unsafe { $and(self, other) }
            }

            #[inline(always)]
            unsafe fn or(self, other: Self) -> Self {
                // SAFETY: the caller has the features of the register.
                unsafe { $or(self, other) }
            }

            #[inline(always)]
            unsafe fn add64(self, other: Self) -> Self {
                // SAFETY: the caller has the features of the register.
                unsafe { $add64(self, other) }
            }

            #[inline(always)]
            unsafe fn kept(self) -> Self {
                #[inline]
                #[target_feature(enable = $features)]
                unsafe fn keep(mut register: $register) -> $register {
                    // SAFETY: no instruction, no memory, no flags.
                    unsafe {
                        asm!("/* {} */", inout($class) register, options(nomem, nostack, preserves_flags));
                    }
                    register
                }
                // SAFETY: the caller has the features of the register.
                unsafe { keep(self) }
            }

            #[inline(always)]
            unsafe fn keep_together(registers: &mut [Self; 8]) {
                #[inline]
                #[target_feature(enable = $features)]
                unsafe fn keep([a, b, c, d, e, f, g, h]: &mut [$register; 8]) {
                    // SAFETY: no instruction, no memory, no flags.
                    unsafe {
                        asm!(
                            "/* {} {} {} {} {} {} {} {} */",
                            inout($class) * a,
                            inout($class) * b,
                            inout($class) * c,
                            inout($class) * d,
                            inout($class) * e,
                            inout($class) * f,
                            inout($class) * g,
                            inout($class) * h,
                            options(nomem, nostack, preserves_flags)
                        );
                    }
                }
                // SAFETY: the caller has the features of the register.
                unsafe { keep(registers) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
register!(__m128i, xmm_reg, "sse2", _mm_setzero_si128 _mm_xor_si128 _mm_and_si128 _mm_or_si128
    _mm_add_epi64);
#[cfg(target_arch = "x86_64")]
register!(__m256i, ymm_reg, "avx2", _mm256_setzero_si256 _mm256_xor_si256 _mm256_and_si256
    _mm256_or_si256 _mm256_add_epi64);
#[cfg(target_arch = "x86_64")]
register!(__m512i, zmm_reg, "avx512f", _mm512_setzero_si512 _mm512_xor_si512 _mm512_and_si512
    _mm512_or_si512 _mm512_add_epi64);

/// A register of aarch64, by way of its bytes.
#[cfg(target_arch = "aarch64")]
macro_rules! register {
    ($register:ty, $to_bytes:expr, $of_bytes:expr) => {
        impl Register for $register {
            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: the caller has Advanced SIMD.
                unsafe { $of_bytes(vdupq_n_u8(0)) }
            }

            #[inline(always)]
            unsafe fn load(from: *const u8) -> Self {
                // SAFETY: the caller has Advanced SIMD and passes a pointer to as many bytes.
                unsafe { $of_bytes(vld1q_u8(from)) }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut u8) {
                // SAFETY: the caller has Advanced SIMD and passes a pointer to as many bytes.
                unsafe { vst1q_u8(to, $to_bytes(self)) }
            }

            #[inline(always)]
            unsafe fn xor(self, other: Self) -> Self {
                // SAFETY: the caller has Advanced SIMD.
                unsafe { $of_bytes(veorq_u8($to_bytes(self), $to_bytes(other))) }
            }

            #[inline(always)]
            unsafe fn and(self, other: Self) -> Self {
                // SAFETY: the caller has Advanced SIMD.
                unsafe { $of_bytes(vandq_u8($to_bytes(self), $to_bytes(other))) }
            }

            #[inline(always)]
            unsafe fn or(self, other: Self) -> Self {
                // SAFETY: the caller has Advanced SIMD.
                unsafe { $of_bytes(vorrq_u8($to_bytes(self), $to_bytes(other))) }
            }

            #[inline(always)]
            unsafe fn add64(self, other: Self) -> Self {
                // SAFETY: the caller has Advanced SIMD.
                unsafe {
                    let (a, b) =
                        (vreinterpretq_u64_u8($to_bytes(self)), vreinterpretq_u64_u8($to_bytes(other)));
                    $of_bytes(vreinterpretq_u8_u64(vaddq_u64(a, b)))
                }
            }
        }
    };
}

#[cfg(target_arch = "aarch64")]
register!(uint8x16_t, core::convert::identity, core::convert::identity);
#[cfg(target_arch = "aarch64")]
register!(uint32x4_t, vreinterpretq_u8_u32, vreinterpretq_u32_u8);
