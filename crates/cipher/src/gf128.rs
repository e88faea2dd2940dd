//! Multiplication in GF(2^128) modulo x^128 + x^7 + x^2 + x + 1, without a branch or an index that depends on secrets.
//!
//! XTS reads a block as a little-endian polynomial (IEEE 1619-2018, 5.2), LRW as a big-endian one (IEEE P1619 draft
//! 2004, "LRW-AES"); as `u128` both are the same field.

/// x times `a`.
#[inline(always)]
pub(crate) const fn double(a: u128) -> u128 {
    (a << 1) ^ (0x87 & 0u128.wrapping_sub(a >> 127))
}

/// Writes `first` and what comes of it by doubling it again and again, and returns the last one.
pub(crate) fn doublings(first: u128, to: &mut [[u8; 16]]) -> u128 {
    let mut last = first;
    let mut next = first;
    for slot in to {
        last = next;
        *slot = next.to_le_bytes();
        next = double(next);
    }
    last
}

/// x^`power` times `a`; time depends on `power` only, and on no more than its logarithm.
pub(crate) fn times_x_to(mut a: u128, mut power: usize) -> u128 {
    // So far, steps of 64 take less than a multiplication.
    if power > 64 * 32 {
        return multiply(a, x_to(power));
    }
    while power > 0 {
        // Up to 64 bits leave at the top, so their reduction (at most 7 bits longer) can't overflow again.
        let step = power.min(64);
        let out = a >> (128 - step);
        a = (a << step) ^ out ^ (out << 1) ^ (out << 2) ^ (out << 7);
        power -= step;
    }
    a
}

/// x^`power`, by squaring and doubling.
fn x_to(power: usize) -> u128 {
    let bits = usize::BITS - power.leading_zeros();
    (0..bits).rev().fold(1, |a, bit| {
        let squared = square(a);
        if power >> bit & 1 == 1 { double(squared) } else { squared }
    })
}

/// `a` times itself: its bits spread out, then reduced.
fn square(a: u128) -> u128 {
    let spread = |half: u64| {
        let mut a = u128::from(half);
        for (shift, ones) in [(32, u32::MAX.into()), (16, 0xffff), (8, 0xff), (4, 0xf), (2, 3), (1, 1u128)] {
            let mask = u128::MAX / ((1 << (2 * shift)) - 1) * ones;
            a = (a | a << shift) & mask;
        }
        a
    };
    let (low, high) = (spread(a as u64), spread((a >> 64) as u64));
    // x^128 is x^7 + x^2 + x + 1. What leaves at the top once more is at most six bits.
    let fold = |high: u128| high ^ high << 1 ^ high << 2 ^ high << 7;
    let out = high >> 127 ^ high >> 126 ^ high >> 121;
    low ^ fold(high) ^ fold(out)
}

/// `a` times `b`.
pub(crate) fn multiply(a: u128, b: u128) -> u128 {
    let mut product = 0;
    let mut bit = 128;
    while bit > 0 {
        bit -= 1;
        product = double(product) ^ (a & 0u128.wrapping_sub((b >> bit) & 1));
    }
    product
}

#[cfg(feature = "internals")]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn powers_of_x_agree_with_repeated_doubling() {
        let start = 0x8123_4567_89ab_cdef_0fed_cba9_8765_4321u128;
        let mut doubled = start;
        for power in 0..400 {
            assert_eq!(times_x_to(start, power), doubled, "{power}");
            doubled = double(doubled);
        }
    }

    pub(crate) fn high_powers_of_x_agree_with_repeated_doubling() {
        let start = 0xfedc_ba98_7654_3210_0f1e_2d3c_4b5a_6978u128;
        let mut doubled = start;
        for power in 0..70_000 {
            if power % 97 == 0 || power > 65_500 && power < 65_600 || power > 2000 && power < 2100 {
                assert_eq!(times_x_to(start, power), doubled, "{power}");
            }
            doubled = double(doubled);
        }
        // The order of x divides that of the field's units.
        assert_eq!(multiply(x_to(usize::MAX), double(1)), (0..usize::BITS).fold(2, |a, _| square(a)));
        assert_eq!((0..128).fold(start, |a, _| square(a)), start);
    }

    pub(crate) fn multiplication_is_commutative_and_agrees_with_powers_of_x() {
        let a = 0xfeed_beef_0123_4567_89ab_cdef_dead_c0deu128;
        let b = 0x8000_0000_0000_0001_7fff_ffff_1234_5678u128;
        assert_eq!(multiply(a, b), multiply(b, a));
        assert_eq!(multiply(a, 1), a);
        for power in 0..128 {
            assert_eq!(multiply(a, 1 << power), times_x_to(a, power), "{power}");
        }
    }
}
