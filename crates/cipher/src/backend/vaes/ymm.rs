//! Two cipher blocks in a 256-bit register: AVX2, VAES and VPCLMULQDQ.

use core::arch::asm;
use core::arch::x86_64::{
    __m256i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm_storeu_si128, _mm256_aesdec_epi128,
    _mm256_aesdeclast_epi128, _mm256_aesenc_epi128, _mm256_aesenclast_epi128, _mm256_broadcastsi128_si256,
    _mm256_bslli_epi128, _mm256_bsrli_epi128, _mm256_castsi256_si128, _mm256_clmulepi64_epi128,
    _mm256_loadu_si256, _mm256_permute2x128_si256, _mm256_set_epi64x, _mm256_setzero_si256,
    _mm256_sllv_epi64, _mm256_srlv_epi64, _mm256_storeu_si256, _mm256_sub_epi64, _mm256_xor_si256,
    _mm256_zextsi128_si256,
};

use super::{Lanes, REGISTERS};

/// x^128 modulo the field's polynomial, in the low half of each lane.
#[inline(always)]
unsafe fn polynomial() -> __m256i {
    // SAFETY: the caller has AVX2.
    unsafe { _mm256_set_epi64x(0, 0x87, 0, 0x87) }
}

// SAFETY (all of the blocks below): the caller has AVX2, VAES and VPCLMULQDQ and passes pointers as the trait asks.
impl Lanes for __m256i {
    const LANES: usize = 2;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: as above.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: 32 readable bytes, any alignment.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: 32 writable bytes, any alignment.
        unsafe { _mm256_storeu_si256(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const u8, count: usize) -> Self {
        // SAFETY: 16 readable bytes for each block that is counted, any alignment.
        unsafe {
            match count {
                0 => _mm256_setzero_si256(),
                1 => _mm256_zextsi128_si256(_mm_loadu_si128(from.cast())),
                _ => Self::load(from),
            }
        }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut u8, count: usize) {
        // SAFETY: 16 writable bytes for each block that is counted, any alignment.
        unsafe {
            match count {
                0 => {}
                1 => _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(self)),
                _ => self.store(to),
            }
        }
    }

    #[inline(always)]
    unsafe fn broadcast(from: *const u8) -> Self {
        // SAFETY: 16 readable bytes, any alignment.
        unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(from.cast())) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_xor_si256(self, other) }
    }

    #[inline(always)]
    unsafe fn xor3(self, second: Self, third: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_xor_si256(_mm256_xor_si256(self, second), third) }
    }

    #[inline(always)]
    unsafe fn times_x8(self) -> Self {
        // SAFETY: as above.
        unsafe {
            let out = _mm256_bsrli_epi128::<15>(self);
            let reduced = _mm256_clmulepi64_epi128::<0x00>(out, polynomial());
            _mm256_xor_si256(_mm256_bslli_epi128::<1>(self), reduced)
        }
    }

    #[inline(always)]
    unsafe fn times_powers(self, first: usize) -> Self {
        let first = first as i64;
        // SAFETY: as above. A shift by 64 gives zero, as the power 0 wants it.
        unsafe {
            let left = _mm256_set_epi64x(first + 1, first + 1, first, first);
            let right = _mm256_sub_epi64(_mm256_set_epi64x(64, 64, 64, 64), left);
            // What leaves the low half goes to the high one, what leaves the high one is reduced into the low one.
            let out = _mm256_srlv_epi64(self, right);
            let reduced = _mm256_clmulepi64_epi128::<0x01>(out, polynomial());
            _mm256_sllv_epi64(self, left).xor3(_mm256_bslli_epi128::<8>(out), reduced)
        }
    }

    #[inline(always)]
    unsafe fn behind(self, previous: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_permute2x128_si256::<0x21>(previous, self) }
    }

    #[inline(always)]
    unsafe fn transpose(tile: &mut [Self; 4]) {
        // SAFETY: as above.
        unsafe {
            let [first, second, ..] = *tile;
            tile[0] = _mm256_permute2x128_si256::<0x20>(first, second);
            tile[1] = _mm256_permute2x128_si256::<0x31>(first, second);
        }
    }

    #[inline(always)]
    unsafe fn encrypt_round(self, key: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_aesenc_epi128(self, key) }
    }

    #[inline(always)]
    unsafe fn encrypt_last(self, key: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_aesenclast_epi128(self, key) }
    }

    #[inline(always)]
    unsafe fn decrypt_round(self, key: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_aesdec_epi128(self, key) }
    }

    #[inline(always)]
    unsafe fn decrypt_last(self, key: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_aesdeclast_epi128(self, key) }
    }

    #[inline(always)]
    unsafe fn keep_together(registers: &mut [Self; REGISTERS]) {
        // SAFETY: as above.
        unsafe { keep_together(registers) }
    }

    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        // SAFETY: a prefetch never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
unsafe fn keep_together(registers: &mut [__m256i; REGISTERS]) {
    let (low, high) = registers.split_at_mut(4);
    // SAFETY: no instruction, no memory, no flags.
    unsafe {
        asm!("/* {} {} {} {} {} {} {} {} */",
            inout(ymm_reg) low[0], inout(ymm_reg) low[1], inout(ymm_reg) low[2], inout(ymm_reg) low[3],
            inout(ymm_reg) high[0], inout(ymm_reg) high[1], inout(ymm_reg) high[2], inout(ymm_reg) high[3],
            options(nomem, nostack, preserves_flags));
    }
}
