//! Ascon-AEAD128 (NIST SP 800-232, section 4) around a library's permutation. The library that has the mode, too, brings eight packages
//! more, for its traits and at build time; here a firmware with Ascon is made of one package more than one with AES-XTS.

use core::fmt;

use ascon::State;
use atrest_secret::{SecretArray, constant_time_eq, wipe};

use super::{Aead, OpenError, SealError};
use crate::key_error::KeyError;
use crate::run::without_traces;

/// Ascon-AEAD128 in the form that NIST standardised: small, without tables, for controllers.
pub struct AsconAead128(SecretArray<16>);

/// What the state begins with: the parameters of this member of the family (section 4.1, table 5).
const IV: u64 = 0x0000_1000_808c_0001;
/// Keeps data apart from what is only authenticated: the last bit of the state.
const DATA: u64 = 1 << 63;

type Block = [u8; 16];

impl Aead for AsconAead128 {
    const NAME: &'static str = "Ascon-AEAD128";
    const KEY_LEN: usize = 16;

    type Nonce = Block;
    type Tag = Block;

    fn new(key: &[u8]) -> Result<Self, KeyError> {
        let key = key.as_array().ok_or(KeyError::Length { len: key.len() })?;
        Ok(Self(SecretArray::new(*key)))
    }

    fn seal(&self, nonce: &Block, associated: &[u8], data: &mut [u8]) -> Result<Block, SealError> {
        Ok(without_traces(|| {
            let mut state = self.start(nonce, associated);
            encrypt(&mut state, data);
            self.tag(state)
        }))
    }

    fn open(&self, nonce: &Block, associated: &[u8], data: &mut [u8], tag: &Block) -> Result<(), OpenError> {
        let fits = without_traces(|| {
            let mut state = self.start(nonce, associated);
            decrypt(&mut state, data);
            constant_time_eq(&self.tag(state), tag)
        });
        if !fits {
            wipe(data);
            return Err(OpenError::Forged);
        }
        Ok(())
    }
}

impl AsconAead128 {
    /// The state after key, nonce and associated data.
    fn start(&self, nonce: &Block, associated: &[u8]) -> State {
        let ([key_0, key_1], [nonce_0, nonce_1]) = (words(&self.0), words(nonce));
        let mut state = State::new(IV, key_0, key_1, nonce_0, nonce_1);
        state.permute_12();
        state[3] ^= key_0;
        state[4] ^= key_1;
        if !associated.is_empty() {
            let (blocks, rest) = associated.as_chunks();
            for block in blocks {
                add(&mut state, block);
                state.permute_8();
            }
            add(&mut state, &padded(rest));
            state.permute_8();
        }
        state[4] ^= DATA;
        state
    }

    /// Of everything that the state has taken in.
    fn tag(&self, mut state: State) -> Block {
        let [key_0, key_1] = words(&self.0);
        state[2] ^= key_0;
        state[3] ^= key_1;
        state.permute_12();
        bytes([state[3] ^ key_0, state[4] ^ key_1])
    }
}

fn encrypt(state: &mut State, data: &mut [u8]) {
    let (blocks, rest) = data.as_chunks_mut();
    for block in blocks {
        add(state, block);
        *block = rate(state);
        state.permute_8();
    }
    add(state, &padded(rest));
    for (to, from) in rest.iter_mut().zip(rate(state)) {
        *to = from;
    }
}

fn decrypt(state: &mut State, data: &mut [u8]) {
    let (blocks, rest) = data.as_chunks_mut();
    for block in blocks {
        let encrypted = *block;
        add(state, &encrypted);
        *block = rate(state);
        set(state, &encrypted);
        state.permute_8();
    }
    // What is encrypted stands in for the bytes of the state under it; behind it comes the padding.
    let before = rate(state);
    let mut after = before;
    for ((byte, stream), after) in rest.iter_mut().zip(before).zip(&mut after) {
        *after = *byte;
        *byte ^= stream;
    }
    if let Some(byte) = after.get_mut(rest.len()) {
        *byte ^= 1;
    }
    set(state, &after);
}

/// The part of the state that data pass through.
#[inline(always)]
fn rate(state: &State) -> Block {
    bytes([state[0], state[1]])
}

#[inline(always)]
fn set(state: &mut State, block: &Block) {
    [state[0], state[1]] = words(block);
}

#[inline(always)]
fn add(state: &mut State, block: &Block) {
    let [first, second] = words(block);
    state[0] ^= first;
    state[1] ^= second;
}

/// A last block, of less than 16 bytes, and the one bit that tells where it ends.
fn padded(rest: &[u8]) -> Block {
    let mut block = [0; 16];
    for (to, from) in block.iter_mut().zip(rest.iter().chain(&[1])) {
        *to = *from;
    }
    block
}

/// SP 800-232 is little-endian.
#[inline(always)]
fn words(block: &Block) -> [u64; 2] {
    let both = u128::from_le_bytes(*block);
    [both as u64, (both >> 64) as u64]
}

#[inline(always)]
fn bytes([first, second]: [u64; 2]) -> Block {
    (u128::from(first) | u128::from(second) << 64).to_le_bytes()
}

impl fmt::Debug for AsconAead128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AsconAead128(..)")
    }
}
