//! The lengths of the keys that a specification takes.

use super::{Cipher, CipherSpec, KeyedRule, MAX_KEYS, Mode};

/// In bytes, shortest first.
pub(super) fn of(spec: &CipherSpec) -> &'static [usize] {
    let turns = spec.keys.trailing_zeros() as usize % TURNS;
    match (spec.cipher, spec.mode, spec.iv.keyed) {
        (Cipher::Null, ..) => &[],
        (cipher, mode, _) if !mode.takes(cipher) => &[],
        (_, Mode::Adiantum | Mode::HPolyC | Mode::Stream, _) => &[32],
        (Cipher::Blowfish, ..) => &BLOWFISH,
        (Cipher::Cast5, ..) => &CAST5,
        (Cipher::Des3Ede, ..) => &[24],
        (Cipher::Noekeon, _, Some(KeyedRule::Lmk)) => &LMK[..2],
        (.., Some(KeyedRule::Lmk)) => &LMK,
        (Cipher::Noekeon, _, Some(KeyedRule::Tcw)) => &[48],
        (.., Some(KeyedRule::Tcw)) => &[48, 56, 64],
        (.., Some(KeyedRule::Elephant)) => &[32, 48, 64],
        (Cipher::Noekeon, Mode::Xts | Mode::Lrw, _) => core::slice::from_ref(&XTS[turns][0]),
        (Cipher::Noekeon, ..) => core::slice::from_ref(&SINGLE[turns][0]),
        (_, Mode::Xts, _) => &XTS[turns],
        (_, Mode::Lrw, _) => &LRW[turns],
        (_, Mode::Cbc | Mode::CbcCts | Mode::Ecb | Mode::Ctr | Mode::Hctr2 | Mode::Xex1, _) => &SINGLE[turns],
    }
}

/// Numbers of keys that may take turns: 1, 2, 4 … [`MAX_KEYS`].
const TURNS: usize = MAX_KEYS.trailing_zeros() as usize + 1;

const SINGLE: [[usize; 3]; TURNS] = lens([16, 24, 32]);
const XTS: [[usize; 3]; TURNS] = lens([32, 48, 64]);
const LRW: [[usize; 3]; TURNS] = lens([32, 40, 48]);
pub(super) const BLOWFISH: [usize; 53] = counting_from(4);
pub(super) const CAST5: [usize; 12] = counting_from(5);

/// 64 keys, or 64 and one that has the seed.
const LMK: [usize; 6] = [64 * 16, 65 * 16, 64 * 24, 65 * 24, 64 * 32, 65 * 32];

/// The lengths of one key, of two keys, of four ….
const fn lens(single: [usize; 3]) -> [[usize; 3]; TURNS] {
    let [a, b, c] = single;
    let mut lens = [single; TURNS];
    let mut turns = 0;
    while turns < TURNS {
        lens[turns] = [a << turns, b << turns, c << turns];
        turns += 1;
    }
    lens
}

const fn counting_from<const N: usize>(first: usize) -> [usize; N] {
    let mut lens = [0; N];
    let mut i = 0;
    while i < N {
        lens[i] = first + i;
        i += 1;
    }
    lens
}
