//! Where a file's blocks lie: extent trees (ext4) and block maps (ext2, ext3).
//! Kernel Documentation/filesystems/ext4, "The Contents of inode.i_block".

use atrest_codec::{Le, Reader, Record, Rows, crc32c, decode};
use atrest_filetree::TreeError;

use super::Blocks;
use super::inode::{Inode, flag};
use crate::bytes::wide;
use crate::fault::Damage;

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

/// A node of an extent tree.
struct Node<'a> {
    /// How many nodes lie below it.
    depth: u16,
    /// Entries that it has room for.
    room: u16,
    entries: &'a [[u8; ENTRY]],
}

impl<'a> Node<'a> {
    /// Parses the bytes of a node; none if they are not those of one.
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_first_chunk::<ENTRY>()?;
        let (Le(magic), Le(count), Le(room), Le(depth), _) =
            decode::<(Le<u16>, Le<u16>, Le<u16>, Le<u16>, [u8; 4]), _>(header);
        let (entries, _) = rest.as_chunks();
        let entries = entries.get(..usize::from(count)).filter(|_| magic == EXTENT_MAGIC)?;
        Some(Self { depth, room, entries })
    }

    /// The first block of the file that an entry is about.
    fn key(entry: &[u8; ENTRY]) -> u32 {
        Record::new(entry).le32::<0>()
    }

    /// Where in the bytes of a node its checksum lies: behind all the room.
    fn checksum_at(&self) -> usize {
        // cannot overflow: the count has 16 bits.
        usize::from(self.room).saturating_add(1).saturating_mul(ENTRY)
    }
}

fn extent(blocks: &Blocks, inode: &Inode, logical: u32) -> Result<Run, TreeError> {
    let bad = || TreeError::from(Damage::BlockMap { inode: inode.number.into() });
    let mut bytes = inode.map().to_vec();
    // First block behind the part of the file that the current node describes.
    let mut end = 1_u64 << 32;
    // Depth that the next node must have.
    let mut expected = None;
    loop {
        let node = Node::parse(&bytes).filter(|node| node.depth <= MAX_DEPTH).ok_or_else(bad)?;
        if expected.is_some_and(|depth| depth != node.depth) {
            return Err(bad());
        }
        // Entries are sorted: find the first that starts behind `logical`.
        let next = node.entries.partition_point(|entry| Node::key(entry) <= logical);
        if let Some(entry) = node.entries.get(next) {
            end = end.min(Node::key(entry).into());
        }
        let left = end.checked_sub(logical.into()).filter(|left| *left > 0).ok_or_else(bad)?;
        let hole = Run { block: None, len: left };
        let Some(entry) = next.checked_sub(1).and_then(|found| node.entries.get(found)) else {
            return Ok(hole);
        };
        let Some(below) = node.depth.checked_sub(1) else {
            return leaf(entry, logical, hole).ok_or_else(bad);
        };
        let (_, Le(low), Le(high), _): (Le<u32>, Le<u32>, Le<u16>, [u8; 2]) = decode(entry);
        let child = blocks.read(wide(high.into(), low))?;
        if let Some(seed) = inode.checksum_seed {
            let at = Node::parse(&child).ok_or_else(bad)?.checksum_at();
            let sum = Reader::at(&child, at).and_then(|mut tail| tail.le32()).map_err(|_| bad())?;
            if child.get(..at).map(|node| crc32c(seed, node)) != Some(sum) {
                return Err(bad());
            }
        }
        bytes = child.to_vec();
        // Goes down by one each time, so the walk ends.
        expected = Some(below);
    }
}

/// The run that an extent gives for block `logical`, no longer than `hole`, or `hole` if it ends before. None if it begins
/// behind, or if no device is so large.
fn leaf(entry: &[u8; ENTRY], logical: u32, hole: Run) -> Option<Run> {
    let (Le(first), Le(stored), Le(high), Le(low)): (Le<u32>, Le<u16>, Le<u16>, Le<u32>) = decode(entry);
    let unwritten = stored.checked_sub(MAX_WRITTEN).filter(|len| *len > 0);
    let len = u64::from(unwritten.unwrap_or(stored));
    let skip = u64::from(logical.checked_sub(first)?);
    let Some(left) = len.checked_sub(skip).filter(|left| *left > 0) else { return Some(hole) };
    let block = wide(high.into(), low).checked_add(skip)?;
    Some(Run { block: unwritten.is_none().then_some(block), len: left.min(hole.len) })
}

fn mapped(blocks: &Blocks, inode: &Inode, logical: u32) -> Result<Run, TreeError> {
    let (first, hole) = pointer(blocks, inode, logical)?;
    if first == 0 {
        return Ok(Run { block: None, len: hole });
    }
    let mut len = 1;
    while len < MAX_MAPPED_RUN
        && let Some(next) = u64::from(logical).checked_add(len).and_then(|next| u32::try_from(next).ok())
        // cannot overflow: pointers have 32 bits.
        && pointer(blocks, inode, next)?.0 == first.saturating_add(len)
    {
        // cannot overflow: the loop ends at a bound.
        len = len.saturating_add(1);
    }
    Ok(Run { block: Some(first), len })
}

/// The block behind the pointer for block `logical`, and how many blocks a missing pointer on the way leaves out.
fn pointer(blocks: &Blocks, inode: &Inode, logical: u32) -> Result<(u64, u64), TreeError> {
    let bad = || TreeError::from(Damage::BlockMap { inode: inode.number.into() });
    let per_block = u64::from(blocks.size() >> 2);
    let mut rest = u64::from(logical);
    // Twelve blocks, and the roots of trees with one, two and three levels.
    let Rows(map): Rows<Le<u32>, 15> = decode(inode.map());
    let (direct, trees) = map.split_at(12);
    if let Some(Le(block)) = usize::try_from(rest).ok().and_then(|i| direct.get(i)) {
        return Ok((u64::from(*block), 1));
    }
    rest = rest.checked_sub(12).ok_or_else(bad)?;
    let mut covers = per_block;
    for Le(root) in trees {
        if rest < covers {
            let mut next = u64::from(*root);
            let mut unit = covers;
            while next != 0 {
                unit = unit.checked_div(per_block).filter(|unit| *unit > 0).ok_or_else(bad)?;
                let node = blocks.read(next)?;
                let index = rest.checked_div(unit).and_then(|i| usize::try_from(i).ok()).ok_or_else(bad)?;
                let slot = node.as_chunks().0.get(index).ok_or_else(bad)?;
                next = u32::from_le_bytes(*slot).into();
                rest = rest.checked_rem(unit).ok_or_else(bad)?;
                if unit == 1 {
                    return Ok((next, 1));
                }
            }
            // Everything under the missing pointer is a hole.
            return unit.checked_sub(rest).map(|hole| (0, hole)).ok_or_else(bad);
        }
        rest = rest.checked_sub(covers).ok_or_else(bad)?;
        covers = covers.checked_mul(per_block).ok_or_else(bad)?;
    }
    Err(bad())
}
