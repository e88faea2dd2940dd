//! Multiplication in GF(2^128) modulo x^128 + x^7 + x^2 + x + 1, without a branch or an index that depends on secrets.
//!
//! XTS reads a block as a little-endian polynomial (IEEE 1619-2018, 5.2), LRW as a big-endian one (IEEE P1619 draft
//! 2004, "LRW-AES"); as `u128` both are the same field.

/// x times `a`.
#[inline(always)]
pub(crate) const fn double(a: u128) -> u128 {
    (a << 1) ^ (0x87 & 0u128.wrapping_sub(a >> 127))
}

/// x^`power` times `a`; time depends on `power` only.
pub(crate) fn times_x_to(mut a: u128, mut power: usize) -> u128 {
    while power > 0 {
        // Up to 64 bits leave at the top, so their reduction (at most 7 bits longer) can't overflow again.
        let step = power.min(64);
        let out = a >> (128 - step);
        a = (a << step) ^ out ^ (out << 1) ^ (out << 2) ^ (out << 7);
        power -= step;
    }
    a
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_x_agree_with_repeated_doubling() {
        let start = 0x8123_4567_89ab_cdef_0fed_cba9_8765_4321u128;
        let mut doubled = start;
        for power in 0..400 {
            assert_eq!(times_x_to(start, power), doubled, "{power}");
            doubled = double(doubled);
        }
    }

    #[test]
    fn multiplication_is_commutative_and_agrees_with_powers_of_x() {
        let a = 0xfeed_beef_0123_4567_89ab_cdef_dead_c0deu128;
        let b = 0x8000_0000_0000_0001_7fff_ffff_1234_5678u128;
        assert_eq!(multiply(a, b), multiply(b, a));
        assert_eq!(multiply(a, 1), a);
        for power in 0..128 {
            assert_eq!(multiply(a, 1 << power), times_x_to(a, power), "{power}");
        }
    }
}
