//! A tree over some data, made on every core: level by level from the data up, each a stream of blocks.

use atrest_device::{BlockDevice, DeviceError};
use atrest_format::verity::Superblock;

use super::covered::Covered;
use super::error::{Part, VerityError};
use super::hasher::{Digest, Hasher};
use super::layout::{Layout, Parts, Together};
use super::work::{Pace, each};

/// Bytes that a thread reads at a time, and what one item of work has about.
pub const PIECE: usize = 512 << 10;

/// Hashes all data, and writes the tree, the parity if the layout has error correction, and at last the superblock, if there is to be
/// one. Returns the root hash. Memory is bounded: 2 MiB for each thread, and up to 13 MiB where blocks are larger than a page.
///
/// # Errors
/// [`VerityError::TooShort`] or [`VerityError::Overlap`] before anything is written. [`VerityError::Device`] if a
/// device fails and [`VerityError::Cancelled`] if it is stopped: the tree is of no use then.
pub fn build(
    parts: &Parts,
    together: Together,
    layout: &Layout,
    superblock: Option<&Superblock>,
    pace: &mut Pace<'_>,
) -> Result<Digest, VerityError> {
    layout.check_overlap(together)?;
    layout.check_sizes(parts)?;
    pace.total = total(layout);
    for level in 0..layout.tree.levels().len() {
        Children::of(parts, layout, level).write_parents(&*parts.tree, pace)?;
    }
    let root = root(parts, layout)?;
    let failed = |part| move |error| VerityError::Device { part, error };
    if let (Some(fec), Some(parity)) = (&layout.fec, &parts.parity) {
        Covered { parts, layout, fec }.write_parity(&**parity, pace)?;
        parity.flush().map_err(failed(Part::Parity))?;
    }
    if let Some(superblock) = superblock.filter(|_| layout.place.superblock) {
        // What it stands for is on the medium before it.
        parts.tree.flush().map_err(failed(Part::Tree))?;
        parts.tree.write_at(layout.place.offset, &superblock.compose()).map_err(failed(Part::Tree))?;
    }
    parts.tree.flush().map_err(failed(Part::Tree))?;
    Ok(root)
}

/// Bytes that are read for it.
fn total(layout: &Layout) -> u64 {
    let levels = layout.tree.levels();
    // intended: a single block of data is hashed only once, for the root.
    let below_top = levels.len().saturating_sub(1);
    let tree: u64 = levels[..below_top].iter().map(|level| level.blocks).sum();
    let data = if levels.is_empty() { 0 } else { layout.parameters.data_len() };
    let covered = layout.fec.map_or(0, |fec| fec.rounds() * fec.data_len() as u64 * u64::from(fec.block()));
    data + tree * u64::from(layout.tree.block()) + covered
}

/// The hash of the only block at the top.
pub fn root(parts: &Parts, layout: &Layout) -> Result<Digest, VerityError> {
    let (device, part, at, len) = match layout.tree.levels().last() {
        Some(top) => {
            (&parts.tree, Part::Tree, top.first * u64::from(layout.tree.block()), layout.tree.block())
        }
        None => (&parts.data, Part::Data, 0, layout.parameters.data_block()),
    };
    let mut block = vec![0; len as usize];
    device.read_at(at, &mut block).map_err(|error| VerityError::Device { part, error })?;
    Ok(layout.hasher.digest(&block))
}

/// Blocks whose hashes are one level of the tree.
pub struct Children<'a> {
    device: &'a dyn BlockDevice,
    part: Part,
    /// Where the first is, in bytes.
    offset: u64,
    /// Bytes in one.
    pub block: usize,
    count: u64,
    hasher: &'a Hasher,
    layout: &'a Layout,
    level: usize,
}

impl<'a> Children<'a> {
    /// Those of a level: the data, or the level below.
    pub fn of(parts: &'a Parts, layout: &'a Layout, level: usize) -> Self {
        let below = level.checked_sub(1).map(|below| layout.tree.levels()[below]);
        let (device, part, offset, block, count) = match below {
            None => {
                let parameters = &layout.parameters;
                (&*parts.data, Part::Data, 0, parameters.data_block(), parameters.data_blocks())
            }
            Some(below) => {
                let block = layout.tree.block();
                (&*parts.tree, Part::Tree, below.first * u64::from(block), block, below.blocks)
            }
        };
        Self { device, part, offset, block: block as usize, count, hasher: &layout.hasher, layout, level }
    }

    /// How many parents are handled at a time.
    pub fn parents_at_once(&self) -> u64 {
        let bytes = self.layout.tree.digests_per_block() * self.block as u64;
        (PIECE as u64 / bytes).max(1)
    }

    /// The children of some parents: the first, and how many.
    pub fn range(&self, parent: u64, parents: u64) -> (u64, u64) {
        let first = parent * self.layout.tree.digests_per_block();
        (first, (parents * self.layout.tree.digests_per_block()).min(self.count - first))
    }

    /// Reads a block.
    pub fn read(&self, index: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.device.read_at(self.offset + index * self.block as u64, buf)
    }

    /// Hashes `count` children from `first` on. `piece` is a buffer that is used again and again.
    pub fn hash(
        &self,
        first: u64,
        count: u64,
        piece: &mut Vec<u8>,
        mut hashed: impl FnMut(u64, Digest),
    ) -> Result<(), DeviceError> {
        let at_once = (PIECE / self.block).max(1) as u64;
        let mut at = first;
        while at < first + count {
            let blocks = at_once.min(first + count - at);
            piece.resize(blocks as usize * self.block, 0);
            self.read(at, piece)?;
            for block in piece.chunks_exact(self.block) {
                hashed(at, self.hasher.digest(block));
                at += 1;
            }
        }
        Ok(())
    }

    /// Writes the blocks that have the hashes of these.
    fn write_parents(&self, tree: &dyn BlockDevice, pace: &mut Pace<'_>) -> Result<(), VerityError> {
        let level = self.layout.tree.levels()[self.level];
        let (block, at_once) = (self.layout.tree.block() as usize, self.parents_at_once());
        each(level.blocks.div_ceil(at_once), pace, <(Vec<u8>, Vec<u8>)>::default, |item, (piece, made)| {
            let parent = item * at_once;
            let parents = at_once.min(level.blocks - parent);
            made.clear();
            made.resize(parents as usize * block, 0);
            let (first, count) = self.range(parent, parents);
            let hashed = self.hash(first, count, piece, |child, digest| {
                let (of, at) = self.layout.tree.parent(child);
                let at = (of - parent) as usize * block + at;
                made[at..at + digest.as_bytes().len()].copy_from_slice(digest.as_bytes());
            });
            hashed.map_err(|error| VerityError::Device { part: self.part, error })?;
            let written = tree.write_at((level.first + parent) * block as u64, made);
            written.map_err(|error| VerityError::Device { part: Part::Tree, error })?;
            Ok(count * self.block as u64)
        })
    }
}
