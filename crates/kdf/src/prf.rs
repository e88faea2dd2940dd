//! HMAC-SHA-256 (RFC 2104) under a short key as a pseudorandom function, and HKDF (RFC 5869) made of it.

use core::fmt;

use atrest_secret::{SecretArray, wipe};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Bytes that SHA-256 takes at once.
const BLOCK: usize = 64;

/// HMAC-SHA-256 under one key, whose part of the work is done once.
#[derive(Clone)]
pub struct Prf(Hmac<Sha256>);

impl Prf {
    /// Under a key that is no longer than a block of the hash (64 bytes), which HMAC fills up with zeros.
    pub fn new<const N: usize>(key: &[u8; N]) -> Self {
        const { assert!(N <= BLOCK, "a longer key would have to be hashed") };
        let mut block = SecretArray::<BLOCK>::zeroed();
        block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
        Self(Hmac::new((&*block).into()))
    }

    /// The 32 bytes for these parts under a key that is used once.
    #[inline(never)] // nor are its parts: the states take their stack here, and not in whoever calls
    pub fn once<const N: usize>(key: &[u8; N], parts: &[&[u8]]) -> SecretArray<32> {
        finished(Self::new(key).0, parts)
    }

    /// HKDF-Extract: under what a salt makes of the input key, of any length.
    pub fn extract<const N: usize>(salt: &[u8; N], input: &[u8]) -> Self {
        Self::new(&Self::new(salt).whole(&[input]))
    }

    /// The 32 bytes for these parts, one behind the other.
    pub fn whole(&self, parts: &[&[u8]]) -> SecretArray<32> {
        finished(self.0.clone(), parts)
    }

    /// The first 16 bytes for these parts, one behind the other.
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; 16] {
        first(&self.whole(parts))
    }

    /// HKDF-Expand: as many bytes as are asked for, 64 at most, for an info in parts.
    pub fn expand<const N: usize>(&self, info: &[&[u8]]) -> SecretArray<N> {
        const { assert!(N <= 2 * 32, "two rounds are enough for every key") };
        let mut out = SecretArray::<N>::zeroed();
        let mut before = SecretArray::<32>::zeroed();
        for (round, to) in (1_u8..).zip(out.chunks_mut(32)) {
            let mut message = self.message();
            if round > 1 {
                message.update(&*before);
            }
            info.iter().for_each(|part| message.update(part));
            message.update(&[round]);
            before = message.whole();
            to.iter_mut().zip(before.iter()).for_each(|(to, from)| *to = *from);
        }
        out
    }

    /// For a message that comes piece by piece.
    pub fn message(&self) -> PrfMessage {
        PrfMessage(self.0.clone())
    }
}

/// A message of which the first pieces have been taken in.
pub struct PrfMessage(Hmac<Sha256>);

impl PrfMessage {
    /// Takes in the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The 32 bytes for the message.
    pub fn whole(self) -> SecretArray<32> {
        finished(self.0, &[])
    }

    /// The first 16 of them.
    pub fn tag(self) -> [u8; 16] {
        first(&self.whole())
    }
}

#[inline(always)] // a state that is handed on would be copied
fn finished(mut mac: Hmac<Sha256>, parts: &[&[u8]]) -> SecretArray<32> {
    parts.iter().for_each(|part| mac.update(part));
    let mut bytes = mac.finalize().into_bytes();
    let mut output = SecretArray::zeroed();
    output.copy_from_slice(&bytes);
    wipe(&mut bytes);
    output
}

fn first(whole: &[u8; 32]) -> [u8; 16] {
    let mut tag = [0; 16];
    tag.iter_mut().zip(whole).for_each(|(to, from)| *to = *from);
    tag
}

impl fmt::Debug for Prf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Prf(..)")
    }
}

impl fmt::Debug for PrfMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrfMessage(..)")
    }
}
