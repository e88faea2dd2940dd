//! What was written and is not sealed yet.

use std::collections::BTreeMap;

use atrest_secret::wipe;

use super::extents::{Extents, Place};
use crate::format::{BLOCK_LEN, Extent};

/// Blocks and trims that become one log object: the trims first, the blocks over them.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) data: BTreeMap<u64, Box<[u8; BLOCK_LEN]>>,
    trims: Extents,
}

impl Batch {
    pub(crate) fn write(&mut self, block: u64, data: &[u8; BLOCK_LEN]) {
        match self.data.get_mut(&block) {
            Some(there) => **there = *data,
            None => {
                self.data.insert(block, Box::new(*data));
            }
        }
    }

    pub(crate) fn trim(&mut self, start: u64, len: u64) {
        let gone: Vec<u64> = self.data.range(start..start + len).map(|(block, _)| *block).collect();
        for block in gone {
            if let Some(mut data) = self.data.remove(&block) {
                wipe(&mut *data);
            }
        }
        self.trims.insert(start, len, Place::Hole);
    }

    /// The block if it is here, how many from it on are zeros, or `Err` with how many are not here.
    pub(crate) fn find(&self, block: u64) -> Result<Found<'_>, u64> {
        if let Some(data) = self.data.get(&block) {
            return Ok(Found::Data(data));
        }
        let until = self.data.range(block..).next().map_or(u64::MAX, |(next, _)| next - block);
        match self.trims.find(block) {
            Ok((len, _)) => Ok(Found::Zeros(len.min(until))),
            Err(len) => Err(len.min(until)),
        }
    }

    /// Its runs, in the order in which they are applied.
    pub(crate) fn extents(&self) -> Vec<Extent> {
        let mut extents: Vec<Extent> =
            self.trims.iter().map(|(start, len, _)| Extent { start, len, trim: true }).collect();
        extents.extend(runs(self.data.keys().copied()));
        extents
    }

    /// How much is in it: blocks, and runs of trims.
    pub(crate) fn len(&self) -> usize {
        self.data.len() + self.trims.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.data.is_empty() && self.trims.is_empty()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.data.values_mut().for_each(|data| wipe(&mut **data));
    }
}

/// What is here of a block.
pub(crate) enum Found<'a> {
    Data(&'a [u8; BLOCK_LEN]),
    Zeros(u64),
}

/// Ascending addresses as runs.
pub(crate) fn runs(blocks: impl Iterator<Item = u64>) -> Vec<Extent> {
    let mut runs: Vec<Extent> = Vec::new();
    for block in blocks {
        match runs.last_mut() {
            Some(run) if run.start + run.len == block => run.len += 1,
            _ => runs.push(Extent { start: block, len: 1, trim: false }),
        }
    }
    runs
}
