//! GCM as dm-crypt uses it: the associated data is the sector number and the nonce of 12 bytes.

use super::units::{MOST, UnitsWithTags};
use crate::block::{Block, Direction, xor};
use crate::gcm::{Gcm, counter};
use crate::mode::AnyMode;
use crate::mode::gcm::GcmBackend;
use crate::run::Run;
use crate::tweak::Units;

/// Bytes that are encrypted before they are hashed: they stay in the first-level cache.
const AT_ONCE: usize = 8192;

impl<C: AnyMode + GcmBackend> Gcm<C> {
    pub(super) fn run(&self, units: UnitsWithTags<'_>) {
        let count = AT_ONCE / units.unit;
        units.in_groups(count, |units| self.few(units));
    }

    fn few(&self, units: UnitsWithTags<'_>) {
        let unit = units.unit;
        let mut masks = [[0; 16]; MOST];
        let mut starts = [[0; 16]; MOST];
        let masks = &mut masks[..units.ivs.len()];
        let starts = &mut starts[..units.ivs.len()];
        for ((mask, start), iv) in masks.iter_mut().zip(&mut *starts).zip(units.ivs) {
            let mut nonce = [0; 12];
            nonce.copy_from_slice(&iv[..12]);
            (*mask, *start) = (counter(&nonce, 1), counter(&nonce, 2));
        }
        self.cipher.encrypt(masks);
        if units.direction == Direction::Encrypt {
            self.cipher.ctr(Units::listed(starts, unit / 16), Run::in_place(units.data));
        }
        for (i, ((data, iv), mask)) in units.data.chunks(unit).zip(units.ivs).zip(masks.iter()).enumerate() {
            let mut associated = [[0; 16]; 2];
            let bytes = associated.as_flattened_mut();
            bytes[..8].copy_from_slice(&units.sector_of(i).to_le_bytes());
            bytes[8..20].copy_from_slice(&iv[..12]);
            let lengths: Block = ((160 << 64) | (8 * data.len() as u128)).to_be_bytes();
            let mut state = self.cipher.ghash(&self.hash, 0, &associated);
            state = self.cipher.ghash(&self.hash, state, data.as_chunks().0);
            state = self.cipher.ghash(&self.hash, state, &[lengths]);
            if let Some(tag) = units.tags.get_mut(i) {
                tag[..16].copy_from_slice(&xor(&state.to_be_bytes(), mask));
            }
        }
        if units.direction == Direction::Decrypt {
            self.cipher.ctr(Units::listed(starts, unit / 16), Run::in_place(units.data));
        }
        atrest_secret::wipe(masks.as_flattened_mut());
    }
}
