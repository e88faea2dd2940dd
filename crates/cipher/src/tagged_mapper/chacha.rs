//! ChaCha20 and Poly1305 (RFC 8439, 2.8) as dm-crypt uses them: the associated data is the sector number and the nonce of 12 bytes.

use super::units::{MOST, UnitsWithTags};
use crate::backend::VectorChoice;
use crate::block::Direction;
use crate::chacha::{ChaChaRounds, StreamKey};
use crate::chacha_poly::{ASSOCIATED, Associated, Job};

/// A key, and the instructions to use it with.
pub(crate) struct ChaCha20Poly1305 {
    key: StreamKey,
    pub(crate) vectors: VectorChoice,
}

impl ChaCha20Poly1305 {
    pub(crate) fn new(key: &[u8; 32], vectors: VectorChoice) -> Self {
        Self { key: StreamKey::new(key, ChaChaRounds::Twenty), vectors }
    }

    pub(crate) fn run(&self, units: UnitsWithTags<'_>) {
        let mut associated: [Associated; MOST] = [[0; ASSOCIATED]; MOST];
        let associated = &mut associated[..units.ivs.len()];
        for (unit, (associated, iv)) in associated.iter_mut().zip(units.ivs).enumerate() {
            associated[..8].copy_from_slice(&units.sector_of(unit).to_le_bytes());
            associated[8..].copy_from_slice(&iv[..ASSOCIATED - 8]);
        }
        self.vectors.chacha_poly(Job {
            key: &self.key,
            open: units.direction == Direction::Decrypt,
            unit: units.unit,
            data: units.data,
            associated,
            tags: units.tags,
        });
    }
}
