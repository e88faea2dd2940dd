//! What PBKDF2-HMAC-SHA512 on several output blocks side by side works with. The 192 bytes of a header of VeraCrypt are three blocks.

/// A state or digest of SHA-512.
pub(crate) type Words = [u64; 8];

/// Output blocks that are worked on side by side.
pub(crate) const LANES: usize = 4;

/// The states of HMAC-SHA512 after its inner and its outer key block.
pub(crate) struct Keyed {
    pub(crate) inner: Words,
    pub(crate) outer: Words,
}

/// The second half of every message: padding of 64 bytes after a key block of 128 (FIPS 180-4, section 5.1.2).
pub(crate) const PADDING: Words = [1 << 63, 0, 0, 0, 0, 0, 0, (128 + 64) * 8];

/// FIPS 180-4, section 4.2.3: the first 64 bits of the fractions of the cube roots of the first eighty primes.
pub(crate) const K: [u64; 80] = {
    let mut constants = [0; 80];
    let (mut found, mut number) = (0, 2);
    while found < constants.len() {
        if is_prime(number) {
            constants[found] = cube_root_fraction(number);
            found += 1;
        }
        number += 1;
    }
    constants
};

const fn is_prime(number: u64) -> bool {
    let mut divisor = 2;
    while divisor * divisor <= number {
        if number.is_multiple_of(divisor) {
            return false;
        }
        divisor += 1;
    }
    true
}

/// The greatest x with x^3 <= number * 2^192, without its bits above the 64th: those are the root before the point.
const fn cube_root_fraction(number: u64) -> u64 {
    let mut root: u128 = 0;
    // The root of 409, the last of the primes, is less than 8.
    let mut bit = 67;
    while bit > 0 {
        bit -= 1;
        let tried = root | 1 << bit;
        let cube = times(times([tried as u64, (tried >> 64) as u64, 0, 0], tried), tried);
        if cube[3] < number || (cube[3] == number && cube[0] | cube[1] | cube[2] == 0) {
            root = tried;
        }
    }
    root as u64
}

/// The product of a number of four words, the lowest first, and one of two; it fits into four.
const fn times(a: [u64; 4], b: u128) -> [u64; 4] {
    let b = [b as u64, (b >> 64) as u64];
    let mut product = [0u64; 4];
    let mut i = 0;
    while i < 2 {
        let (mut carry, mut at) = (0u128, 0);
        while at + i < 4 {
            let sum = product[at + i] as u128 + a[at] as u128 * b[i] as u128 + carry;
            product[at + i] = sum as u64;
            carry = sum >> 64;
            at += 1;
        }
        i += 1;
    }
    product
}
