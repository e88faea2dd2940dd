//! Poly1305 as a hash of 128 bits (RFC 8439, 2.5, without adding the second half of the key), in words of 32 bits for
//! CPUs that multiply 32 bits by 32. Sums wrap in name only, so that no build checks them and branches on secrets.

use zeroize::Zeroize;

use crate::block::Block;

/// A clamped multiplier: below 2^124, each word below 2^28 and all but the first multiples of 4. Wiped on drop.
pub struct PolyKey {
    words: [u32; 4],
}

impl PolyKey {
    pub(crate) const EMPTY: Self = Self { words: [0; 4] };

    #[cfg(feature = "internals")]
    pub(crate) fn new(key: &Block) -> Self {
        let mut new = Self::EMPTY;
        new.set(key);
        new
    }

    pub(crate) fn set(&mut self, key: &Block) {
        self.words = words(u128::from_le_bytes(*key) & 0x0fff_fffc_0fff_fffc_0fff_fffc_0fff_ffff);
    }

    pub(crate) fn wipe(&mut self) {
        self.words.zeroize();
    }

    /// In limbs of 44 bits, for vectors that multiply 52.
    #[allow(dead_code, reason = "only a backend with such vectors asks for it")]
    pub(crate) fn long_limbs(&self) -> [u64; 3] {
        let key = joined(self.words);
        let mask = (1 << 44) - 1;
        [key as u64 & mask, (key >> 44) as u64 & mask, (key >> 88) as u64]
    }

    /// In limbs of 26 bits, for vectors that can't carry.
    #[allow(dead_code, reason = "only backends with vectors ask for it")]
    pub(crate) fn limbs(&self) -> [u32; 5] {
        limbs(joined(self.words), 0)
    }
}

impl Drop for PolyKey {
    fn drop(&mut self) {
        self.wipe();
    }
}

/// What was hashed so far: four words, and at most 4 times 2^128. Wiped on drop.
#[derive(Clone)]
pub struct Poly {
    words: [u32; 4],
    top: u32,
}

impl Poly {
    pub(crate) fn new() -> Self {
        Self { words: [0; 4], top: 0 }
    }

    /// In limbs of 26 bits, the last of little more.
    #[allow(dead_code, reason = "only backends with vectors ask for it")]
    pub(crate) fn limbs(&self) -> [u32; 5] {
        limbs(joined(self.words), self.top << 24)
    }

    /// Hashes bytes; what is less than a block at their end counts as a last block of its own.
    pub(crate) fn update(&mut self, key: &PolyKey, bytes: &[u8]) {
        let (blocks, rest) = bytes.as_chunks::<16>();
        self.blocks(key, blocks);
        self.rest(key, rest);
    }

    /// Hashes whole blocks.
    pub(crate) fn blocks(&mut self, key: &PolyKey, blocks: &[Block]) {
        for block in blocks {
            self.block(key, block, 1);
        }
    }

    /// Hashes less than a block, at the end.
    pub(crate) fn rest(&mut self, key: &PolyKey, rest: &[u8]) {
        if !rest.is_empty() {
            let mut last = [0; 16];
            last[..rest.len()].copy_from_slice(rest);
            last[rest.len()] = 1;
            self.block(key, &last, 0);
            last.zeroize();
        }
    }

    /// Adds a block, and `end` times 2^128, then multiplies.
    #[inline(always)]
    fn block(&mut self, key: &PolyKey, block: &Block, end: u32) {
        let (sum, carry) = joined(self.words).overflowing_add(u128::from_le_bytes(*block));
        let [h0, h1, h2, h3] = words(sum);
        // At most 6.
        let h4 = self.top.wrapping_add(end).wrapping_add(carry.into());
        let [r0, r1, r2, r3] = key.words;
        // 2^130 is 5, so 2^128 times a multiple of 4 is five quarters of that.
        let [_, s1, s2, s3] = key.words.map(|word| word.wrapping_add(word >> 2));
        let product = |by: [u32; 4], top: u32, carry: u64| {
            // Five products of less than 2^32 and 5 · 2^26, and a carry: below 2^63.
            let multiplied = |word: u32, by: u32| u64::from(word).wrapping_mul(u64::from(by));
            carry
                .wrapping_add(multiplied(h0, by[0]))
                .wrapping_add(multiplied(h1, by[1]))
                .wrapping_add(multiplied(h2, by[2]))
                .wrapping_add(multiplied(h3, by[3]))
                .wrapping_add(h4.wrapping_mul(top).into())
        };
        let d0 = product([r0, s3, s2, s1], 0, 0);
        let d1 = product([r1, r0, s3, s2], s1, d0 >> 32);
        let d2 = product([r2, r1, r0, s3], s2, d1 >> 32);
        let d3 = product([r3, r2, r1, r0], s3, d2 >> 32);
        // Below 6 · 2^28 + 2^31.
        let above = h4.wrapping_mul(r0).wrapping_add((d3 >> 32) as u32);
        let around = (above >> 2).wrapping_add(above & !3);
        let low = joined([d0 as u32, d1 as u32, d2 as u32, d3 as u32]);
        let (low, carry) = low.overflowing_add(around.into());
        self.words = words(low);
        self.top = (above & 3).wrapping_add(carry.into());
    }

    /// The hash: what is left modulo 2^130 - 5, and of that the low 128 bits.
    pub(crate) fn finish(&self) -> u128 {
        let around = (self.top >> 2).wrapping_mul(5);
        let (low, carry) = joined(self.words).overflowing_add(around.into());
        let top = (self.top & 3).wrapping_add(carry.into());
        // At least 2^130 - 5 is what reaches 2^130 when 5 is added.
        let (_, carry) = low.overflowing_add(5);
        let beyond = top.wrapping_add(carry.into()) >> 2;
        low.wrapping_add(beyond.wrapping_mul(5).into())
    }
}

impl Drop for Poly {
    fn drop(&mut self) {
        self.words.zeroize();
        self.top.zeroize();
    }
}

#[inline(always)]
fn words(value: u128) -> [u32; 4] {
    [value as u32, (value >> 32) as u32, (value >> 64) as u32, (value >> 96) as u32]
}

#[inline(always)]
fn joined([w0, w1, w2, w3]: [u32; 4]) -> u128 {
    u128::from(w0) | u128::from(w1) << 32 | u128::from(w2) << 64 | u128::from(w3) << 96
}

fn limbs(value: u128, above: u32) -> [u32; 5] {
    const MASK: u32 = (1 << 26) - 1;
    let limb = |shift: u32| (value >> shift) as u32 & MASK;
    [limb(0), limb(26), limb(52), limb(78), ((value >> 104) as u32).wrapping_add(above)]
}

#[cfg(feature = "internals")]
pub(crate) mod tests {
    use super::*;

    /// Source: RFC 8439, 2.5.2; the second half of its key is added here.
    pub(crate) fn a_tag_is_that_of_rfc_8439() {
        let key = 0x85d6_be78_5755_6d33_7f44_52fe_42d5_06a8_u128.to_be_bytes();
        let addend = u128::from_le_bytes(0x0103_808a_fb0d_b2fd_4abf_f6af_4149_f51b_u128.to_be_bytes());
        let mut poly = Poly::new();
        poly.update(&PolyKey::new(&key), b"Cryptographic Forum Research Group");
        let published = 0xa806_1dc1_3051_36c6_c22b_8baf_0c01_27a9_u128.to_be_bytes();
        assert_eq!(poly.finish().wrapping_add(addend).to_le_bytes(), published);
    }

    /// Source: RFC 8439, A.3, vectors 7 to 11, where a sum comes near 2^130 - 5 or beyond.
    pub(crate) fn sums_around_the_modulus_are_reduced_as_in_rfc_8439() {
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
