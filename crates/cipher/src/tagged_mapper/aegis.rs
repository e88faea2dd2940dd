//! AEGIS-128 and AEGIS-256 as dm-crypt uses them: the associated data is the sector number and the nonce.

use super::units::{MOST, UnitsWithTags};
use crate::aegis::{AegisKey, Head, Job};
use crate::backend::BackendChoice;
use crate::block::Direction;

/// A key, and what computes with it. Wipes itself on drop.
pub(crate) struct Aegis<const N: usize> {
    pub(crate) key: AegisKey<N>,
    pub(crate) backend: BackendChoice,
}

impl<const N: usize> Aegis<N> {
    pub(crate) fn run(&self, units: UnitsWithTags<'_>) {
        let mut heads = [Head::EMPTY; MOST];
        let mut tags = [[0; 16]; MOST];
        let (heads, tags) = (&mut heads[..units.ivs.len()], &mut tags[..units.ivs.len()]);
        for (i, (head, iv)) in heads.iter_mut().zip(units.ivs).enumerate() {
            *head = Head::new(units.sector_of(i), &iv[..AegisKey::<N>::LEN]);
        }
        let job = Job { key: &self.key, heads, unit: units.unit, data: units.data, tags };
        match units.direction {
            Direction::Encrypt => self.backend.aegis::<N, false>(job),
            Direction::Decrypt => self.backend.aegis::<N, true>(job),
        }
        for (to, tag) in units.tags.iter_mut().zip(tags) {
            to[..16].copy_from_slice(tag);
        }
    }
}
