//! NH with four passes (Adiantum paper, 2; kernel `crypto/nhpoly1305.c`): 1024 bytes become 32.
//!
//! A message is taken in strides of 16 bytes, and so is the key, of which pass p uses strides from p on.

use zeroize::Zeroize;

/// Bytes hashed at a time.
pub(crate) const CHUNK: usize = 1024;

/// Strides of key: those of a message, and three more for the later passes.
pub(crate) const STRIDES: usize = CHUNK / 16 + 3;

/// The key, with the two halves of each stride apart, so that vectors of either can be loaded at any stride; what
/// follows the last stride is zero. Wiped on drop.
#[repr(C, align(64))]
pub(crate) struct NhKey {
    pub(crate) low: [[u32; 2]; NhKey::PADDED],
    pub(crate) high: [[u32; 2]; NhKey::PADDED],
}

impl NhKey {
    /// Strides that may be read.
    pub(crate) const PADDED: usize = STRIDES + 5;

    pub(crate) fn zeroed() -> Self {
        Self { low: [[0; 2]; Self::PADDED], high: [[0; 2]; Self::PADDED] }
    }

    /// Sets the strides from number `at` on, as far as the key goes.
    pub(crate) fn set(&mut self, at: usize, bytes: &[u8]) {
        let halves = self.low.iter_mut().zip(&mut self.high).take(STRIDES).skip(at);
        for ((low, high), bytes) in halves.zip(bytes.as_chunks::<16>().0) {
            let [w0, w1, w2, w3] = words(bytes);
            *low = [w0, w1];
            *high = [w2, w3];
        }
    }

    /// Hashes at most [`CHUNK`] bytes; zeros fill the last stride.
    pub(crate) fn hash(&self, message: &[u8]) -> [u64; 4] {
        let mut sums = [0; 4];
        let (strides, rest) = message.as_chunks::<16>();
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
        self.low.zeroize();
        self.high.zeroize();
    }
}

#[inline(always)]
fn add(sums: &mut [u64; 4], [m0, m1, m2, m3]: [u32; 4], low: &[[u32; 2]; 4], high: &[[u32; 2]; 4]) {
    for ((sum, [k0, k1]), [k2, k3]) in sums.iter_mut().zip(low).zip(high) {
        let first = wide_product(m0.wrapping_add(*k0), m2.wrapping_add(*k2));
        let second = wide_product(m1.wrapping_add(*k1), m3.wrapping_add(*k3));
        *sum = sum.wrapping_add(first).wrapping_add(second);
    }
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
