//! Poly1305 with a data unit per 64-bit lane, in limbs of 26 bits.
//!
//! # Safety
//!
//! Every function here asks of its caller what [`Lanes`] asks.

use super::Lanes;
use crate::poly1305::PolyKey;

const LIMB: u64 = (1 << 26) - 1;

/// The bit after the end of a block, in the highest limb.
const END: u64 = 1 << 24;

/// Arithmetic modulo 2^130 - 5 for long hashes.
///
/// # Safety
///
/// As for [`Lanes`].
pub(super) trait Field<V> {
    /// What was hashed so far.
    type Hash: Copy;
    unsafe fn new(key: &PolyKey) -> Self;
    /// A multiplier for each lane, clamped, as two words.
    unsafe fn of_lanes(low: V, high: V) -> Self;
    /// From limbs of 26 bits or little more.
    unsafe fn begin(limbs: [V; 5]) -> Self::Hash;
    /// Hashes a block; or part of one, which has the bit after its end already.
    unsafe fn block(&self, h: &mut Self::Hash, low: V, high: V, whole: bool);
    /// Hashes two blocks with one round of carries.
    unsafe fn two_blocks(&self, h: &mut Self::Hash, blocks: [(V, V); 2]);
    /// See [`finish`].
    unsafe fn finish(h: Self::Hash) -> (V, V);
}

/// [`Field`] in limbs of 26 bits: a multiplier and its square.
pub(super) struct Limbs<V> {
    once: Multiplier<V>,
    twice: Multiplier<V>,
}

impl<V: Lanes> Limbs<V> {
    #[inline(always)]
    unsafe fn with(once: Multiplier<V>) -> Self {
        // SAFETY: the caller has the CPU features.
        unsafe {
            let mut square = once.limbs;
            multiply(&mut square, &once);
            Self { once, twice: Multiplier::of(square) }
        }
    }
}

impl<V: Lanes> Field<V> for Limbs<V> {
    type Hash = [V; 5];

    #[inline(always)]
    unsafe fn new(key: &PolyKey) -> Self {
        // SAFETY: the caller has the CPU features.
        unsafe { Self::with(Multiplier::new(key)) }
    }

    #[inline(always)]
    unsafe fn of_lanes(low: V, high: V) -> Self {
        // SAFETY: the caller has the CPU features.
        unsafe { Self::with(Multiplier::of(limbs(low, high, 0))) }
    }

    #[inline(always)]
    unsafe fn begin(limbs: [V; 5]) -> Self::Hash {
        limbs
    }

    #[inline(always)]
    unsafe fn block(&self, h: &mut Self::Hash, low: V, high: V, whole: bool) {
        // SAFETY: the caller has the CPU features.
        unsafe { add(h, &self.once, low, high, if whole { END } else { 0 }) }
    }

    #[inline(always)]
    unsafe fn two_blocks(&self, h: &mut Self::Hash, [(low, high), (next_low, next_high)]: [(V, V); 2]) {
        // SAFETY: the caller has the CPU features.
        unsafe {
            let (first, second) = (limbs(low, high, END), limbs(next_low, next_high, END));
            for i in 0..5 {
                h[i] = h[i].add64(first[i]);
            }
            // Ten products, together below 2^59.
            let mut sums = products(h, &self.twice, [V::splat64(0); 5]);
            sums = products(&second, &self.once, sums);
            *h = carried(sums);
        }
    }

    #[inline(always)]
    unsafe fn finish(h: Self::Hash) -> (V, V) {
        // SAFETY: the caller has the CPU features.
        unsafe { finish(&h) }
    }
}

/// A multiplier.
#[derive(Clone, Copy)]
pub(super) struct Multiplier<V> {
    limbs: [V; 5],
    /// The limbs times five; the first is not used.
    fives: [V; 5],
}

impl<V: Lanes> Multiplier<V> {
    #[inline(always)]
    unsafe fn of(limbs: [V; 5]) -> Self {
        let mut fives = limbs;
        for five in &mut fives {
            // SAFETY: the caller has the CPU features.
            *five = unsafe { five.add64(five.up64::<2>()) };
        }
        Self { limbs, fives }
    }

    /// Alike in all lanes.
    #[inline(always)]
    pub(super) unsafe fn new(key: &PolyKey) -> Self {
        // SAFETY: the caller has the CPU features.
        unsafe {
            let mut by = Self { limbs: [V::splat64(0); 5], fives: [V::splat64(0); 5] };
            for (i, limb) in key.limbs().into_iter().enumerate() {
                by.limbs[i] = V::splat64(limb.into());
                by.fives[i] = V::splat64(u64::from(limb).wrapping_mul(5));
            }
            by
        }
    }
}

/// Adds a block, as two words per lane, to what was hashed so far, and multiplies.
#[inline(always)]
pub(super) unsafe fn block<V: Lanes>(h: &mut [V; 5], by: &Multiplier<V>, low: V, high: V) {
    // SAFETY: the caller has the CPU features.
    unsafe { add(h, by, low, high, END) }
}

#[inline(always)]
unsafe fn add<V: Lanes>(h: &mut [V; 5], by: &Multiplier<V>, low: V, high: V, end: u64) {
    // SAFETY: the caller has the CPU features.
    unsafe {
        let m = limbs(low, high, end);
        for i in 0..5 {
            h[i] = h[i].add64(m[i]);
        }
        multiply(h, by);
    }
}

/// The limbs of a block, or of part of one.
#[inline(always)]
unsafe fn limbs<V: Lanes>(low: V, high: V, end: u64) -> [V; 5] {
    // SAFETY: the caller has the CPU features.
    unsafe {
        let mask = V::splat64(LIMB);
        let across = low.down64::<52>().or(high.up64::<12>());
        [
            low.and(mask),
            low.down64::<26>().and(mask),
            across.and(mask),
            high.down64::<14>().and(mask),
            high.down64::<40>().or(V::splat64(end)),
        ]
    }
}

/// Limbs below 2^27.1 times the multiplier; they stay below that.
#[inline(always)]
unsafe fn multiply<V: Lanes>(h: &mut [V; 5], by: &Multiplier<V>) {
    // SAFETY: the caller has the CPU features.
    unsafe { *h = carried(products(h, by, [V::splat64(0); 5])) }
}

/// Sums of products of limbs, added to others.
#[inline(always)]
unsafe fn products<V: Lanes>(h: &[V; 5], by: &Multiplier<V>, mut sums: [V; 5]) -> [V; 5] {
    for i in 0..5 {
        // 2^130 is 5: what leaves at the top comes back at the bottom five times.
        for j in 0..5 {
            let limb = if j <= i { by.limbs[i - j] } else { by.fives[5 + i - j] };
            // SAFETY: the caller has the CPU features.
            sums[i] = unsafe { sums[i].add64(h[j].product(limb)) };
        }
    }
    sums
}

/// The limbs of such sums, below 2^59.
#[inline(always)]
unsafe fn carried<V: Lanes>(mut d: [V; 5]) -> [V; 5] {
    // SAFETY: the caller has the CPU features.
    unsafe {
        let mask = V::splat64(LIMB);
        // Two chains of carries side by side.
        d[1] = d[1].add64(d[0].down64::<26>());
        d[4] = d[4].add64(d[3].down64::<26>());
        d[0] = d[0].and(mask);
        d[3] = d[3].and(mask);
        let top = d[4].down64::<26>();
        d[2] = d[2].add64(d[1].down64::<26>());
        d[0] = d[0].add64(top.add64(top.up64::<2>()));
        d[1] = d[1].and(mask);
        d[4] = d[4].and(mask);
        d[3] = d[3].add64(d[2].down64::<26>());
        d[1] = d[1].add64(d[0].down64::<26>());
        d[2] = d[2].and(mask);
        d[0] = d[0].and(mask);
        d[4] = d[4].add64(d[3].down64::<26>());
        d[3] = d[3].and(mask);
        d
    }
}

/// The low 128 bits of what is left modulo 2^130 - 5, as two words per lane.
#[inline(always)]
pub(super) unsafe fn finish<V: Lanes>(h: &[V; 5]) -> (V, V) {
    // SAFETY: the caller has the CPU features.
    unsafe {
        let mask = V::splat64(LIMB);
        let mut h = *h;
        // Twice around: then all limbs are below 2^26, the value below 2^130.
        for _ in 0..2 {
            for i in 0..4 {
                h[i + 1] = h[i + 1].add64(h[i].down64::<26>());
                h[i] = h[i].and(mask);
            }
            let top = h[4].down64::<26>();
            h[4] = h[4].and(mask);
            h[0] = h[0].add64(top.add64(top.up64::<2>()));
        }
        for i in 0..4 {
            h[i + 1] = h[i + 1].add64(h[i].down64::<26>());
            h[i] = h[i].and(mask);
        }
        // At least 2^130 - 5 is what reaches 2^130 when 5 is added; then adding 5 and cutting takes the modulus away.
        let mut carry = V::splat64(5);
        for limb in h {
            carry = limb.add64(carry).down64::<26>();
        }
        h[0] = h[0].add64(carry.add64(carry.up64::<2>()));
        for i in 0..4 {
            h[i + 1] = h[i + 1].add64(h[i].down64::<26>());
            h[i] = h[i].and(mask);
        }
        let low = h[0].or(h[1].up64::<26>()).or(h[2].up64::<52>());
        let high = h[2].down64::<12>().or(h[3].up64::<14>()).or(h[4].up64::<40>());
        (low, high)
    }
}
