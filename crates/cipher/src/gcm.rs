//! GCM (NIST SP 800-38D) with nonces of 12 bytes, for a message of any length: AES of any backend, or another block cipher.

use zeroize::Zeroize;

use crate::backend::MadeOfAes;
use crate::block::{Block, xor};
use crate::mode::AnyMode;
use crate::mode::gcm::{self, GcmBackend};
use crate::run::Run;
use crate::tweak::Units;

/// Bytes that GCM takes at most: the counter has 32 bits (SP 800-38D, 5.2.1.1).
pub(crate) const MOST_DATA: u64 = (1 << 36) - 32;
/// Bytes that are authenticated beside them at most.
pub(crate) const MOST_ASSOCIATED: u64 = (1 << 61) - 1;

/// A keyed block cipher in GCM. Wipes itself on drop.
pub(crate) struct Gcm<C: AnyMode> {
    pub(crate) cipher: C,
    pub(crate) hash: C::Hash,
}

/// [`Gcm`] with whichever AES.
pub(crate) struct InGcm;

impl MadeOfAes for InGcm {
    type With<C: AnyMode> = Gcm<C>;
}

/// A counter block. That of number 1 is for the tag, the data begins with number 2.
pub(crate) fn counter(nonce: &[u8; 12], number: u32) -> Block {
    let mut block = [0; 16];
    block[..12].copy_from_slice(nonce);
    block[12..].copy_from_slice(&number.to_be_bytes());
    block
}

impl<C: AnyMode + GcmBackend> Gcm<C> {
    pub(crate) fn new(cipher: C) -> Self {
        let hash = gcm::key(&cipher);
        Self { cipher, hash }
    }

    /// Encrypts or decrypts in place, which is the same. There are not more than [`MOST_DATA`] bytes.
    pub(crate) fn ctr(&self, nonce: &[u8; 12], data: &mut [u8]) {
        let blocks = data.len() / 16;
        let (whole, rest) = data.split_at_mut(16 * blocks);
        if blocks > 0 {
            let start = [counter(nonce, 2)];
            self.cipher.ctr(Units::listed(&start, blocks), Run::in_place(whole));
        }
        if !rest.is_empty() {
            let mut stream = [counter(nonce, 2 + blocks as u32)];
            self.cipher.encrypt(&mut stream);
            rest.iter_mut().zip(stream[0]).for_each(|(byte, stream)| *byte ^= stream);
            stream.zeroize();
        }
    }

    /// The tag of a ciphertext.
    pub(crate) fn tag(&self, nonce: &[u8; 12], associated: &[u8], data: &[u8]) -> Block {
        let bits = |bytes: &[u8]| 8 * bytes.len() as u128;
        let state = self.absorb(self.absorb(0, associated), data);
        let lengths: Block = ((bits(associated) << 64) | bits(data)).to_be_bytes();
        let state = self.cipher.ghash(&self.hash, state, &[lengths]);
        let mut mask = [counter(nonce, 1)];
        self.cipher.encrypt(&mut mask);
        let tag = xor(&state.to_be_bytes(), &mask[0]);
        mask.zeroize();
        tag
    }

    /// GHASH's state after more bytes, with zeros up to the end of a block.
    fn absorb(&self, mut state: u128, bytes: &[u8]) -> u128 {
        let (blocks, rest) = bytes.as_chunks();
        if !blocks.is_empty() {
            state = self.cipher.ghash(&self.hash, state, blocks);
        }
        if !rest.is_empty() {
            let mut last = [0; 16];
            last[..rest.len()].copy_from_slice(rest);
            state = self.cipher.ghash(&self.hash, state, &[last]);
        }
        state
    }
}
