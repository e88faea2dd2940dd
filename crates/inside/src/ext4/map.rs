//! Where a file's blocks lie: extent trees (ext4) and block maps (ext2, ext3).
//! Kernel Documentation/filesystems/ext4, "The Contents of inode.i_block".

use super::Blocks;
use super::inode::{Inode, flag};
use crate::bytes::{Fields, crc32c, wide};
use crate::error::{Damage, TreeError};

const EXTENT_MAGIC: u16 = 0xf30a;
const ENTRY: usize = 12;
const MAX_DEPTH: u16 = 5;
/// Longer lengths mark extents that are allocated but were never written: they read as zeros.
const MAX_WRITTEN: u16 = 32768;
/// Blocks of a block map that one run may have, which bounds the walk.
const MAX_MAPPED_RUN: u64 = 1024;

/// Adjoining blocks of a file from some block on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// First block on the media; none for a hole, which reads as zeros.
    pub(super) block: Option<u64>,
    /// Blocks in the run, at least 1.
    pub(super) len: u64,
}

/// The run that starts at block `logical` of the file.
pub(super) fn run(blocks: &Blocks, inode: &Inode, logical: u64) -> Result<Run, TreeError> {
    let Ok(logical) = u32::try_from(logical) else {
        return Err(Damage::BlockMap { inode: inode.number.into() }.into());
    };
    let run = if inode.flags & flag::EXTENTS != 0 {
        extent(blocks, inode, logical)?
    } else {
        mapped(blocks, inode, logical)?
    };
    if let Some(block) = run.block {
        blocks.check(block, run.len)?;
    }
    Ok(run)
}

fn extent(blocks: &Blocks, inode: &Inode, logical: u32) -> Result<Run, TreeError> {
    let bad = || TreeError::Corrupt(Damage::BlockMap { inode: inode.number.into() });
    let mut node = inode.map().to_vec();
    let mut depth = Fields(&node).le16(6);
    // First block behind the part of the file that the current node describes.
    let mut end = 1_u64 << 32;
    if depth > MAX_DEPTH {
        return Err(bad());
    }
    loop {
        let header = Fields(&node);
        let entries = usize::from(header.le16(2));
        let room = node.len().saturating_sub(ENTRY).checked_div(ENTRY).unwrap_or(0);
        if header.le16(0) != EXTENT_MAGIC || entries > room || header.le16(6) != depth {
            return Err(bad());
        }
        let key = |i: usize| Fields(&node).le32(ENTRY.saturating_add(i.saturating_mul(ENTRY)));
        // Entries are sorted: find the first that starts behind `logical`.
        let (mut low, mut high) = (0, entries);
        while low < high {
            let middle = low.midpoint(high);
            if key(middle) > logical { high = middle } else { low = middle.saturating_add(1) }
        }
        if low < entries {
            end = end.min(key(low).into());
        }
        let hole = Run { block: None, len: end.saturating_sub(logical.into()).max(1) };
        let Some(found) = low.checked_sub(1) else { return Ok(hole) };
        let entry = Fields(Fields(&node).slice(ENTRY.saturating_add(found.saturating_mul(ENTRY)), ENTRY));
        if depth == 0 {
            let stored = entry.le16(4);
            let written = stored <= MAX_WRITTEN;
            let len = u64::from(if written { stored } else { stored.saturating_sub(MAX_WRITTEN) });
            let skip = u64::from(logical.saturating_sub(entry.le32(0)));
            let left = len.saturating_sub(skip);
            if left == 0 {
                return Ok(hole);
            }
            let start = wide(entry.le16(6).into(), entry.le32(8));
            let block = start.checked_add(skip).ok_or_else(bad)?;
            return Ok(Run {
                block: written.then_some(block),
                len: left.min(end.saturating_sub(logical.into())),
            });
        }
        let child = blocks.read(wide(entry.le16(8).into(), entry.le32(4)))?;
        let child_fields = Fields(&child);
        if let Some(seed) = inode.checksum_seed {
            let at = usize::from(child_fields.le16(4)).saturating_mul(ENTRY).saturating_add(ENTRY);
            if at.saturating_add(4) > child.len()
                || crc32c(seed, child_fields.slice(0, at)) != child_fields.le32(at)
            {
                return Err(bad());
            }
        }
        node = child.to_vec();
        // Goes down by one each time, so the walk ends.
        depth = depth.saturating_sub(1);
    }
}

fn mapped(blocks: &Blocks, inode: &Inode, logical: u32) -> Result<Run, TreeError> {
    let (first, hole) = pointer(blocks, inode, logical)?;
    if first == 0 {
        return Ok(Run { block: None, len: hole });
    }
    let mut len = 1;
    while len < MAX_MAPPED_RUN
        && let Some(next) = u64::from(logical).checked_add(len).and_then(|next| u32::try_from(next).ok())
        && pointer(blocks, inode, next)?.0 == first.saturating_add(len)
    {
        len = len.saturating_add(1);
    }
    Ok(Run { block: Some(first), len })
}

/// The block behind the pointer for block `logical`, and how many blocks a missing pointer on the way leaves out.
fn pointer(blocks: &Blocks, inode: &Inode, logical: u32) -> Result<(u64, u64), TreeError> {
    let per_block = u64::from(blocks.size() >> 2);
    let mut rest = u64::from(logical);
    let slot = |bytes: &[u8], i: u64| {
        u64::from(Fields(bytes).le32(usize::try_from(i).unwrap_or(usize::MAX).saturating_mul(4)))
    };
    if rest < 12 {
        return Ok((slot(inode.map(), rest), 1));
    }
    rest = rest.saturating_sub(12);
    let mut covers = per_block;
    for level in 12..15 {
        if rest < covers {
            let mut next = slot(inode.map(), level);
            let mut unit = covers;
            while next != 0 {
                unit = unit.checked_div(per_block).unwrap_or(0).max(1);
                let node = blocks.read(next)?;
                next = slot(&node, rest.checked_div(unit).unwrap_or(0));
                rest = rest.checked_rem(unit).unwrap_or(0);
                if unit == 1 {
                    return Ok((next, 1));
                }
            }
            // Everything under the missing pointer is a hole.
            return Ok((0, unit.saturating_sub(rest).max(1)));
        }
        rest = rest.saturating_sub(covers);
        covers = covers.saturating_mul(per_block);
    }
    Err(Damage::BlockMap { inode: inode.number.into() }.into())
}
