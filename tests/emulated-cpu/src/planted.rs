//! Code that lets secrets out, for `generated-code` to find: each function does to its last argument, a secret, what a
//! cipher must not do. Nobody calls them. The ones called `innocent` look alike and do nothing wrong.

use core::arch::x86_64::*;

/// Their addresses, for a caller who keeps them in the program.
pub fn all() -> [*const (); 7] {
    [
        planted_index as *const (),
        planted_byte as *const (),
        planted_branch as *const (),
        planted_gather as *const (),
        planted_loop as *const (),
        innocent_choice as *const (),
        innocent_sums as *const (),
    ]
}

/// An entry of a table at a secret index, beside vectors.
#[unsafe(no_mangle)]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512vl,avx512bw")]
extern "C" fn planted_index(to: &mut __m512i, table: &[u32; 256], secret: &__m512i) {
    let sum = _mm512_add_epi32(*secret, _mm512_set1_epi32(7));
    let index = _mm_cvtsi128_si32(_mm512_extracti32x4_epi32::<3>(sum)) as u8;
    *to = _mm512_xor_si512(sum, _mm512_set1_epi32(table[usize::from(index)] as i32));
}

/// An entry of a table at an index that no vector has held.
#[unsafe(no_mangle)]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512vl,avx512bw")]
extern "C" fn planted_byte(to: &mut __m512i, table: &[u32; 256], secret: &[u8; 64]) {
    *to = _mm512_xor_si512(*to, _mm512_set1_epi32(table[usize::from(secret[5] ^ secret[6])] as i32));
}

/// Another way for another value, told by a mask.
#[unsafe(no_mangle)]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512vl,avx512bw")]
extern "C" fn planted_branch(to: &mut [u32; 16], secret: &__m512i) {
    let negative = _mm512_cmplt_epi32_mask(*secret, _mm512_setzero_si512());
    if negative != 0 {
        *to = [negative.into(); 16];
    }
}

/// Sixteen entries of a table at sixteen indices.
#[unsafe(no_mangle)]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512vl,avx512bw")]
extern "C" fn planted_gather(to: &mut __m512i, table: &[u32; 256], secret: &__m512i) {
    let indices = _mm512_and_epi32(*secret, _mm512_set1_epi32(255));
    // SAFETY: the indices are below 256, the length of the table.
    *to = unsafe { _mm512_i32gather_epi32::<4>(indices, table.as_ptr().cast()) };
}

/// A loop whose length is secret, after a round of AES.
#[unsafe(no_mangle)]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,vaes")]
extern "C" fn planted_loop(to: &mut __m512i, key: &__m512i, secret: &__m512i) {
    let mut state = _mm512_aesenc_epi128(*secret, *key);
    let times = _mm_extract_epi64::<1>(_mm512_castsi512_si128(state)) & 15;
    for _ in 0..times {
        state = _mm512_aesenc_epi128(state, *key);
    }
    *to = state;
}

/// A product that is chosen by a mask, not by a branch.
#[unsafe(no_mangle)]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
extern "C" fn innocent_choice(to: &mut __m512i, secret: &__m512i) {
    let carry = _mm512_movepi32_mask(*secret);
    *to = _mm512_mask_xor_epi32(*secret, carry, *secret, _mm512_set1_epi32(0x87));
}

/// Sums of secrets in general registers, and a loop whose length is public.
#[unsafe(no_mangle)]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
extern "C" fn innocent_sums(to: &mut [u64; 8], count: usize, secret: &__m512i) {
    let low = _mm_cvtsi128_si64(_mm512_castsi512_si128(*secret)) as u64;
    for word in to.iter_mut().take(count) {
        *word = word.wrapping_add(low).wrapping_mul(low | 1);
    }
}
