//! One output block in each lane of 128-bit registers: up to four blocks take as long as one. The algorithm is written
//! once here, and compiled in each file for the instructions of that file.

mod avx;
mod avx512;
#[cfg(any(feature = "blake2", feature = "ripemd", feature = "streebog", feature = "whirlpool"))]
pub(crate) mod beside;
mod sha512;

pub(super) use avx::{Avx, detect as detect_avx};
pub(super) use avx512::{Avx512, detect as detect_avx512};
pub(crate) use sha512::Sha512Lanes;

/// One round (FIPS 180-4, section 6.2.2, step 3). Takes the sum of the round's constant and its word of the message.
macro_rules! round {
    ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $wk:expr) => {
        let s1 = xor3(rotated::<6>($e), rotated::<11>($e), rotated::<25>($e));
        let t1 = sum(sum(sum($h, $wk), choose($e, $f, $g)), s1);
        let s0 = xor3(rotated::<2>($a), rotated::<13>($a), rotated::<22>($a));
        let majority = majority($a, $b, $c);
        $d = sum($d, t1);
        $h = sum(t1, sum(s0, majority));
    };
}

macro_rules! eight_rounds {
    ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $wk:expr) => {
        round!($a $b $c $d $e $f $g $h, $wk(0));
        round!($h $a $b $c $d $e $f $g, $wk(1));
        round!($g $h $a $b $c $d $e $f, $wk(2));
        round!($f $g $h $a $b $c $d $e, $wk(3));
        round!($e $f $g $h $a $b $c $d, $wk(4));
        round!($d $e $f $g $h $a $b $c, $wk(5));
        round!($c $d $e $f $g $h $a $b, $wk(6));
        round!($b $c $d $e $f $g $h $a, $wk(7));
    };
}

/// Words of the message, each from those before it (step 1).
macro_rules! next {
    ($w:ident, $($i:literal)*) => {$(
        $w[$i] = sum(
            sum($w[$i], $w[($i + 9) % 16]),
            sum(sigma0($w[($i + 1) % 16]), sigma1($w[($i + 14) % 16])),
        );
    )*};
}

/// The loop, for the features of a file that has `rotated`, `xor3`, `choose` and `majority`.
macro_rules! chains {
    ($features:literal) => {
/// The eight words of up to four states or digests, a block in each lane.
type Lanes = [__m128i; 8];

#[target_feature(enable = $features)]
fn chains(key: &Keyed, u: &mut [Words], t: &mut [Words], count: u32) {
    let inner = load(&[key.inner; MAX_BLOCKS]);
    let outer = load(&[key.outer; MAX_BLOCKS]);
    let mut digest = load(u);
    let mut sum = load(t);
    for _ in 0..count {
        digest = compressed(&inner, digest);
        digest = compressed(&outer, digest);
        for (sum, digest) in sum.iter_mut().zip(digest) {
            *sum = _mm_xor_si128(*sum, digest);
        }
    }
    store(digest, u);
    store(sum, t);
}

#[inline]
#[target_feature(enable = $features)]
fn load(blocks: &[Words]) -> Lanes {
    let mut lanes = [_mm_set1_epi32(0); 8];
    let word = |block: usize, i: usize| blocks.get(block).map_or(0, |words| words[i].cast_signed());
    for (i, lane) in lanes.iter_mut().enumerate() {
        *lane = _mm_setr_epi32(word(0, i), word(1, i), word(2, i), word(3, i));
    }
    lanes
}

#[inline]
#[target_feature(enable = $features)]
fn store(lanes: Lanes, blocks: &mut [Words]) {
    for (i, lane) in lanes.into_iter().enumerate() {
        let words = [
            _mm_extract_epi32::<0>(lane),
            _mm_extract_epi32::<1>(lane),
            _mm_extract_epi32::<2>(lane),
            _mm_extract_epi32::<3>(lane),
        ];
        for (block, word) in blocks.iter_mut().zip(words) {
            block[i] = word.cast_unsigned();
        }
    }
}

#[inline]
#[target_feature(enable = $features)]
fn sum(a: __m128i, b: __m128i) -> __m128i {
    _mm_add_epi32(a, b)
}

#[inline]
#[target_feature(enable = $features)]
fn constant(word: u32) -> __m128i {
    _mm_set1_epi32(word.cast_signed())
}

/// The lower-case sigma functions of FIPS 180-4, section 4.1.2: two rotations and a shift.
#[inline]
#[target_feature(enable = $features)]
fn sigma0(x: __m128i) -> __m128i {
    xor3(rotated::<7>(x), rotated::<18>(x), _mm_srli_epi32::<3>(x))
}

#[inline]
#[target_feature(enable = $features)]
fn sigma1(x: __m128i) -> __m128i {
    xor3(rotated::<17>(x), rotated::<19>(x), _mm_srli_epi32::<10>(x))
}

/// What the compression function makes of `start` with each digest, padded, as the message.
#[inline]
#[target_feature(enable = $features)]
fn compressed(start: &Lanes, digest: Lanes) -> Lanes {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *start;
    // The first sixteen words: the digest and the padding.
    eight_rounds!(a b c d e f g h, |i: usize| sum(digest[i], constant(K[i])));
    eight_rounds!(a b c d e f g h, |i: usize| constant(K[8 + i].wrapping_add(PADDING[i])));
    // The next sixteen, without the terms that the padding makes zero.
    const LENGTH: u32 = PADDING[7];
    let [w0, w1, w2, w3, w4, w5, w6, w7] = digest;
    let w16 = sum(sigma0(w1), w0);
    let w17 = sum(sum(sigma0(w2), w1), constant(known_sigma1(LENGTH)));
    let w18 = sum(sum(sigma0(w3), w2), sigma1(w16));
    let w19 = sum(sum(sigma0(w4), w3), sigma1(w17));
    let w20 = sum(sum(sigma0(w5), w4), sigma1(w18));
    let w21 = sum(sum(sigma0(w6), w5), sigma1(w19));
    let w22 = sum(sum(sum(sigma0(w7), w6), constant(LENGTH)), sigma1(w20));
    let w23 = sum(sum(sum(w16, w7), constant(known_sigma0(PADDING[0]))), sigma1(w21));
    let w24 = sum(sum(w17, constant(PADDING[0])), sigma1(w22));
    let w25 = sum(w18, sigma1(w23));
    let w26 = sum(w19, sigma1(w24));
    let w27 = sum(w20, sigma1(w25));
    let w28 = sum(w21, sigma1(w26));
    let w29 = sum(w22, sigma1(w27));
    let w30 = sum(sum(w23, constant(known_sigma0(LENGTH))), sigma1(w28));
    let w31 = sum(sum(sum(w24, sigma0(w16)), constant(LENGTH)), sigma1(w29));
    let mut w = [w16, w17, w18, w19, w20, w21, w22, w23, w24, w25, w26, w27, w28, w29, w30, w31];
    eight_rounds!(a b c d e f g h, |i: usize| sum(w[i], constant(K[16 + i])));
    eight_rounds!(a b c d e f g h, |i: usize| sum(w[8 + i], constant(K[24 + i])));
    // Each word takes the place of the one that is sixteen older.
    next!(w, 0 1 2 3 4 5 6 7);
    eight_rounds!(a b c d e f g h, |i: usize| sum(w[i], constant(K[32 + i])));
    next!(w, 8 9 10 11 12 13 14 15);
    eight_rounds!(a b c d e f g h, |i: usize| sum(w[8 + i], constant(K[40 + i])));
    next!(w, 0 1 2 3 4 5 6 7);
    eight_rounds!(a b c d e f g h, |i: usize| sum(w[i], constant(K[48 + i])));
    next!(w, 8 9 10 11 12 13 14 15);
    eight_rounds!(a b c d e f g h, |i: usize| sum(w[8 + i], constant(K[56 + i])));
    let end = [a, b, c, d, e, f, g, h];
    let mut result = *start;
    for (result, end) in result.iter_mut().zip(end) {
        *result = sum(*result, end);
    }
    result
}
    };
}
use {chains, eight_rounds, next, round};

/// The lower-case sigma functions of a word that is known when this is compiled.
const fn known_sigma0(x: u32) -> u32 {
    x.rotate_right(7) ^ x.rotate_right(18) ^ x >> 3
}

const fn known_sigma1(x: u32) -> u32 {
    x.rotate_right(17) ^ x.rotate_right(19) ^ x >> 10
}
