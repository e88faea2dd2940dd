//! Poly1305 as a hash of 128 bits (RFC 8439, 2.5, without adding the second half of the key), in limbs of 26 bits for
//! CPUs that multiply 32 bits by 32. Sums wrap in name only, so that no build checks them and branches on secrets.

use zeroize::Zeroize;

use crate::block::Block;

const MASK: u32 = (1 << 26) - 1;

/// The bit after the end of a whole block.
const END: u32 = 1 << 24;

/// A clamped multiplier in limbs of 26 bits. Wiped on drop.
pub(crate) struct PolyKey {
    pub(crate) limbs: [u32; 5],
}

impl PolyKey {
    pub(crate) fn new(key: &Block) -> Self {
        let clamped = u128::from_le_bytes(*key) & 0x0fff_fffc_0fff_fffc_0fff_fffc_0fff_ffff;
        Self { limbs: limbs(clamped, 0) }
    }
}

impl Drop for PolyKey {
    fn drop(&mut self) {
        self.limbs.zeroize();
    }
}

/// What was hashed so far: limbs of little more than 26 bits. Wiped on drop.
#[derive(Clone)]
pub(crate) struct Poly {
    pub(crate) limbs: [u32; 5],
}

impl Poly {
    pub(crate) fn new() -> Self {
        Self { limbs: [0; 5] }
    }

    /// Hashes bytes; what is less than a block at their end counts as a last block of its own.
    pub(crate) fn update(&mut self, key: &PolyKey, bytes: &[u8]) {
        let (blocks, rest) = bytes.as_chunks::<16>();
        for block in blocks {
            self.block(key, block, END);
        }
        if !rest.is_empty() {
            let mut last = [0; 16];
            last[..rest.len()].copy_from_slice(rest);
            last[rest.len()] = 1;
            self.block(key, &last, 0);
            last.zeroize();
        }
    }

    #[inline(always)]
    fn block(&mut self, key: &PolyKey, block: &Block, end: u32) {
        let mut h = self.limbs;
        for (limb, more) in h.iter_mut().zip(limbs(u128::from_le_bytes(*block), end)) {
            *limb = limb.wrapping_add(more);
        }
        let [r0, r1, r2, r3, r4] = key.limbs;
        let [_, s1, s2, s3, s4] = key.limbs.map(times_five);
        // 2^130 is 5: what leaves at the top comes back at the bottom five times. Limbs below 2^27.1 times multipliers
        // below 5 · 2^26, five of them, stay below 2^58.
        let product = |multipliers: [u32; 5], carry: u64| {
            h.iter()
                .zip(multipliers)
                .fold(carry, |sum, (limb, by)| sum.wrapping_add(u64::from(*limb).wrapping_mul(u64::from(by))))
        };
        let d0 = product([r0, s4, s3, s2, s1], 0);
        let d1 = product([r1, r0, s4, s3, s2], d0 >> 26);
        let d2 = product([r2, r1, r0, s4, s3], d1 >> 26);
        let d3 = product([r3, r2, r1, r0, s4], d2 >> 26);
        let d4 = product([r4, r3, r2, r1, r0], d3 >> 26);
        // Below 2^26 + 5 · 2^32.
        let bottom = (d0 & u64::from(MASK)).wrapping_add((d4 >> 26).wrapping_mul(5));
        self.limbs = [
            bottom as u32 & MASK,
            (d1 as u32 & MASK).wrapping_add((bottom >> 26) as u32),
            d2 as u32 & MASK,
            d3 as u32 & MASK,
            d4 as u32 & MASK,
        ];
    }

    /// The hash: what is left modulo 2^130 - 5, and of that the low 128 bits.
    pub(crate) fn finish(&self) -> u128 {
        let mut limbs = self.limbs;
        for _ in 0..2 {
            for i in 0..4 {
                limbs[i + 1] = limbs[i + 1].wrapping_add(limbs[i] >> 26);
                limbs[i] &= MASK;
            }
            limbs[0] = limbs[0].wrapping_add(times_five(limbs[4] >> 26));
            limbs[4] &= MASK;
        }
        limbs[1] = limbs[1].wrapping_add(limbs[0] >> 26);
        limbs[0] &= MASK;
        // At least 2^130 - 5 is what reaches 2^130 when 5 is added.
        let carry = limbs.iter().fold(5, |carry, limb| limb.wrapping_add(carry) >> 26);
        let [l0, l1, l2, l3, l4] = limbs.map(u128::from);
        let joined = l0 | l1 << 26 | l2 << 52 | l3 << 78 | l4 << 104;
        joined.wrapping_add(u128::from(times_five(carry)))
    }
}

impl Drop for Poly {
    fn drop(&mut self) {
        self.limbs.zeroize();
    }
}

#[inline(always)]
fn times_five(limb: u32) -> u32 {
    limb.wrapping_mul(5)
}

#[inline(always)]
fn limbs(value: u128, end: u32) -> [u32; 5] {
    [
        value as u32 & MASK,
        (value >> 26) as u32 & MASK,
        (value >> 52) as u32 & MASK,
        (value >> 78) as u32 & MASK,
        (value >> 104) as u32 | end,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source: RFC 8439, 2.5.2; the second half of its key is added here.
    #[test]
    fn a_tag_is_that_of_rfc_8439() {
        let key = 0x85d6_be78_5755_6d33_7f44_52fe_42d5_06a8_u128.to_be_bytes();
        let addend = u128::from_le_bytes(0x0103_808a_fb0d_b2fd_4abf_f6af_4149_f51b_u128.to_be_bytes());
        let mut poly = Poly::new();
        poly.update(&PolyKey::new(&key), b"Cryptographic Forum Research Group");
        let published = 0xa806_1dc1_3051_36c6_c22b_8baf_0c01_27a9_u128.to_be_bytes();
        assert_eq!(poly.finish().wrapping_add(addend).to_le_bytes(), published);
    }

    /// Source: RFC 8439, A.3, vectors 7 to 11, where a sum comes near 2^130 - 5 or beyond.
    #[test]
    fn sums_around_the_modulus_are_reduced_as_in_rfc_8439() {
        let ones = [0xff; 16];
        let hash = |r: u128, blocks: &[u128]| {
            let mut poly = Poly::new();
            for block in blocks {
                poly.update(&PolyKey::new(&r.to_le_bytes()), &block.to_le_bytes());
            }
            poly.finish()
        };
        let ones = u128::from_le_bytes(ones);
        assert_eq!(hash(2, &[ones]), 3);
        assert_eq!(hash(1, &[ones, ones ^ 0x0f, 0x11]), 5);
        assert_eq!(hash(1, &[ones, u128::from_le_bytes([0xfe; 16]) ^ 0x05, u128::from_le_bytes([1; 16])]), 0);
        assert_eq!(hash(2, &[ones ^ 2]), ones ^ 5);
    }
}
