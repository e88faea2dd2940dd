//! SHA-512 with one output block in each lane of 256-bit registers: up to four blocks take as long as one. The algorithm is written
//! once here, and compiled in each module below for the instructions of that module.

/// One round (FIPS 180-4, section 6.4.2, step 3). Takes the sum of the round's constant and its word of the message.
macro_rules! round {
    ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $wk:expr) => {
        let s1 = xor3(rotated::<14, 50>($e), rotated::<18, 46>($e), rotated::<41, 23>($e));
        let t1 = sum(sum(sum($h, $wk), choose($e, $f, $g)), s1);
        let s0 = xor3(rotated::<28, 36>($a), rotated::<34, 30>($a), rotated::<39, 25>($a));
        $d = sum($d, t1);
        $h = sum(t1, sum(s0, majority($a, $b, $c)));
    };
}

/// The loop, for the features of a module that has `rotated`, `xor3`, `choose` and `majority`.
macro_rules! chains {
    ($features:literal) => {
        use core::arch::x86_64::{
            __m256i, _mm256_add_epi64, _mm256_extract_epi64, _mm256_set1_epi64x, _mm256_setr_epi64x,
            _mm256_srli_epi64, _mm256_xor_si256,
        };

        use crate::backend::sha512::{K, Keyed, LANES, PADDING, Words};

        /// The eight words of up to four states or digests, a block in each lane.
        type Lanes = [__m256i; 8];

        #[target_feature(enable = $features)]
        pub(super) fn chains(key: &Keyed, u: &mut [Words], t: &mut [Words], count: u32) {
            let inner = load(&[key.inner; LANES]);
            let outer = load(&[key.outer; LANES]);
            let mut digest = load(u);
            let mut sum = load(t);
            for _ in 0..count {
                digest = compressed(&inner, digest);
                digest = compressed(&outer, digest);
                for (sum, digest) in sum.iter_mut().zip(digest) {
                    *sum = _mm256_xor_si256(*sum, digest);
                }
            }
            store(digest, u);
            store(sum, t);
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn load(blocks: &[Words]) -> Lanes {
            let mut lanes = [_mm256_set1_epi64x(0); 8];
            let word =
                |block: usize, i: usize| blocks.get(block).map_or(0, |words| words[i].cast_signed());
            for (i, lane) in lanes.iter_mut().enumerate() {
                *lane = _mm256_setr_epi64x(word(0, i), word(1, i), word(2, i), word(3, i));
            }
            lanes
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn store(lanes: Lanes, blocks: &mut [Words]) {
            for (i, lane) in lanes.into_iter().enumerate() {
                let words = [
                    _mm256_extract_epi64::<0>(lane),
                    _mm256_extract_epi64::<1>(lane),
                    _mm256_extract_epi64::<2>(lane),
                    _mm256_extract_epi64::<3>(lane),
                ];
                for (block, word) in blocks.iter_mut().zip(words) {
                    block[i] = word.cast_unsigned();
                }
            }
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn sum(a: __m256i, b: __m256i) -> __m256i {
            _mm256_add_epi64(a, b)
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn constant(word: u64) -> __m256i {
            _mm256_set1_epi64x(word.cast_signed())
        }

        /// The lower-case sigma functions of FIPS 180-4, section 4.1.3: two rotations and a shift.
        #[inline]
        #[target_feature(enable = $features)]
        fn sigma0(x: __m256i) -> __m256i {
            xor3(rotated::<1, 63>(x), rotated::<8, 56>(x), _mm256_srli_epi64::<7>(x))
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn sigma1(x: __m256i) -> __m256i {
            xor3(rotated::<19, 45>(x), rotated::<61, 3>(x), _mm256_srli_epi64::<6>(x))
        }

        /// What the compression function makes of `start` with each digest, padded, as the message.
        #[inline]
        #[target_feature(enable = $features)]
        fn compressed(start: &Lanes, digest: Lanes) -> Lanes {
            let mut w = [constant(0); 16];
            w[..8].copy_from_slice(&digest);
            for (w, word) in w[8..].iter_mut().zip(PADDING) {
                *w = constant(word);
            }
            let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *start;
            for sixteen in 0..5 {
                let k = |i: usize| constant(K[16 * sixteen + i]);
                for i in [0, 8] {
                    round!(a b c d e f g h, sum(w[i], k(i)));
                    round!(h a b c d e f g, sum(w[i + 1], k(i + 1)));
                    round!(g h a b c d e f, sum(w[i + 2], k(i + 2)));
                    round!(f g h a b c d e, sum(w[i + 3], k(i + 3)));
                    round!(e f g h a b c d, sum(w[i + 4], k(i + 4)));
                    round!(d e f g h a b c, sum(w[i + 5], k(i + 5)));
                    round!(c d e f g h a b, sum(w[i + 6], k(i + 6)));
                    round!(b c d e f g h a, sum(w[i + 7], k(i + 7)));
                }
                if sixteen < 4 {
                    // Each word takes the place of the one that is sixteen older (step 1).
                    for i in 0..16 {
                        w[i] = sum(
                            sum(w[i], w[(i + 9) % 16]),
                            sum(sigma0(w[(i + 1) % 16]), sigma1(w[(i + 14) % 16])),
                        );
                    }
                }
            }
            let end = [a, b, c, d, e, f, g, h];
            let mut result = *start;
            for (result, end) in result.iter_mut().zip(end) {
                *result = sum(*result, end);
            }
            result
        }
    };
}

/// AVX-512 F and VL: a rotation is one instruction, and so is any logic of three registers.
mod avx512 {
    use core::arch::x86_64::{_mm256_ror_epi64, _mm256_ternarylogic_epi64};

    chains!("avx512f,avx512vl,avx2");

    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,avx2")]
    fn rotated<const RIGHT: i32, const LEFT: i32>(x: __m256i) -> __m256i {
        _mm256_ror_epi64::<RIGHT>(x)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,avx2")]
    fn xor3(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        _mm256_ternarylogic_epi64::<0x96>(a, b, c)
    }

    /// Bits of `f` where `e` has ones, of `g` elsewhere.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,avx2")]
    fn choose(e: __m256i, f: __m256i, g: __m256i) -> __m256i {
        _mm256_ternarylogic_epi64::<0xca>(e, f, g)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,avx2")]
    fn majority(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        _mm256_ternarylogic_epi64::<0xe8>(a, b, c)
    }
}

/// AVX2: rotations are two shifts.
mod avx2 {
    use core::arch::x86_64::{_mm256_and_si256, _mm256_or_si256, _mm256_slli_epi64};

    chains!("avx2");

    #[inline]
    #[target_feature(enable = "avx2")]
    fn rotated<const RIGHT: i32, const LEFT: i32>(x: __m256i) -> __m256i {
        _mm256_or_si256(_mm256_slli_epi64::<LEFT>(x), _mm256_srli_epi64::<RIGHT>(x))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn xor3(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        _mm256_xor_si256(_mm256_xor_si256(a, b), c)
    }

    /// Bits of `f` where `e` has ones, of `g` elsewhere.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn choose(e: __m256i, f: __m256i, g: __m256i) -> __m256i {
        _mm256_xor_si256(_mm256_and_si256(_mm256_xor_si256(f, g), e), g)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn majority(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        _mm256_or_si256(_mm256_and_si256(a, b), _mm256_and_si256(_mm256_or_si256(a, b), c))
    }
}

use crate::backend::cpu::Cpu;
use crate::backend::sha512::{Keyed, Words};

/// Proof that the CPU has one of them, and that the system saves the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sha512Lanes {
    Avx512(Proof),
    Avx2(Proof),
}

/// Made by detection alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proof(());

impl Sha512Lanes {
    /// Those that the CPU has, fastest first.
    pub(crate) fn detected() -> impl Iterator<Item = Self> {
        let cpu = Cpu::ask();
        let wide = (cpu.avx512 && cpu.avx2).then_some(Self::Avx512(Proof(())));
        wide.into_iter().chain(cpu.avx2.then_some(Self::Avx2(Proof(()))))
    }

    /// Replaces each of `u` by what `count` runs of HMAC make of it, and XORs what each run yields to its `t`.
    /// There are as many of `t` as of `u`, at most [`LANES`](crate::backend::sha512::LANES).
    pub(crate) fn iterate(self, key: &Keyed, u: &mut [Words], t: &mut [Words], count: u32) {
        match self {
            // SAFETY: the proof was built by detection of the features that the function is compiled for.
            Self::Avx512(_) => unsafe { avx512::chains(key, u, t, count) },
            // SAFETY: the proof was built by detection of the feature that the function is compiled for.
            Self::Avx2(_) => unsafe { avx2::chains(key, u, t, count) },
        }
    }
}
