//! Whirlpool (ISO/IEC 10118-3; Barreto, Rijmen: "The Whirlpool Hashing Function", 2003).

use core::arch::x86_64::*;

use super::rows::{Box256, beside, load, matrix, store, xor3};
use super::{BLOCK, KeyBlocks};

/// Whirlpool. The 192 bytes of a header are three of its output blocks.
pub enum Whirlpool {}

beside!(Whirlpool, whirlpool::Whirlpool);

const ROUNDS: usize = 10;
/// The S-box of three small ones (section 7.2).
static S: [u8; 256] = sbox();
/// The constants of the rounds: bytes of the S-box in the first row.
static CONSTANTS: [[u8; BLOCK]; ROUNDS] = constants();
/// Where each byte of the state comes from when columns are shifted: column j by j rows.
static SHIFTED: [u8; BLOCK] = shifted();
/// Multiplication by 2, 4 and 8 modulo x^8 + x^4 + x^3 + x^2 + 1.
const BY: [u64; 3] = [multiplication(1), multiplication(2), multiplication(3)];

const fn sbox() -> [u8; 256] {
    const E: [u8; 16] = [0x1, 0xb, 0x9, 0xc, 0xd, 0x6, 0xf, 0x3, 0xe, 0x8, 0x7, 0x4, 0xa, 0x2, 0x5, 0x0];
    const R: [u8; 16] = [0x7, 0xc, 0xb, 0xd, 0xe, 0x4, 0x9, 0xf, 0x6, 0x3, 0x8, 0xa, 0x2, 0x5, 0x1, 0x0];
    let mut inverse = [0u8; 16];
    let mut i = 0;
    while i < 16 {
        inverse[E[i] as usize] = i as u8;
        i += 1;
    }
    let mut table = [0; 256];
    let mut x = 0;
    while x < 256 {
        let (high, low) = (E[x >> 4], inverse[x & 15]);
        let mixed = R[(high ^ low) as usize];
        table[x] = E[(high ^ mixed) as usize] << 4 | inverse[(low ^ mixed) as usize];
        x += 1;
    }
    table
}

const fn constants() -> [[u8; BLOCK]; ROUNDS] {
    let table = sbox();
    let mut constants = [[0; BLOCK]; ROUNDS];
    let mut at = 0;
    while at < 8 * ROUNDS {
        constants[at / 8][at % 8] = table[at];
        at += 1;
    }
    constants
}

const fn shifted() -> [u8; BLOCK] {
    let mut from = [0; BLOCK];
    let mut at = 0;
    while at < BLOCK {
        let (row, column) = (at / 8, at % 8);
        from[at] = (8 * ((row + 8 - column) % 8) + column) as u8;
        at += 1;
    }
    from
}

const fn multiplication(power: u32) -> u64 {
    let mut images = [0; 8];
    let mut bit = 0;
    while bit < 8 {
        let mut image = 1u16 << bit;
        let mut left = power;
        while left > 0 {
            image <<= 1;
            if image & 0x100 != 0 {
                image ^= 0x11d;
            }
            left -= 1;
        }
        images[bit] = image as u8;
        bit += 1;
    }
    matrix(images)
}

#[derive(Clone, Copy)]
struct Constants {
    sbox: Box256,
    shifted: __m512i,
    by2: __m512i,
    by4: __m512i,
    by8: __m512i,
}

impl Constants {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
    fn new() -> Self {
        let [by2, by4, by8] = BY;
        Self {
            sbox: Box256::new(&S),
            shifted: load(&SHIFTED),
            by2: _mm512_set1_epi64(by2.cast_signed()),
            by4: _mm512_set1_epi64(by4.cast_signed()),
            by8: _mm512_set1_epi64(by8.cast_signed()),
        }
    }

    /// SubBytes, ShiftColumns and MixRows, and a key that is added.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
    fn round(self, state: __m512i, key: __m512i) -> __m512i {
        let a = _mm512_permutexvar_epi8(self.shifted, self.sbox.of(state));
        // The circulant matrix has 1, 1, 4, 1, 8, 5, 2, 9: a byte in place d counts for as much in the one d places further.
        let (one, two) = (_mm512_rol_epi64::<8>(a), _mm512_rol_epi64::<16>(a));
        let (three, four) = (_mm512_rol_epi64::<24>(a), _mm512_rol_epi64::<32>(a));
        let (five, six) = (_mm512_rol_epi64::<40>(a), _mm512_rol_epi64::<48>(a));
        let seven = _mm512_rol_epi64::<56>(a);
        let once = xor3(xor3(a, one, three), five, seven);
        let twice = _mm512_gf2p8affine_epi64_epi8::<0>(six, self.by2);
        let fourfold = _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_xor_si512(two, five), self.by4);
        let eightfold = _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_xor_si512(four, seven), self.by8);
        xor3(xor3(once, twice, fourfold), eightfold, key)
    }
}

/// The states after each message, in the mode of Miyaguchi and Preneel.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn compressed<const N: usize>(
    constants: Constants,
    start: [__m512i; N],
    message: [__m512i; N],
) -> [__m512i; N] {
    let (mut key, mut state) = (start, start);
    for i in 0..N {
        state[i] = _mm512_xor_si512(start[i], message[i]);
    }
    for constant in &CONSTANTS {
        let constant = load(constant);
        for i in 0..N {
            key[i] = constants.round(key[i], constant);
        }
        for i in 0..N {
            state[i] = constants.round(state[i], key[i]);
        }
    }
    for i in 0..N {
        state[i] = xor3(state[i], start[i], message[i]);
    }
    state
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn chains<const N: usize>(key: &KeyBlocks, u: &mut [[u8; BLOCK]; N], t: &mut [[u8; BLOCK]; N], count: u32) {
    let constants = Constants::new();
    let zero = _mm512_setzero_si512();
    let [inner] = compressed(constants, [zero], [load(&key.inner)]);
    let [outer] = compressed(constants, [zero], [load(&key.outer)]);
    // The last block of each message: a one, zeros, and the length in bits.
    let mut padding = [0; BLOCK];
    padding[0] = 0x80;
    padding[BLOCK - 2..].copy_from_slice(&(2 * 8 * BLOCK as u16).to_be_bytes());
    let padding = load(&padding);
    let (mut digest, mut sum) = ([zero; N], [zero; N]);
    for i in 0..N {
        digest[i] = load(&u[i]);
        sum[i] = load(&t[i]);
    }
    for _ in 0..count {
        for start in [inner, outer] {
            digest = compressed(constants, [start; N], digest);
            digest = compressed(constants, digest, [padding; N]);
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
