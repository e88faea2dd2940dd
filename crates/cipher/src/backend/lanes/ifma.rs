//! AVX-512 with IFMA on x86-64, whose multiplier takes 52 bits: Poly1305 in three limbs of 44, 44 and 42 bits.

use core::arch::x86_64::{__m512i, _mm512_madd52hi_epu64, _mm512_madd52lo_epu64};

use super::poly::{self, Field};
use super::{Lanes, vector_instructions};
use crate::backend::cpu::Cpu;
use crate::backend::register::Register;
use crate::poly1305::PolyKey;

/// Proof that the CPU has AVX-512 (F, BW, VL, DQ) with IFMA, and that the system saves the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Avx512Ifma(());

impl Avx512Ifma {
    /// Asks the CPU.
    pub(in crate::backend) fn detect() -> Option<Self> {
        Cpu::ask().has_avx512_ifma().then_some(Self(()))
    }
}

vector_instructions!(
    Avx512Ifma,
    super::__m512i,
    super::LongLimbs,
    instructions,
    "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma"
);

const LIMB: u64 = (1 << 44) - 1;
const TOP_LIMB: u64 = (1 << 42) - 1;

/// The bit after the end of a block, in the highest limb.
const END: u64 = 1 << 40;

/// A multiplier and its square.
struct LongLimbs {
    once: Power,
    twice: Power,
}

#[derive(Clone, Copy)]
struct Power {
    limbs: [__m512i; 3],
    /// The limbs times 20, which is 2^132; the first is not used.
    twenties: [__m512i; 3],
}

impl Power {
    #[inline(always)]
    unsafe fn new(limbs: [__m512i; 3]) -> Self {
        let mut twenties = limbs;
        for limb in &mut twenties {
            // SAFETY: the caller has the CPU features.
            *limb = unsafe { limb.up64::<4>().add64(limb.up64::<2>()) };
        }
        Self { limbs, twenties }
    }
}

/// Sums of products, as their low 52 bits and what is above.
struct Sums {
    low: [__m512i; 3],
    high: [__m512i; 3],
}

impl Sums {
    #[inline(always)]
    unsafe fn new() -> Self {
        // SAFETY: the caller has the CPU features.
        unsafe { Self { low: [__m512i::zero(); 3], high: [__m512i::zero(); 3] } }
    }

    /// Adds limbs, below 2^46, times a power.
    #[inline(always)]
    unsafe fn add_product(&mut self, h: &[__m512i; 3], by: &Power) {
        for j in 0..3 {
            for i in 0..3 {
                let limb = if j <= i { by.limbs[i - j] } else { by.twenties[3 + i - j] };
                // SAFETY: the caller has the CPU features.
                unsafe {
                    self.low[i] = _mm512_madd52lo_epu64(self.low[i], h[j], limb);
                    self.high[i] = _mm512_madd52hi_epu64(self.high[i], h[j], limb);
                }
            }
        }
    }

    /// The limbs: below 2^44 but for the second, which may be a little more.
    #[inline(always)]
    unsafe fn carried(self) -> [__m512i; 3] {
        // SAFETY: the caller has the CPU features.
        unsafe {
            let (mask, top_mask) = (__m512i::splat64(LIMB), __m512i::splat64(TOP_LIMB));
            let [low0, low1, low2] = self.low;
            let [high0, high1, high2] = self.high;
            // What is above 52 bits is 2^8 times the next limb; above the top that is 20 times the first. At most six
            // products meet: `high2` is below 2^44, and this below 2^58.
            let mut d0 = low0.add64(high2.up64::<12>()).add64(high2.up64::<10>());
            let mut d1 = low1.add64(high0.up64::<8>());
            let mut d2 = low2.add64(high1.up64::<8>());
            d1 = d1.add64(d0.down64::<44>());
            d0 = d0.and(mask);
            d2 = d2.add64(d1.down64::<44>());
            d1 = d1.and(mask);
            let top = d2.down64::<42>();
            d2 = d2.and(top_mask);
            d0 = d0.add64(top.add64(top.up64::<2>()));
            d1 = d1.add64(d0.down64::<44>());
            d0 = d0.and(mask);
            [d0, d1, d2]
        }
    }
}

/// The limbs of a block, or of part of one with its end.
#[inline(always)]
unsafe fn limbs(low: __m512i, high: __m512i, end: u64) -> [__m512i; 3] {
    // SAFETY: the caller has the CPU features.
    unsafe {
        let mask = __m512i::splat64(LIMB);
        let across = low.down64::<44>().or(high.up64::<20>());
        [low.and(mask), across.and(mask), high.down64::<24>().or(__m512i::splat64(end))]
    }
}

#[inline(always)]
unsafe fn sum(a: [__m512i; 3], b: [__m512i; 3]) -> [__m512i; 3] {
    // SAFETY: the caller has the CPU features.
    unsafe { [a[0].add64(b[0]), a[1].add64(b[1]), a[2].add64(b[2])] }
}

impl LongLimbs {
    #[inline(always)]
    unsafe fn with(limbs: [__m512i; 3]) -> Self {
        // SAFETY: the caller has AVX-512 with IFMA.
        unsafe {
            let once = Power::new(limbs);
            let mut square = Sums::new();
            square.add_product(&once.limbs, &once);
            Self { once, twice: Power::new(square.carried()) }
        }
    }
}

impl Field<__m512i> for LongLimbs {
    type Hash = [__m512i; 3];

    #[inline(always)]
    unsafe fn new(key: &PolyKey) -> Self {
        // SAFETY: the caller has AVX-512 with IFMA.
        unsafe {
            let [l0, l1, l2] = key.long_limbs();
            Self::with([__m512i::splat64(l0), __m512i::splat64(l1), __m512i::splat64(l2)])
        }
    }

    #[inline(always)]
    unsafe fn of_lanes(low: __m512i, high: __m512i) -> Self {
        // SAFETY: the caller has AVX-512 with IFMA.
        unsafe { Self::with(limbs(low, high, 0)) }
    }

    #[inline(always)]
    unsafe fn begin([l0, l1, l2, l3, l4]: [__m512i; 5]) -> Self::Hash {
        // SAFETY: the caller has AVX-512 with IFMA.
        unsafe {
            let mask = __m512i::splat64(LIMB);
            let h0 = l0.add64(l1.up64::<26>());
            let h1 = h0.down64::<44>().add64(l2.up64::<8>()).add64(l3.up64::<34>());
            let h2 = h1.down64::<44>().add64(l4.up64::<16>());
            [h0.and(mask), h1.and(mask), h2]
        }
    }

    #[inline(always)]
    unsafe fn block(&self, h: &mut Self::Hash, low: __m512i, high: __m512i, whole: bool) {
        // SAFETY: the caller has AVX-512 with IFMA.
        unsafe {
            let mut sums = Sums::new();
            sums.add_product(&sum(*h, limbs(low, high, if whole { END } else { 0 })), &self.once);
            *h = sums.carried();
        }
    }

    #[inline(always)]
    unsafe fn two_blocks(
        &self,
        h: &mut Self::Hash,
        [(low, high), (next_low, next_high)]: [(__m512i, __m512i); 2],
    ) {
        // SAFETY: the caller has AVX-512 with IFMA.
        unsafe {
            let (first, second) = (limbs(low, high, END), limbs(next_low, next_high, END));
            let mut sums = Sums::new();
            sums.add_product(&second, &self.once);
            sums.add_product(&sum(*h, first), &self.twice);
            *h = sums.carried();
        }
    }

    #[inline(always)]
    unsafe fn finish([h0, h1, h2]: Self::Hash) -> (__m512i, __m512i) {
        // SAFETY: the caller has AVX-512 with IFMA.
        unsafe {
            let (mask, short) = (__m512i::splat64(LIMB), __m512i::splat64((1 << 26) - 1));
            let h2 = h2.add64(h1.down64::<44>());
            let h1 = h1.and(mask);
            poly::finish(&[
                h0.and(short),
                h0.down64::<26>().or(h1.up64::<18>()).and(short),
                h1.down64::<8>().and(short),
                h1.down64::<34>().or(h2.up64::<10>()).and(short),
                h2.down64::<16>(),
            ])
        }
    }
}
