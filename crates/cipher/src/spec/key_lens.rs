//! The lengths of the keys that a specification takes.

use super::{Cipher, CipherSpec, KeyedRule};
use crate::mode::facts::{KeyLens, TURNS};

/// In bytes, shortest first.
pub(super) fn of(spec: &CipherSpec) -> &'static [usize] {
    match (spec.cipher, spec.mode, spec.iv.keyed) {
        (Cipher::Null, ..) => &[],
        (cipher, mode, _) if !mode.takes(cipher) => &[],
        (Cipher::Blowfish, ..) => &BLOWFISH,
        (Cipher::Cast5, ..) => &CAST5,
        (Cipher::Des3Ede, ..) => &[24],
        (Cipher::Kuznyechik, _, Some(KeyedRule::Lmk)) => &LMK[4..],
        (Cipher::Kuznyechik, _, Some(KeyedRule::Tcw | KeyedRule::Elephant)) => &[64],
        (Cipher::Noekeon, _, Some(KeyedRule::Lmk)) => &LMK[..2],
        (.., Some(KeyedRule::Lmk)) => &LMK,
        (Cipher::Noekeon, _, Some(KeyedRule::Tcw)) => &[48],
        (.., Some(KeyedRule::Tcw)) => &[48, 56, 64],
        (.., Some(KeyedRule::Elephant)) => &[32, 48, 64],
        (Cipher::Noekeon, mode, _) => &of_mode(mode.facts().key_lens, spec.keys)[..1],
        // Of each mode, the length for the longest keys.
        (Cipher::Kuznyechik, mode, _) => {
            of_mode(mode.facts().key_lens, spec.keys).last().map_or(&[], core::slice::from_ref)
        }
        (_, mode, _) => of_mode(mode.facts().key_lens, spec.keys),
    }
}

fn of_mode(key_lens: KeyLens, keys: usize) -> &'static [usize] {
    match key_lens {
        KeyLens::OneKey(lens) => lens,
        KeyLens::InTurns(lens) => &lens[keys.trailing_zeros() as usize % TURNS],
    }
}

pub(super) const BLOWFISH: [usize; 53] = counting_from(4);
pub(super) const CAST5: [usize; 12] = counting_from(5);

/// 64 keys, or 64 and one that has the seed.
const LMK: [usize; 6] = [64 * 16, 65 * 16, 64 * 24, 65 * 24, 64 * 32, 65 * 32];

const fn counting_from<const N: usize>(first: usize) -> [usize; N] {
    let mut lens = [0; N];
    let mut i = 0;
    while i < N {
        lens[i] = first + i;
        i += 1;
    }
    lens
}
