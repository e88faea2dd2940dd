//! AEGIS-128 (H. Wu and B. Preneel, "AEGIS: a fast authenticated encryption algorithm", version 1.1; the kernel's `aegis128`) and
//! AEGIS-256 (draft-irtf-cfrg-aegis-aead, 5), over data units whose associated data is a sector number and the nonce.
//!
//! The state is `N` cipher blocks: five of AEGIS-128, six of AEGIS-256. The one has a key and a nonce of a block, the other of two.

use zeroize::Zeroize;

use crate::block::{Block, xor};

/// The Fibonacci sequence modulo 256.
pub(crate) const CONSTANTS: [Block; 2] = [
    [0x00, 0x01, 0x01, 0x02, 0x03, 0x05, 0x08, 0x0d, 0x15, 0x22, 0x37, 0x59, 0x90, 0xe9, 0x79, 0x62],
    [0xdb, 0x3d, 0x18, 0x55, 0x6d, 0xc2, 0x2f, 0xf1, 0x20, 0x11, 0x31, 0x42, 0x73, 0xb5, 0x28, 0xdd],
];

/// Updates after the last block of data.
pub(crate) const LAST_UPDATES: usize = 7;

/// A key: one block of AEGIS-128, two of AEGIS-256. Wiped on drop.
pub(crate) struct AegisKey<const N: usize>([Block; 2]);

impl<const N: usize> AegisKey<N> {
    /// Cipher blocks in a key, and in a nonce.
    pub(crate) const KEY_BLOCKS: usize = N - 4;
    /// Bytes in a key, and in a nonce.
    pub(crate) const LEN: usize = 16 * Self::KEY_BLOCKS;
    /// Cipher blocks of associated data.
    pub(crate) const AD_BLOCKS: usize = (8 + Self::LEN).div_ceil(16);

    /// `None` if the key has another length.
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        let mut new = Self([[0; 16]; 2]);
        let to = new.0.as_flattened_mut().get_mut(..Self::LEN)?;
        if to.len() != key.len() {
            return None;
        }
        to.copy_from_slice(key);
        Some(new)
    }

    /// The state before the first update, under a nonce.
    pub(crate) fn start(&self, nonce: &[Block; 2]) -> [Block; N] {
        let [first, second] = self.0;
        let mut state = [[0; 16]; N];
        let known = if N == 5 {
            let [low, high] = CONSTANTS.map(|constant| xor(&first, &constant));
            [xor(&first, &nonce[0]), CONSTANTS[1], CONSTANTS[0], low, high, [0; 16]]
        } else {
            let [zero, one] = CONSTANTS;
            let keyed = [xor(&first, &nonce[0]), xor(&second, &nonce[1])];
            [keyed[0], keyed[1], one, zero, xor(&first, &zero), xor(&second, &one)]
        };
        state.iter_mut().zip(known).for_each(|(to, from)| *to = from);
        state
    }

    /// What is mixed in before any data: this, ten or sixteen updates in all.
    pub(crate) fn first_updates(&self, nonce: &[Block; 2]) -> ([Block; 4], usize, usize) {
        let [first, second] = self.0;
        let keyed = [xor(&first, &nonce[0]), xor(&second, &nonce[1])];
        if N == 5 {
            ([first, keyed[0], [0; 16], [0; 16]], 2, 5)
        } else {
            ([first, second, keyed[0], keyed[1]], 4, 4)
        }
    }

    /// Bits of associated data and of a data unit, as the last updates want them.
    pub(crate) fn lengths(unit: usize) -> Block {
        let [associated, data] = [8 + Self::LEN, unit].map(|bytes| 8 * bytes as u128);
        (associated | data << 64).to_le_bytes()
    }
}

impl<const N: usize> Drop for AegisKey<N> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// What a data unit has beside its data.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub(crate) nonce: [Block; 2],
    /// The sector number and the nonce, filled up with zeros.
    pub(crate) associated: [Block; 3],
}

impl Head {
    pub(crate) const EMPTY: Self = Self { nonce: [[0; 16]; 2], associated: [[0; 16]; 3] };

    /// A nonce of 16 or 32 bytes.
    pub(crate) fn new(sector: u64, nonce: &[u8]) -> Self {
        let mut new = Self::EMPTY;
        new.nonce.as_flattened_mut().iter_mut().zip(nonce).for_each(|(to, from)| *to = *from);
        let associated = sector.to_le_bytes();
        let associated = associated.iter().chain(nonce);
        new.associated.as_flattened_mut().iter_mut().zip(associated).for_each(|(to, from)| *to = *from);
        new
    }
}

/// Data units to be encrypted or decrypted in place.
pub(crate) struct Job<'a, const N: usize> {
    pub(crate) key: &'a AegisKey<N>,
    /// One of each unit.
    pub(crate) heads: &'a [Head],
    /// Bytes in a unit: a multiple of 64.
    pub(crate) unit: usize,
    pub(crate) data: &'a mut [u8],
    /// One of each unit, to be written.
    pub(crate) tags: &'a mut [Block],
}

/// The state's contribution to the keystream.
#[inline(always)]
fn keystream<const N: usize>(state: &[Block; N]) -> Block {
    let and = u128::from_ne_bytes(state[2]) & u128::from_ne_bytes(state[3]);
    let z = xor(&xor(&state[1], &state[4]), &and.to_ne_bytes());
    if N > 5 { xor(&z, &state[N - 1]) } else { z }
}

/// Units that a portable implementation has in flight: 40 or 48 blocks fill the widest word.
const UNITS: usize = 8;

/// For any CPU. `rounds` does SubBytes, ShiftRows and MixColumns of each block.
pub(crate) fn portable<const N: usize, const OPEN: bool>(job: Job<'_, N>, rounds: impl Fn(&mut [Block])) {
    let Job { key, heads, unit, data, tags } = job;
    let groups = heads.chunks(UNITS).zip(data.chunks_mut(unit * UNITS)).zip(tags.chunks_mut(UNITS));
    for ((heads, data), tags) in groups {
        let mut states = [[[0; 16]; N]; UNITS];
        let states = &mut states[..heads.len()];
        let mut messages = [[0; 16]; UNITS];
        let update = |states: &mut [[Block; N]], messages: &[Block; UNITS]| {
            let mut next = [[[0; 16]; N]; UNITS];
            let next = &mut next[..states.len()];
            next.copy_from_slice(states);
            rounds(next.as_flattened_mut());
            for ((state, rounds), message) in states.iter_mut().zip(next).zip(messages) {
                rounds.rotate_right(1);
                for (to, round) in state.iter_mut().zip(rounds.iter()) {
                    *to = xor(to, round);
                }
                state[0] = xor(&state[0], message);
            }
        };
        for (state, head) in states.iter_mut().zip(heads) {
            *state = key.start(&head.nonce);
        }
        let (_, first, times) = key.first_updates(&[[0; 16]; 2]);
        for number in 0..first * times {
            for (message, head) in messages.iter_mut().zip(heads) {
                *message = key.first_updates(&head.nonce).0[number % first];
            }
            update(states, &messages);
        }
        for number in 0..AegisKey::<N>::AD_BLOCKS {
            for (message, head) in messages.iter_mut().zip(heads) {
                *message = head.associated[number];
            }
            update(states, &messages);
        }
        for at in 0..unit / 16 {
            let units = data.chunks_exact_mut(unit);
            for ((unit, state), message) in units.zip(states.iter()).zip(&mut messages) {
                if let Some(block) = unit.as_chunks_mut().0.get_mut(at) {
                    let out = xor(block, &keystream(state));
                    *message = if OPEN { out } else { *block };
                    *block = out;
                }
            }
            update(states, &messages);
        }
        let lengths = AegisKey::<N>::lengths(unit);
        for (message, state) in messages.iter_mut().zip(states.iter()) {
            *message = xor(&lengths, &state[3]);
        }
        for _ in 0..LAST_UPDATES {
            update(states, &messages);
        }
        for (tag, state) in tags.iter_mut().zip(states.iter()) {
            *tag = state.iter().fold([0; 16], |sum, block| xor(&sum, block));
        }
        states.as_flattened_mut().as_flattened_mut().zeroize();
        messages.zeroize();
    }
}
