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

/// A multiplier, alike in all lanes.
#[derive(Clone, Copy)]
pub(super) struct Multiplier<V> {
    limbs: [V; 5],
    /// The limbs times five; the first is not used.
    fives: [V; 5],
}

impl<V: Lanes> Multiplier<V> {
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

/// Likewise part of a block, which has the bit after its end already.
#[inline(always)]
pub(super) unsafe fn part<V: Lanes>(h: &mut [V; 5], by: &Multiplier<V>, low: V, high: V) {
    // SAFETY: the caller has the CPU features.
    unsafe { add(h, by, low, high, 0) }
}

#[inline(always)]
unsafe fn add<V: Lanes>(h: &mut [V; 5], by: &Multiplier<V>, low: V, high: V, end: u64) {
    // SAFETY: the caller has the CPU features.
    unsafe {
        let mask = V::splat64(LIMB);
        let across = low.down64::<52>().or(high.up64::<12>());
        let m = [
            low.and(mask),
            low.down64::<26>().and(mask),
            across.and(mask),
            high.down64::<14>().and(mask),
            high.down64::<40>().or(V::splat64(end)),
        ];
        for i in 0..5 {
            h[i] = h[i].add64(m[i]);
        }
        multiply(h, by);
    }
}

/// Limbs below 2^27.1 times the multiplier; they stay below that.
#[inline(always)]
unsafe fn multiply<V: Lanes>(h: &mut [V; 5], by: &Multiplier<V>) {
    // SAFETY: the caller has the CPU features.
    unsafe {
        let mask = V::splat64(LIMB);
        let mut d = [V::splat64(0); 5];
        for i in 0..5 {
            // 2^130 is 5: what leaves at the top comes back at the bottom five times.
            let mut sum = h[0].product(by.limbs[i]);
            for j in 1..5 {
                let limb = if j <= i { by.limbs[i - j] } else { by.fives[5 + i - j] };
                sum = sum.add64(h[j].product(limb));
            }
            d[i] = sum;
        }
        // Two chains of carries side by side; each sum is below 2^59.
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
        *h = d;
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
