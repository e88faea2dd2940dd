//! NH with four passes (Adiantum paper, 2; kernel `crypto/nhpoly1305.c`): 1024 bytes become 32.
//!
//! A message is taken in strides of 16 bytes, and so is the key, of which pass p uses strides from p on.

use zeroize::Zeroize;

use crate::block::Block;

/// Bytes hashed at a time.
pub(crate) const CHUNK: usize = 1024;

/// Strides of key: those of a message, and three more for the later passes.
pub(crate) const STRIDES: usize = CHUNK / 16 + 3;

/// The key, with the two halves of each stride apart, so that vectors of either can be loaded at any stride; what
/// follows the last stride is zero. Wiped on drop.
#[cfg_attr(any(target_arch = "x86_64", target_arch = "aarch64"), repr(C, align(64)))]
pub struct NhKey {
    pub(crate) low: [[u32; 2]; NhKey::PADDED],
    pub(crate) high: [[u32; 2]; NhKey::PADDED],
}

impl NhKey {
    /// Strides that may be read.
    pub(crate) const PADDED: usize = STRIDES + 5;

    pub(crate) const EMPTY: Self = Self { low: [[0; 2]; Self::PADDED], high: [[0; 2]; Self::PADDED] };

    /// Sets the strides from number `at` on, as far as the key goes.
    pub(crate) fn set(&mut self, at: usize, bytes: &[u8]) {
        let halves = self.low.iter_mut().zip(&mut self.high).take(STRIDES).skip(at);
        for ((low, high), bytes) in halves.zip(bytes.as_chunks::<16>().0) {
            let [w0, w1, w2, w3] = words(bytes);
            *low = [w0, w1];
            *high = [w2, w3];
        }
    }

    pub(crate) fn wipe(&mut self) {
        self.low.zeroize();
        self.high.zeroize();
    }

    /// Hashes at most [`CHUNK`] bytes: whole strides, and less than one, which zeros fill.
    pub(crate) fn hash(&self, strides: &[Block], rest: &[u8]) -> [u64; 4] {
        let mut sums = [0; 4];
        let keys = self.low.array_windows::<4>().zip(self.high.array_windows::<4>());
        for (stride, (low, high)) in strides.iter().zip(keys) {
            add(&mut sums, words(stride), low, high);
        }
        let at = strides.len();
        if let (false, Some(low), Some(high)) =
            (rest.is_empty(), self.low.get(at..at + 4), self.high.get(at..at + 4))
        {
            let mut last = [0; 16];
            last[..rest.len()].copy_from_slice(rest);
            if let (Some(low), Some(high)) = (low.first_chunk(), high.first_chunk()) {
                add(&mut sums, words(&last), low, high);
            }
            last.zeroize();
        }
        sums
    }
}

impl Drop for NhKey {
    fn drop(&mut self) {
        self.wipe();
    }
}

#[inline(always)]
fn add(sums: &mut [u64; 4], [m0, m1, m2, m3]: [u32; 4], low: &[[u32; 2]; 4], high: &[[u32; 2]; 4]) {
    // Unrolled, for compilers that are told to save code: their loop keeps the sums in memory, and takes more.
    let pass = |sum: &mut u64, [k0, k1]: [u32; 2], [k2, k3]: [u32; 2]| {
        let first = wide_product(m0.wrapping_add(k0), m2.wrapping_add(k2));
        let second = wide_product(m1.wrapping_add(k1), m3.wrapping_add(k3));
        *sum = sum.wrapping_add(first).wrapping_add(second);
    };
    let [s0, s1, s2, s3] = sums;
    pass(s0, low[0], high[0]);
    pass(s1, low[1], high[1]);
    pass(s2, low[2], high[2]);
    pass(s3, low[3], high[3]);
}

/// Never overflows; a build that checks that would branch on secrets.
#[inline(always)]
fn wide_product(a: u32, b: u32) -> u64 {
    u64::from(a).wrapping_mul(u64::from(b))
}

#[inline(always)]
fn words(stride: &[u8; 16]) -> [u32; 4] {
    let value = u128::from_le_bytes(*stride);
    [value as u32, (value >> 32) as u32, (value >> 64) as u32, (value >> 96) as u32]
}
