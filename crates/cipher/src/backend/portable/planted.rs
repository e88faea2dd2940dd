//! A word that leaks, put under the project's own bit-sliced AES: the check of constant time must see that, and must see
//! nothing with the word as it is.

use core::ops::{BitAnd, BitXor};

use super::word::{Planes, Sliced, Word};
use super::{add, add_0x63, mix_columns, sbox};

/// A word of 64 bits that leaks: SubBytes reads a table at an index made of the state. Otherwise like `u64`.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Leaky(u64);

impl BitXor for Leaky {
    type Output = Self;

    fn bitxor(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }
}

impl BitAnd for Leaky {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Word for Leaky {
    const ZERO: Self = Self(0);

    fn bytes(byte: u8) -> Self {
        Self(Word::bytes(byte))
    }

    fn up<const BITS: i32>(self) -> Self {
        Self(self.0.up::<BITS>())
    }

    fn down<const BITS: i32>(self) -> Self {
        Self(self.0.down::<BITS>())
    }

    fn taken_from_below<const ROWS: u32, const N: u32>(self) -> Self {
        Self(self.0.taken_from_below::<ROWS, N>())
    }

    fn odd_rows_turned_by_two(self) -> Self {
        Self(self.0.odd_rows_turned_by_two())
    }

    fn sub_bytes(planes: &mut Planes<Self>) {
        // The leak: a table is read at an index made of the state.
        const TABLE: [u64; 4] = [0, 0, 1 << 63, 1 << 31];
        let index = planes[0].0 >> 62;
        planes[1].0 ^= core::hint::black_box(&TABLE)[index as usize];
        sbox::sub_bytes(planes);
    }

    fn wipe(planes: &mut Planes<Self>) {
        planes.fill(Self(0));
    }
}

/// Encrypts with the word as it is and with the one that leaks. `make_secret` and `make_public` tell the check which bytes
/// are secret.
pub fn encrypt_with_both(make_secret: fn(&mut [u8]), make_public: fn(&mut [u8])) {
    encrypt(|word: u64| word, |word| word, make_secret, make_public);
    encrypt(Leaky, |word| word.0, make_secret, make_public);
}

/// Three rounds of four blocks.
fn encrypt<W: Word>(
    word: impl Fn(u64) -> W,
    value: impl Fn(W) -> u64,
    make_secret: fn(&mut [u8]),
    make_public: fn(&mut [u8]),
) {
    let mut blocks = [[7; 16]; 4];
    make_secret(blocks.as_flattened_mut());
    let mut state = <u64 as Sliced<4>>::pack(&blocks).map(&word);
    let key = state;
    for _ in 0..3 {
        W::sub_bytes(&mut state);
        add_0x63(&mut state);
        mix_columns::<0, W>(&mut state);
        add(&mut state, &key);
    }
    blocks = <u64 as Sliced<4>>::unpack(&state.map(&value));
    make_public(blocks.as_flattened_mut());
    assert_ne!(blocks, [[7; 16]; 4]);
}
