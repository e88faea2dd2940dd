//! A vector register that leaks, put under the project's own ChaCha: the check of constant time must see that, and must see
//! nothing with the register as it is.

use core::arch::x86_64::{__m256i, _mm256_testz_si256};

use super::{Avx2, Batch, Lanes, Scratch, chacha};
use crate::backend::register::Register;
use crate::chacha::{ChaChaRounds, StreamKey};

/// A vector register that leaks: it skips the rotation of zeros. Otherwise like [`__m256i`].
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Leaky(__m256i);

impl Register for Leaky {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: what the trait asks for.
        unsafe { Self(Register::zero()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: what the trait asks for.
        unsafe { Self(Register::load(from)) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: what the trait asks for.
        unsafe { self.0.store(to) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: what the trait asks for.
        unsafe { Self(self.0.xor(other.0)) }
    }

    #[inline(always)]
    unsafe fn and(self, other: Self) -> Self {
        // SAFETY: what the trait asks for.
        unsafe { Self(self.0.and(other.0)) }
    }

    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        // SAFETY: what the trait asks for.
        unsafe { Self(self.0.or(other.0)) }
    }

    #[inline(always)]
    unsafe fn add64(self, other: Self) -> Self {
        // SAFETY: what the trait asks for.
        unsafe { Self(self.0.add64(other.0)) }
    }

    unsafe fn keep_together(_: &mut [Self; 8]) {
        unreachable!("ChaCha has no use for it")
    }
}

impl Lanes for Leaky {
    const WORDS: usize = 8;

    #[inline(always)]
    unsafe fn splat32(value: u32) -> Self {
        // SAFETY: what the trait asks for.
        unsafe { Self(Lanes::splat32(value)) }
    }

    #[inline(always)]
    unsafe fn splat64(value: u64) -> Self {
        // SAFETY: what the trait asks for.
        unsafe { Self(Lanes::splat64(value)) }
    }

    #[inline(always)]
    unsafe fn add32(self, other: Self) -> Self {
        // SAFETY: what the trait asks for.
        unsafe { Self(self.0.add32(other.0)) }
    }

    #[inline(always)]
    unsafe fn rotate32<const BITS: i32>(self) -> Self {
        // SAFETY: what the trait asks for.
        unsafe {
            // The leak.
            if _mm256_testz_si256(self.0, self.0) == 1 { self } else { Self(self.0.rotate32::<BITS>()) }
        }
    }

    #[cfg(feature = "serpent")]
    unsafe fn up32<const BITS: i32>(self) -> Self {
        unreachable!("ChaCha has no use for it")
    }

    #[cfg(feature = "serpent")]
    unsafe fn turned_left32<const UP: i32, const DOWN: i32>(self) -> Self {
        unreachable!("ChaCha has no use for it")
    }

    #[cfg(feature = "serpent")]
    unsafe fn transposed32(_: [Self; 4]) -> [Self; 4] {
        unreachable!("ChaCha has no use for it")
    }

    unsafe fn up64<const BITS: i32>(self) -> Self {
        unreachable!("ChaCha has no use for it")
    }

    unsafe fn down64<const BITS: i32>(self) -> Self {
        unreachable!("ChaCha has no use for it")
    }

    unsafe fn product(self, _: Self) -> Self {
        unreachable!("ChaCha has no use for it")
    }

    unsafe fn add_products(_: Self, _: Self, _: Self) -> Self {
        unreachable!("ChaCha has no use for it")
    }

    unsafe fn sums(_: [Self; 4], _: &mut [u64; 4]) {
        unreachable!("ChaCha has no use for it")
    }

    unsafe fn halves(_: *const u8) -> (Self, Self) {
        unreachable!("ChaCha has no use for it")
    }

    unsafe fn transpose64(_: &mut [Self; 8]) {
        unreachable!("ChaCha has no use for it")
    }

    #[inline(always)]
    unsafe fn store_blocks(words: &[Self; 16], to: *mut u8) {
        // SAFETY: what the trait asks for.
        unsafe { Lanes::store_blocks(&words.map(|word| word.0), to) }
    }
}

/// # Safety
///
/// The CPU has AVX2, and the batch is what it says.
#[target_feature(enable = "avx2")]
unsafe fn stream<V: Lanes>(key: &StreamKey, scratch: &mut Scratch, batch: Batch) {
    // SAFETY: the caller has AVX2, and a batch that is what it says.
    unsafe { chacha::short_nonce_stream::<V>(key, scratch, batch) }
}

/// Encrypts with the register as it is and with the one that leaks. `make_secret` and `make_public` tell the check which
/// bytes are secret.
pub fn encrypt_with_both(make_secret: fn(&mut [u8]), make_public: fn(&mut [u8])) {
    encrypt::<__m256i>(make_secret, make_public);
    encrypt::<Leaky>(make_secret, make_public);
}

fn encrypt<V: Lanes>(make_secret: fn(&mut [u8]), make_public: fn(&mut [u8])) {
    Avx2::detect().expect("the check of constant time needs a CPU with AVX2");
    let mut key = [7; 32];
    make_secret(&mut key);
    let key = StreamKey::new(&key, ChaChaRounds::Twelve);
    let mut data = [[1; 512]; 3];
    make_secret(data.as_flattened_mut());
    let bytes = data.as_flattened_mut().as_mut_ptr();
    let batch = Batch { src: bytes, dst: bytes, len: 512, count: 3 };
    // SAFETY: AVX2 was detected, and there are three units of 512 bytes.
    unsafe { stream::<V>(&key, &mut Scratch::new(), batch) };
    make_public(data.as_flattened_mut());
    assert_ne!(data, [[1; 512]; 3]);
}
