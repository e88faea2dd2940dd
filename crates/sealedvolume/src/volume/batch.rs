//! What was written and is not sealed yet.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use atrest_secret::wipe;

use super::extents::{Extents, Place};
use crate::format::{BLOCK_LEN, Extent};

/// Blocks and trims that become one log object: the trims first, the blocks over them.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) data: BTreeMap<u64, Box<[u8; BLOCK_LEN]>>,
    trims: Extents,
    /// Where there is a journal.
    unrecorded: Option<Unrecorded>,
}

/// What no record of the journal has.
#[derive(Default)]
struct Unrecorded {
    blocks: BTreeSet<u64>,
    trims: Extents,
    /// When the first of what is in the batch came.
    since: Option<Instant>,
}

impl Batch {
    /// A batch whose changes are recorded in a journal.
    pub(crate) fn recorded() -> Self {
        let mut batch = Self::default();
        batch.unrecorded = Some(Unrecorded::default());
        batch
    }

    /// Since when something is in it. Only a batch with a journal knows.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.unrecorded.as_ref().and_then(|unrecorded| unrecorded.since)
    }

    /// Whether all of it is in the journal.
    pub(crate) fn is_recorded(&self) -> bool {
        let is_empty = |unrecorded: &Unrecorded| unrecorded.blocks.is_empty() && unrecorded.trims.is_empty();
        self.unrecorded.as_ref().is_none_or(is_empty)
    }

    /// What is not in the journal: its runs, in the order in which they are applied, and its blocks.
    pub(crate) fn unrecorded(&self) -> (Vec<Extent>, Vec<&[u8; BLOCK_LEN]>) {
        let Some(unrecorded) = &self.unrecorded else { return (Vec::new(), Vec::new()) };
        let mut extents = trimmed(&unrecorded.trims);
        extents.extend(runs(unrecorded.blocks.iter().copied()));
        let blocks = unrecorded.blocks.iter().filter_map(|block| self.data.get(block));
        (extents, blocks.map(|data| &**data).collect())
    }

    /// All of it is in the journal now.
    pub(crate) fn is_now_recorded(&mut self) {
        if let Some(unrecorded) = &mut self.unrecorded {
            (unrecorded.blocks, unrecorded.trims) = (BTreeSet::new(), Extents::default());
        }
    }

    pub(crate) fn write(&mut self, block: u64, data: &[u8; BLOCK_LEN]) {
        if let Some(unrecorded) = &mut self.unrecorded {
            unrecorded.since.get_or_insert_with(Instant::now);
            unrecorded.blocks.insert(block);
        }
        match self.data.get_mut(&block) {
            Some(there) => **there = *data,
            None => {
                self.data.insert(block, Box::new(*data));
            }
        }
    }

    pub(crate) fn trim(&mut self, start: u64, len: u64) {
        if let Some(unrecorded) = &mut self.unrecorded {
            unrecorded.since.get_or_insert_with(Instant::now);
            let gone: Vec<u64> = unrecorded.blocks.range(start..start + len).copied().collect();
            gone.iter().for_each(|block| {
                unrecorded.blocks.remove(block);
            });
            unrecorded.trims.insert(start, len, Place::Hole);
        }
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
        let mut extents = trimmed(&self.trims);
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

fn trimmed(trims: &Extents) -> Vec<Extent> {
    trims.iter().map(|(start, len, _)| Extent { start, len, trim: true }).collect()
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
