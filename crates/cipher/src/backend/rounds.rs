//! AES round by round on x86-64 (Intel SDM, volume 2, AESENC and relatives), on one block in a register (AES-NI), on two or
//! on four (VAES).
#![allow(clippy::needless_range_loop, reason = "constant bounds over several arrays at once, to be unrolled")]

use core::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_aesdec_si128, _mm_aesdeclast_si128, _mm_aesenc_si128,
    _mm_aesenclast_si128, _mm_or_si128, _mm_shuffle_epi32, _mm_shufflehi_epi16, _mm_shufflelo_epi16,
    _mm_slli_epi16, _mm_srai_epi32, _mm_srli_epi16, _mm256_aesdec_epi128, _mm256_aesdeclast_epi128,
    _mm256_aesenc_epi128, _mm256_aesenclast_epi128, _mm256_broadcastsi128_si256, _mm256_castsi256_si128,
    _mm256_shuffle_epi8, _mm256_shuffle_epi32, _mm256_srai_epi32, _mm256_zextsi128_si256,
    _mm512_aesdec_epi128, _mm512_aesdeclast_epi128, _mm512_aesenc_epi128, _mm512_aesenclast_epi128,
    _mm512_broadcast_i32x4, _mm512_mask_storeu_epi64, _mm512_maskz_loadu_epi64, _mm512_shuffle_epi8,
    _mm512_shuffle_epi32, _mm512_srai_epi32, _mm512_ternarylogic_epi64,
};

use super::register::Register;
use super::schedule::Schedule;
use super::wide::{Meanwhile, Vector};

/// The steps of AES on each block of a register.
///
/// # Safety
///
/// As for [`Vector`].
pub(crate) trait Steps: Vector {
    unsafe fn xor3(self, second: Self, third: Self) -> Self;
    unsafe fn encrypt_round(self, key: Self) -> Self;
    unsafe fn encrypt_last(self, key: Self) -> Self;
    unsafe fn decrypt_round(self, key: Self) -> Self;
    unsafe fn decrypt_last(self, key: Self) -> Self;
}

/// AES or its inverse of each block xor `before`, then xor `after`.
#[inline(always)]
pub(crate) unsafe fn rounds<V: Steps, M: Meanwhile, const R: usize, const ENCRYPT: bool, const W: usize>(
    schedule: &Schedule,
    blocks: &mut [V; W],
    before: &[V; W],
    after: &[V; W],
    meanwhile: &mut M,
) {
    // SAFETY: the caller has the CPU features, and the schedule has R + 1 keys.
    unsafe {
        let first = V::broadcast(schedule.0[0].as_ptr());
        for i in 0..W {
            blocks[i] = blocks[i].xor3(before[i], first);
        }
        // A loop with so much in it would stay one, and keep in memory what `meanwhile` indexes by the round.
        macro_rules! round {
            ($($round:literal)+) => {
                $(one_round::<V, M, ENCRYPT, W>(schedule, blocks, $round, meanwhile);)+
            };
        }
        round!(1 2 3 4 5 6 7 8 9);
        if R > 10 {
            round!(10 11);
        }
        if R > 12 {
            round!(12 13);
        }
        let last = V::broadcast(schedule.0[R].as_ptr());
        for i in 0..W {
            let key = after[i].xor(last);
            blocks[i] = if ENCRYPT { blocks[i].encrypt_last(key) } else { blocks[i].decrypt_last(key) };
        }
    }
}

#[inline(always)]
unsafe fn one_round<V: Steps, M: Meanwhile, const ENCRYPT: bool, const W: usize>(
    schedule: &Schedule,
    blocks: &mut [V; W],
    round: usize,
    meanwhile: &mut M,
) {
    // SAFETY: the caller has the CPU features, and the schedule has R + 1 keys.
    unsafe {
        let key = V::broadcast(schedule.0[round].as_ptr());
        for block in blocks.iter_mut() {
            *block = if ENCRYPT { block.encrypt_round(key) } else { block.decrypt_round(key) };
        }
        meanwhile.step(round);
        if let Ok(all) = blocks.as_mut_slice().try_into() {
            V::keep_together(all);
        }
    }
}

/// Implements [`Steps`], and [`Vector`] but for `$load_and_store`, which depends on the width.
macro_rules! steps {
    ($register:ty, $xor3:ident, $encrypt:ident $encrypt_last:ident $decrypt:ident $decrypt_last:ident
        $signs:ident $shuffle:ident $shuffle_bytes:ident, { $($load_and_store:tt)* }) => {
        impl Steps for $register {
            #[inline(always)]
            unsafe fn xor3(self, second: Self, third: Self) -> Self {
                // SAFETY: the caller has AES instructions for registers of that width.
                unsafe { $xor3(self, second, third) }
            }

            #[inline(always)]
            unsafe fn encrypt_round(self, key: Self) -> Self {
                // SAFETY: the caller has AES instructions for registers of that width.
                unsafe { $encrypt(self, key) }
            }

            #[inline(always)]
            unsafe fn encrypt_last(self, key: Self) -> Self {
                // SAFETY: the caller has AES instructions for registers of that width.
                unsafe { $encrypt_last(self, key) }
            }

            #[inline(always)]
            unsafe fn decrypt_round(self, key: Self) -> Self {
                // SAFETY: the caller has AES instructions for registers of that width.
                unsafe { $decrypt(self, key) }
            }

            #[inline(always)]
            unsafe fn decrypt_last(self, key: Self) -> Self {
                // SAFETY: the caller has AES instructions for registers of that width.
                unsafe { $decrypt_last(self, key) }
            }
        }

        impl Vector for $register {
            $($load_and_store)*

            #[inline(always)]
            unsafe fn reversed(self) -> Self {
                // SAFETY: the caller has AES instructions for registers of that width. The order is a block.
                unsafe { $shuffle_bytes(self, Self::broadcast((&raw const REVERSE).cast())) }
            }

            #[inline(always)]
            unsafe fn double(self) -> Self {
                // SAFETY: the caller has AES instructions for registers of that width. The carries are a block.
                unsafe {
                    // The top bit of each half goes around: from the low half into bit 64, from the high half into 0x87.
                    let signs = $shuffle::<0b00_01_00_11>($signs::<31>(self));
                    let carries = signs.and(Self::broadcast((&raw const CARRIES).cast()));
                    self.add64(self).xor(carries)
                }
            }

            #[inline(always)]
            unsafe fn encrypt<const R: usize, const W: usize, M: Meanwhile>(
                blocks: &mut [Self; W],
                schedule: &Schedule,
                masks: &[Self; W],
                meanwhile: &mut M,
            ) {
                // SAFETY: the caller's promise.
                unsafe { rounds::<Self, M, R, true, W>(schedule, blocks, &[Self::zero(); W], masks, meanwhile) }
            }

            #[inline(always)]
            unsafe fn decrypt<const R: usize, const W: usize, M: Meanwhile>(
                blocks: &mut [Self; W],
                schedule: &Schedule,
                masks: &[Self; W],
                meanwhile: &mut M,
            ) {
                // SAFETY: the caller's promise.
                unsafe { rounds::<Self, M, R, false, W>(schedule, blocks, &[Self::zero(); W], masks, meanwhile) }
            }
        }
    };
}

// No closures here and below: they would have no features, and call what should be one instruction.

#[inline(always)]
unsafe fn xor3_by_two<R: Register>(a: R, b: R, c: R) -> R {
    // SAFETY: the caller has the register.
    unsafe { a.xor(b).xor(c) }
}

#[inline(always)]
unsafe fn xor3_at_once(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    // SAFETY: the caller has AVX-512. 0x96 is the table of a xor b xor c.
    unsafe { _mm512_ternarylogic_epi64::<0x96>(a, b, c) }
}

/// Place of the byte that comes to each place.
static REVERSE: [u8; 16] = [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0];

/// PSHUFB for CPUs that may lack SSSE3 has only this to do: swaps bytes, then words, then halves.
#[inline(always)]
unsafe fn reverse_bytes(a: __m128i, _: __m128i) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let bytes = _mm_or_si128(_mm_slli_epi16::<8>(a), _mm_srli_epi16::<8>(a));
        let words = _mm_shufflehi_epi16::<0b00_01_10_11>(_mm_shufflelo_epi16::<0b00_01_10_11>(bytes));
        _mm_shuffle_epi32::<0b01_00_11_10>(words)
    }
}

/// What a carry out of the high half and one out of the low half become.
static CARRIES: [u32; 4] = [0x87, 0, 1, 0];

steps!(__m128i, xor3_by_two,
    _mm_aesenc_si128 _mm_aesenclast_si128 _mm_aesdec_si128 _mm_aesdeclast_si128 _mm_srai_epi32 _mm_shuffle_epi32 reverse_bytes, {
    const LANES: usize = 1;
});

steps!(__m256i, xor3_by_two,
    _mm256_aesenc_epi128 _mm256_aesenclast_epi128 _mm256_aesdec_epi128 _mm256_aesdeclast_epi128
    _mm256_srai_epi32 _mm256_shuffle_epi32 _mm256_shuffle_epi8, {
    const LANES: usize = 2;

    #[inline(always)]
    unsafe fn broadcast(from: *const u8) -> Self {
        // SAFETY: 16 readable bytes, any alignment.
        unsafe { _mm256_broadcastsi128_si256(__m128i::load(from)) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const u8, count: usize) -> Self {
        // SAFETY: 16 readable bytes for each block that is counted, any alignment.
        unsafe {
            match count {
                0 => Self::zero(),
                1 => _mm256_zextsi128_si256(__m128i::load(from)),
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
                1 => _mm256_castsi256_si128(self).store(to),
                _ => self.store(to),
            }
        }
    }
});

steps!(__m512i, xor3_at_once,
    _mm512_aesenc_epi128 _mm512_aesenclast_epi128 _mm512_aesdec_epi128 _mm512_aesdeclast_epi128
    _mm512_srai_epi32 _mm512_shuffle_epi32 _mm512_shuffle_epi8, {
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn broadcast(from: *const u8) -> Self {
        // SAFETY: 16 readable bytes, any alignment.
        unsafe { _mm512_broadcast_i32x4(__m128i::load(from)) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const u8, count: usize) -> Self {
        // SAFETY: what the mask leaves out is not touched; 16 readable bytes for each block that it has.
        unsafe { _mm512_maskz_loadu_epi64(halves(count), from.cast()) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut u8, count: usize) {
        // SAFETY: what the mask leaves out is not touched; 16 writable bytes for each block that it has.
        unsafe { _mm512_mask_storeu_epi64(to.cast(), halves(count), self) }
    }
});

/// A bit for each half of the first `count` blocks.
#[inline(always)]
fn halves(count: usize) -> u8 {
    // Four blocks make 255, the same as 256 - 1 without its top bit.
    ((1u32 << (2 * count.min(4))) - 1) as u8
}
