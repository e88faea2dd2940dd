//! Extent trees: kernel Documentation/filesystems/ext4, "Extent Tree". Built from the leaves up, every node full.

use super::space::{Run, Space};
use super::{BuildError, put};
use crate::bytes::{Fields, crc32c};

const MAGIC: u16 = 0xf30a;
const ENTRY: usize = 12;
/// Entries in the inode itself.
const IN_INODE: usize = 4;
/// Longest extent of blocks that were written.
const MAX_LEN: u64 = 32768;
/// Blocks in a file: their numbers have 32 bits.
pub(super) const MAX_BLOCKS: u64 = 1 << 32;

/// Where the blocks of a file lie.
#[derive(Default)]
pub(super) struct Extents {
    list: Vec<Extent>,
    /// Blocks of the file and of its tree.
    pub(super) blocks: u64,
}

#[derive(Clone, Copy)]
struct Extent {
    logical: u64,
    run: Run,
}

impl Extents {
    /// Adds blocks of the file from `logical` on, which lies behind all before.
    pub(super) fn push(&mut self, logical: u64, run: Run) {
        self.blocks += run.len;
        let mut rest = Extent { logical, run };
        if let Some(last) = self.list.last_mut()
            && last.logical + last.run.len == logical
            && last.run.first + last.run.len == run.first
        {
            let grown = (last.run.len + run.len).min(MAX_LEN);
            let more = grown - last.run.len;
            last.run.len = grown;
            rest = rest.behind(more);
        }
        while rest.run.len > 0 {
            let len = rest.run.len.min(MAX_LEN);
            self.list.push(Extent { run: Run { len, ..rest.run }, ..rest });
            rest = rest.behind(len);
        }
    }

    /// Writes the nodes of the tree and returns its root, the 60 bytes in the inode. `seed` is that of the inode's checksums.
    pub(super) fn write(&mut self, space: &mut Space<'_>, seed: u32) -> Result<[u8; 60], BuildError> {
        let mut level: Vec<(u64, [u8; ENTRY])> =
            self.list.iter().map(|extent| (extent.logical, leaf(extent))).collect();
        let room = (space.sb.block_size - ENTRY - 4) / ENTRY;
        let mut depth = 0;
        while level.len() > IN_INODE {
            let mut above = Vec::with_capacity(level.len().div_ceil(room));
            for entries in level.chunks(room) {
                let mut node = vec![0; space.sb.block_size];
                fill(&mut node, entries, room, depth);
                let tail = ENTRY + room * ENTRY;
                let sum = crc32c(seed, Fields(&node).slice(0, tail));
                put::le32(&mut node, tail, sum);
                let block = space.take(1)?.first;
                space.write(block, &node)?;
                self.blocks += 1;
                let logical = entries.first().map_or(0, |entry| entry.0);
                above.push((logical, index(logical, block)));
            }
            level = above;
            depth += 1;
        }
        let mut root = [0; 60];
        fill(&mut root, &level, IN_INODE, depth);
        Ok(root)
    }
}

impl Extent {
    fn behind(self, skip: u64) -> Self {
        let run = Run { first: self.run.first + skip, len: self.run.len - skip };
        Self { logical: self.logical + skip, run }
    }
}

/// The runs of an extent tree without inner nodes, as mke2fs makes for its first directories.
pub(super) fn flat(root: &[u8]) -> Option<Vec<Run>> {
    let header = Fields(root);
    let entries = usize::from(header.le16(2));
    if header.le16(0) != MAGIC || header.le16(6) != 0 || entries > IN_INODE {
        return None;
    }
    let runs = (1..=entries).map(|i| {
        let entry = Fields(header.slice(i * ENTRY, ENTRY));
        let first = u64::from(entry.le16(6)) << 32 | u64::from(entry.le32(8));
        Run { first, len: entry.le16(4).into() }
    });
    Some(runs.collect())
}

fn fill(node: &mut [u8], entries: &[(u64, [u8; ENTRY])], room: usize, depth: u16) {
    put::le16(node, 0, MAGIC);
    put::le16(node, 2, entries.len() as u16);
    put::le16(node, 4, room as u16);
    put::le16(node, 6, depth);
    for (i, (_, entry)) in entries.iter().enumerate() {
        put::bytes(node, ENTRY + i * ENTRY, entry);
    }
}

fn leaf(extent: &Extent) -> [u8; ENTRY] {
    let mut entry = [0; ENTRY];
    put::le32(&mut entry, 0, put::low32(extent.logical));
    put::le16(&mut entry, 4, extent.run.len as u16);
    put::le16(&mut entry, 6, (extent.run.first >> 32) as u16);
    put::le32(&mut entry, 8, put::low32(extent.run.first));
    entry
}

fn index(logical: u64, block: u64) -> [u8; ENTRY] {
    let mut entry = [0; ENTRY];
    put::le32(&mut entry, 0, put::low32(logical));
    put::le32(&mut entry, 4, put::low32(block));
    put::le16(&mut entry, 8, (block >> 32) as u16);
    entry
}
