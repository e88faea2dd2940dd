//! ChaCha20 and Poly1305 (RFC 8439, 2.8) over data units, each a message of its own.

use atrest_secret::SecretArray;

use crate::chacha::{BLOCK, StreamKey};
use crate::poly1305::{Poly, PolyKey};

/// What is authenticated beside a data unit: the number of its first sector, and its nonce.
pub(crate) type Associated = [u8; ASSOCIATED];
pub(crate) const ASSOCIATED: usize = 20;

/// The nonce in it.
pub(crate) fn nonce(associated: &Associated) -> &[u8; 12] {
    let [_, _, _, _, _, _, _, _, nonce @ ..] = associated;
    nonce
}

/// What is to be done.
pub(crate) struct Job<'a> {
    /// Of twenty rounds.
    pub(crate) key: &'a StreamKey,
    /// Whether units are decrypted.
    pub(crate) open: bool,
    /// Bytes in a unit: a multiple of 128.
    pub(crate) unit: usize,
    /// Encrypted or decrypted in place.
    pub(crate) data: &'a mut [u8],
    pub(crate) associated: &'a [Associated],
    /// The tags of units, whichever way the data goes: the first 16 bytes of each.
    pub(crate) tags: &'a mut [[u8; 64]],
}

impl Job<'_> {
    /// What ends the message that is authenticated: how many bytes were.
    pub(crate) fn lengths(&self) -> [u64; 2] {
        [ASSOCIATED as u64, self.unit as u64]
    }
}

/// For any CPU.
pub(crate) fn portable(job: Job<'_>) {
    let [associated_len, unit_len] = job.lengths();
    let lengths = (u128::from(associated_len) | u128::from(unit_len) << 64).to_le_bytes();
    for ((data, associated), tag) in job.data.chunks_mut(job.unit).zip(job.associated).zip(job.tags) {
        let mut stream = job.key.keystream_under(nonce(associated));
        let mut first = SecretArray::<BLOCK>::zeroed();
        stream.next(&mut first);
        let [r, s, ..] = first.as_chunks::<16>().0 else { continue };
        let mut by = PolyKey::EMPTY;
        by.set(r);
        let mut poly = Poly::new();
        poly.blocks(&by, padded(associated).as_chunks().0);
        if job.open {
            poly.blocks(&by, data.as_chunks().0);
            stream.apply(data);
        } else {
            stream.apply(data);
            poly.blocks(&by, data.as_chunks().0);
        }
        poly.blocks(&by, &[lengths]);
        let made = poly.finish().wrapping_add(u128::from_le_bytes(*s));
        tag[..16].copy_from_slice(&made.to_le_bytes());
    }
}

/// Filled up with zeros to whole blocks.
pub(crate) fn padded(associated: &Associated) -> [u8; 32] {
    let mut blocks = [0; 32];
    blocks[..ASSOCIATED].copy_from_slice(associated);
    blocks
}
