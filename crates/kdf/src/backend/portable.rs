//! Any CPU: the library's compression function on one block after the other, which a CPU that reorders instructions
//! overlaps where it has instructions for SHA-256.

use atrest_secret::wipe;
use sha2::block_api::compress256;
use zeroize::Zeroize;

use super::{Keyed, MAX_BLOCKS, PADDING, Words};

pub(super) fn iterate(key: &Keyed, u: &mut [Words], t: &mut [Words], count: u32) {
    let mut messages = [[[0u8; 64]; 1]; MAX_BLOCKS];
    let messages = &mut messages[..u.len()];
    for (message, u) in messages.iter_mut().zip(&*u) {
        store(u, &mut message[0][..32]);
        store(&PADDING, &mut message[0][32..]);
    }
    for _ in 0..count {
        for message in &mut *messages {
            let mut state = key.inner;
            compress256(&mut state, message);
            store(&state, &mut message[0][..32]);
        }
        for ((message, u), t) in messages.iter_mut().zip(&mut *u).zip(&mut *t) {
            *u = key.outer;
            compress256(u, message);
            store(u, &mut message[0][..32]);
            for (t, u) in t.iter_mut().zip(*u) {
                *t ^= u;
            }
        }
    }
    wipe(messages.as_flattened_mut().as_flattened_mut());
}

fn store(words: &Words, bytes: &mut [u8]) {
    for (bytes, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *bytes = word.to_be_bytes();
    }
}

impl Drop for Keyed {
    fn drop(&mut self) {
        self.inner.zeroize();
        self.outer.zeroize();
    }
}
