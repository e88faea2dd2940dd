//! AES-CCM (NIST SP 800-38C) by an engine that encrypts, with nonces of 13 bytes and tags of 16: what the library's `Aes128Ccm` seals it
//! opens, and the other way round.
//!
//! A call of an engine has its price. So the authentication of a block and the key stream of the next one go in one call: of *n* cipher
//! blocks of data, *n* + 1 calls and one for each 16 bytes of associated data.

use core::cell::RefCell;
use core::fmt;

use atrest_secret::{constant_time_eq, wipe};

use super::encrypt::load_checked;
use super::{AesEncrypt, LoadAesKey};
use crate::aead::{Aead, OpenError, SealError};
use crate::block::{Block, Direction, xor};
use crate::key_error::KeyError;

/// AES in CCM by an engine, with keys of `K` bytes (16 or 32). Its key is loaded when it is made, and compared with software then: an
/// engine that computes something else makes none.
///
/// Data of 65,535 bytes and associated data of 65,279 at most. What an engine failed on is zeros. One thread uses it at a time.
pub struct EngineCcm<E, const K: usize>(RefCell<E>);

impl<E: LoadAesKey, const K: usize> Aead for EngineCcm<E, K> {
    const NAME: &'static str = match K {
        16 => "AES-128-CCM",
        32 => "AES-256-CCM",
        _ => panic!("AES-CCM takes keys of 16 and of 32 bytes"),
    };
    const KEY_LEN: usize = K;

    type Nonce = [u8; 13];
    type Tag = Block;

    fn new(key: &[u8]) -> Result<Self, KeyError> {
        if key.len() != K {
            return Err(KeyError::Length { len: key.len() });
        }
        load_checked(key).map(RefCell::new).map(Self)
    }

    fn seal(&self, nonce: &[u8; 13], associated: &[u8], data: &mut [u8]) -> Result<Block, SealError> {
        if data.len() > LONGEST || associated.len() > LONGEST_ASSOCIATED {
            return Err(SealError::TooLong { data: data.len(), associated: associated.len() });
        }
        self.run(Direction::Encrypt, nonce, associated, data).ok_or(SealError::Engine)
    }

    fn open(
        &self,
        nonce: &[u8; 13],
        associated: &[u8],
        data: &mut [u8],
        tag: &Block,
    ) -> Result<(), OpenError> {
        if data.len() > LONGEST || associated.len() > LONGEST_ASSOCIATED {
            wipe(data);
            return Err(OpenError::Forged);
        }
        let mut expected = self.run(Direction::Decrypt, nonce, associated, data).ok_or(OpenError::Engine)?;
        let fits = constant_time_eq(&expected, tag);
        wipe(&mut expected);
        if !fits {
            wipe(data);
            return Err(OpenError::Forged);
        }
        Ok(())
    }
}

/// What a length of two bytes says, and what an associated length of two bytes may.
const LONGEST: usize = 0xffff;
const LONGEST_ASSOCIATED: usize = 0xfeff;

impl<E: AesEncrypt, const K: usize> EngineCcm<E, K> {
    /// Encrypts or decrypts data: the tag of it. None, and zeros, if the engine fails, or calls its own cipher.
    fn run(
        &self,
        direction: Direction,
        nonce: &[u8; 13],
        associated: &[u8],
        data: &mut [u8],
    ) -> Option<Block> {
        let mut run = Unfinished { data, finished: false };
        let mut engine = self.0.try_borrow_mut().ok()?;
        let tag = ccm(&mut *engine, direction, nonce, associated, run.data).ok()?;
        run.finished = true;
        Some(tag)
    }
}

/// Data that are wiped unless they are finished.
struct Unfinished<'a> {
    data: &'a mut [u8],
    finished: bool,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.finished {
            wipe(self.data);
        }
    }
}

/// What the engine has in one call: the block to be authenticated next, and a counter. Wiped when dropped.
struct Pair([Block; 2]);

impl Drop for Pair {
    fn drop(&mut self) {
        wipe(self.0.as_flattened_mut());
    }
}

impl Pair {
    /// Adds to what is authenticated; zeros stand behind what is shorter than a block.
    fn add(&mut self, bytes: impl Iterator<Item = u8>) {
        self.0[0].iter_mut().zip(bytes).for_each(|(to, byte)| *to ^= byte);
    }
}

/// Lengths are those that fit.
fn ccm<E: AesEncrypt>(
    engine: &mut E,
    direction: Direction,
    nonce: &[u8; 13],
    associated: &[u8],
    data: &mut [u8],
) -> Result<Block, E::Error> {
    // Formatting of A.2.1: tags of 16 bytes, lengths of 2, and whether there is associated data.
    let flags = u8::from(!associated.is_empty()) << 6 | ((16 - 2) / 2) << 3 | (2 - 1);
    let mut pair = Pair([numbered(flags, nonce, data.len()), [0; 16]]);
    if !associated.is_empty() {
        let [.., high, low] = associated.len().to_be_bytes();
        let mut bytes = [high, low].into_iter().chain(associated.iter().copied());
        for _ in 0..(associated.len() + 2).div_ceil(16) {
            engine.encrypt(&mut pair.0[..1])?;
            pair.add(bytes.by_ref().take(16));
        }
    }
    for (at, block) in data.chunks_mut(16).enumerate() {
        pair.0[1] = counter(nonce, at + 1);
        engine.encrypt(&mut pair.0)?;
        let [_, stream] = pair.0;
        match direction {
            Direction::Encrypt => {
                pair.add(block.iter().copied());
                block.iter_mut().zip(stream).for_each(|(to, stream)| *to ^= stream);
            }
            Direction::Decrypt => {
                block.iter_mut().zip(stream).for_each(|(to, stream)| *to ^= stream);
                pair.add(block.iter().copied());
            }
        }
    }
    pair.0[1] = counter(nonce, 0);
    engine.encrypt(&mut pair.0)?;
    let [mac, stream] = &pair.0;
    Ok(xor(mac, stream))
}

/// Counter blocks (A.3).
fn counter(nonce: &[u8; 13], number: usize) -> Block {
    numbered(2 - 1, nonce, number)
}

/// Flags, nonce, and a number of two bytes: no data has more bytes, or blocks.
fn numbered(flags: u8, nonce: &[u8; 13], number: usize) -> Block {
    let mut block = [0; 16];
    block[0] = flags;
    block[1..14].copy_from_slice(nonce);
    let [.., high, low] = number.to_be_bytes();
    block[14..].copy_from_slice(&[high, low]);
    block
}

impl<E, const K: usize> fmt::Debug for EngineCcm<E, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EngineCcm(..)")
    }
}
