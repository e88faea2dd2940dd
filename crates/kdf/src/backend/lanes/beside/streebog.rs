//! Streebog-512 (RFC 6986, GOST R 34.11-2012). Numbers of 512 bits are little-endian.

use core::arch::x86_64::*;

use super::rows::{Box256, beside, load, matrix, store, xor3};
use super::streebog_tables::{A, C, PI};
use super::{BLOCK, KeyBlocks};

/// Streebog-512. The 192 bytes of a header are three of its output blocks.
pub enum Streebog512 {}

beside!(Streebog512, streebog::Streebog512);

/// The map L as matrices of bits. Byte k of a row is the sum over j of what matrix (k, j) makes of byte j. In place r are those with j = k + r, k by k.
static LINEAR: [[u64; 8]; 8] = linear();
/// Where each byte comes from when rows and columns change places.
static TRANSPOSED: [u8; BLOCK] = transposed();

const fn linear() -> [[u64; 8]; 8] {
    let mut all = [[0; 8]; 8];
    let mut r = 0;
    while r < 8 {
        let mut k = 0;
        while k < 8 {
            let j = (k + r) % 8;
            let mut images = [0; 8];
            let mut bit = 0;
            while bit < 8 {
                // RFC 6986 lists the rows of the matrix from the highest bit of the input to the lowest.
                images[bit] = (A[63 - (8 * j + bit)] >> (8 * k)) as u8;
                bit += 1;
            }
            all[r][k] = matrix(images);
            k += 1;
        }
        r += 1;
    }
    all
}

const fn transposed() -> [u8; BLOCK] {
    let mut from = [0; BLOCK];
    let mut at = 0;
    while at < BLOCK {
        from[at] = (8 * (at % 8) + at / 8) as u8;
        at += 1;
    }
    from
}

#[derive(Clone, Copy)]
struct Constants {
    sbox: Box256,
    transposed: __m512i,
    linear: [__m512i; 8],
}

impl Constants {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
    fn new() -> Self {
        let mut linear = [_mm512_setzero_si512(); 8];
        for (register, words) in linear.iter_mut().zip(&LINEAR) {
            // SAFETY: eight words are 64 bytes.
            *register = unsafe { _mm512_loadu_si512(words.as_ptr().cast()) };
        }
        Self { sbox: Box256::new(&PI), transposed: load(&TRANSPOSED), linear }
    }

    /// The maps S, P and L.
    ///
    /// P makes columns of rows, and L is a map of rows. Here it is done on columns, so that P need not be done before it, but after it.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
    fn lps(self, state: __m512i) -> __m512i {
        let s = self.sbox.of(state);
        let m = self.linear;
        let a = _mm512_gf2p8affine_epi64_epi8::<0>(s, m[0]);
        let b = _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_alignr_epi64::<1>(s, s), m[1]);
        let c = _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_alignr_epi64::<2>(s, s), m[2]);
        let d = _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_alignr_epi64::<3>(s, s), m[3]);
        let e = _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_alignr_epi64::<4>(s, s), m[4]);
        let f = _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_alignr_epi64::<5>(s, s), m[5]);
        let g = _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_alignr_epi64::<6>(s, s), m[6]);
        let h = _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_alignr_epi64::<7>(s, s), m[7]);
        let all = _mm512_xor_si512(xor3(xor3(a, b, c), xor3(d, e, f), g), h);
        _mm512_permutexvar_epi8(self.transposed, all)
    }
}

/// The compression function g_N.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn compressed<const N: usize>(
    constants: Constants,
    start: [__m512i; N],
    counter: __m512i,
    message: [__m512i; N],
) -> [__m512i; N] {
    let (mut key, mut state) = (start, message);
    for i in 0..N {
        key[i] = constants.lps(_mm512_xor_si512(start[i], counter));
    }
    for constant in &C {
        let constant = load(constant);
        for i in 0..N {
            state[i] = constants.lps(_mm512_xor_si512(state[i], key[i]));
        }
        for i in 0..N {
            key[i] = constants.lps(_mm512_xor_si512(key[i], constant));
        }
    }
    for i in 0..N {
        state[i] = xor3(xor3(state[i], key[i], start[i]), message[i], _mm512_setzero_si512());
    }
    state
}

/// A number of bits that have been hashed.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn bits(count: i64) -> __m512i {
    _mm512_setr_epi64(count, 0, 0, 0, 0, 0, 0, 0)
}

/// The sum of all blocks of a message: of the key's, of a digest and of the padding, which is 1.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn summed(key_block: &[u8; BLOCK], digest: __m512i) -> __m512i {
    let (mut bytes, mut carry) = ([0; BLOCK], true);
    store(digest, &mut bytes);
    for (word, other) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(key_block.as_chunks::<8>().0) {
        let (sum, over) = u64::from_le_bytes(*word).overflowing_add(u64::from_le_bytes(*other));
        let (sum, again) = sum.overflowing_add(u64::from(carry));
        carry = over | again;
        *word = sum.to_le_bytes();
    }
    load(&bytes)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn chains<const N: usize>(key: &KeyBlocks, u: &mut [[u8; BLOCK]; N], t: &mut [[u8; BLOCK]; N], count: u32) {
    let constants = Constants::new();
    let zero = _mm512_setzero_si512();
    let (one_block, two_blocks, padding) = (bits(512), bits(1024), bits(1));
    let [inner] = compressed(constants, [zero], zero, [load(&key.inner)]);
    let [outer] = compressed(constants, [zero], zero, [load(&key.outer)]);
    let (mut digest, mut sum) = ([zero; N], [zero; N]);
    for i in 0..N {
        digest[i] = load(&u[i]);
        sum[i] = load(&t[i]);
    }
    for _ in 0..count {
        for (start, block) in [(inner, &key.inner), (outer, &key.outer)] {
            let mut sums = [zero; N];
            for i in 0..N {
                sums[i] = summed(block, digest[i]);
            }
            digest = compressed(constants, [start; N], one_block, digest);
            digest = compressed(constants, digest, two_blocks, [padding; N]);
            digest = compressed(constants, digest, zero, [two_blocks; N]);
            digest = compressed(constants, digest, zero, sums);
        }
        for i in 0..N {
            sum[i] = _mm512_xor_si512(sum[i], digest[i]);
        }
    }
    for i in 0..N {
        store(digest[i], &mut u[i]);
        store(sum[i], &mut t[i]);
    }
}
