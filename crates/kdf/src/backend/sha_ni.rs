//! The SHA extensions of x86-64 on two blocks at a time: a round instruction waits for the one before it, so a second
//! chain runs in the gaps of the first.
//!
//! These instructions know no VEX form. Nothing here touches ymm registers, so no transition between the two forms is
//! ever paid for inside the loop; compiled code leaves the upper halves clean when it calls.

use core::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_alignr_epi8, _mm_blend_epi16, _mm_extract_epi32, _mm_setr_epi32,
    _mm_sha256msg1_epu32, _mm_sha256msg2_epu32, _mm_sha256rnds2_epu32, _mm_shuffle_epi32, _mm_xor_si128,
};

use super::cpu::Cpu;
use super::{K, Keyed, PADDING, Words};

/// Proof that the CPU has the SHA extensions, SSSE3 and SSE4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShaNi(());

/// Takes what the CPU said.
pub(super) fn detect(cpu: Cpu) -> Option<ShaNi> {
    cpu.sha.then_some(ShaNi(()))
}

impl ShaNi {
    pub(super) fn iterate(self, key: &Keyed, u: &mut [Words], t: &mut [Words], count: u32) {
        let (u_pairs, u_rest) = u.as_chunks_mut::<2>();
        let (t_pairs, t_rest) = t.as_chunks_mut::<2>();
        for (u, t) in u_pairs.iter_mut().zip(t_pairs) {
            // SAFETY: the proof was built by detection of the features that the function is compiled for.
            unsafe { chains::<2>(key, u, t, count) };
        }
        for (u, t) in u_rest.as_chunks_mut::<1>().0.iter_mut().zip(t_rest.as_chunks_mut::<1>().0) {
            // SAFETY: the proof was built by detection of the features that the function is compiled for.
            unsafe { chains::<1>(key, u, t, count) };
        }
    }
}

/// Words a, b, e, f of a state and words c, d, g, h, each from the highest lane to the lowest.
type State = [__m128i; 2];

#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
fn chains<const N: usize>(key: &Keyed, u: &mut [Words; N], t: &mut [Words; N], count: u32) {
    let inner = load(&key.inner);
    let outer = load(&key.outer);
    let mut digest = [inner; N];
    let mut sum = [inner; N];
    for i in 0..N {
        digest[i] = load(&u[i]);
        sum[i] = load(&t[i]);
    }
    for _ in 0..count {
        digest = compressed(inner, digest);
        digest = compressed(outer, digest);
        for i in 0..N {
            for half in 0..2 {
                sum[i][half] = _mm_xor_si128(sum[i][half], digest[i][half]);
            }
        }
    }
    for i in 0..N {
        u[i] = words(digest[i]);
        t[i] = words(sum[i]);
    }
}

#[inline]
#[target_feature(enable = "sse2")]
fn load(words: &Words) -> State {
    let [a, b, c, d, e, f, g, h] = words.map(u32::cast_signed);
    [_mm_setr_epi32(f, e, b, a), _mm_setr_epi32(h, g, d, c)]
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn words([abef, cdgh]: State) -> Words {
    [
        _mm_extract_epi32::<3>(abef),
        _mm_extract_epi32::<2>(abef),
        _mm_extract_epi32::<3>(cdgh),
        _mm_extract_epi32::<2>(cdgh),
        _mm_extract_epi32::<1>(abef),
        _mm_extract_epi32::<0>(abef),
        _mm_extract_epi32::<1>(cdgh),
        _mm_extract_epi32::<0>(cdgh),
    ]
    .map(i32::cast_unsigned)
}

/// What the compression function makes of `start` with each digest, padded, as the message.
#[inline]
#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
fn compressed<const N: usize>(start: State, digests: [State; N]) -> [State; N] {
    let mut state = [start; N];
    let mut w = digests.map(|digest| message(digest));
    // Four rounds, and the four words that take the place of the ones they used.
    macro_rules! rounds {
        ($($round:literal)*) => {$(
            for i in 0..N {
                const AT: usize = 4 * $round;
                let k = _mm_setr_epi32(
                    K[AT].cast_signed(),
                    K[AT + 1].cast_signed(),
                    K[AT + 2].cast_signed(),
                    K[AT + 3].cast_signed(),
                );
                let wk = _mm_add_epi32(w[i][$round % 4], k);
                let [abef, cdgh] = state[i];
                let cdgh = _mm_sha256rnds2_epu32(cdgh, abef, wk);
                let abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32::<0x0e>(wk));
                state[i] = [abef, cdgh];
                if $round < 12 {
                    let (after, last) = (w[i][($round + 1) % 4], w[i][($round + 3) % 4]);
                    let ninth = _mm_alignr_epi8::<4>(last, w[i][($round + 2) % 4]);
                    let next = _mm_add_epi32(_mm_sha256msg1_epu32(w[i][$round % 4], after), ninth);
                    w[i][$round % 4] = _mm_sha256msg2_epu32(next, last);
                }
            }
        )*};
    }
    rounds!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    for state in &mut state {
        for half in 0..2 {
            state[half] = _mm_add_epi32(state[half], start[half]);
        }
    }
    state
}

/// A digest and its padding as the sixteen words of a message, the first in the lowest lane.
#[inline]
#[target_feature(enable = "sse2,ssse3,sse4.1")]
fn message([abef, cdgh]: State) -> [__m128i; 4] {
    let abef = _mm_shuffle_epi32::<0x1b>(abef);
    let ghcd = _mm_shuffle_epi32::<0xb1>(cdgh);
    let [p0, p1, p2, p3, p4, p5, p6, p7] = PADDING.map(u32::cast_signed);
    [
        _mm_blend_epi16::<0xf0>(abef, ghcd),
        _mm_alignr_epi8::<8>(ghcd, abef),
        _mm_setr_epi32(p0, p1, p2, p3),
        _mm_setr_epi32(p4, p5, p6, p7),
    ]
}
