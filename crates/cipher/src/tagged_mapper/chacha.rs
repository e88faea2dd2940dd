//! ChaCha20 and Poly1305 (RFC 8439, 2.8) as dm-crypt uses them: the associated data is the sector number and the nonce of 12 bytes.

use super::units::UnitsWithTags;
use crate::aead::{Aead, ChaCha20Poly1305};
use crate::block::Direction;

/// Of a unit that is opened, the tag that it comes with is there already: it is left if it fits, and changed if not.
pub(crate) fn run(cipher: &ChaCha20Poly1305, units: UnitsWithTags<'_>) {
    let mut sector = units.sector;
    for ((data, iv), tag) in units.data.chunks_mut(units.unit).zip(units.ivs).zip(units.tags) {
        let (mut nonce, mut given) = ([0; 12], [0; 16]);
        nonce.copy_from_slice(&iv[..12]);
        given.copy_from_slice(&tag[..16]);
        let mut associated = [0; 20];
        associated[..8].copy_from_slice(&sector.to_le_bytes());
        associated[8..].copy_from_slice(&nonce);
        let made = match units.direction {
            // A unit is far shorter than what the cipher takes.
            Direction::Encrypt => cipher.seal(&nonce, &associated, data).ok(),
            Direction::Decrypt => cipher.open(&nonce, &associated, data, &given).ok().map(|()| given),
        };
        let made = made.unwrap_or(given.map(|byte| !byte));
        tag[..16].copy_from_slice(&made);
        sector = sector.wrapping_add(units.unit as u64 / 512);
    }
}
