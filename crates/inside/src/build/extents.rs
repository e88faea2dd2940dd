//! Extent trees: kernel Documentation/filesystems/ext4, "Extent Tree". Built from the leaves up, every node full.

use atrest_codec::{Le, Rows, crc32c, decode, encode};

use super::space::{Run, Space};
use super::{BuildError, halves};
use crate::bytes::wide;

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
                let mut node = node(entries, room, depth);
                let sum = crc32c(seed, &node);
                node.extend_from_slice(&sum.to_le_bytes());
                node.resize(space.sb.block_size, 0);
                let block = space.take(1)?.first;
                space.write(block, &node)?;
                self.blocks += 1;
                let logical = entries.first().map_or(0, |entry| entry.0);
                above.push((logical, index(logical, block)));
            }
            level = above;
            depth += 1;
        }
        let mut entries = [[0; ENTRY]; IN_INODE];
        for (place, (_, entry)) in entries.iter_mut().zip(&level) {
            *place = *entry;
        }
        Ok(encode((header(level.len(), IN_INODE, depth), Rows(entries))))
    }
}

impl Extent {
    fn behind(self, skip: u64) -> Self {
        let run = Run { first: self.run.first + skip, len: self.run.len - skip };
        Self { logical: self.logical + skip, run }
    }
}

/// The runs of an extent tree without inner nodes, as mke2fs makes for its first directories.
pub(super) fn flat(root: &[u8; 60]) -> Option<Vec<Run>> {
    let ((Le(magic), Le(count), _, Le(depth), _), Rows(entries)): (Header, Rows<Leaf, IN_INODE>) =
        decode(root);
    let entries = entries.get(..usize::from(count)).filter(|_| magic == MAGIC && depth == 0)?;
    let run = |(_, Le(len), Le(high), Le(low)): &Leaf| Run {
        first: wide((*high).into(), *low),
        len: (*len).into(),
    };
    Some(entries.iter().map(run).collect())
}

/// Magic number, entries, room for entries, nodes below, generation.
type Header = (Le<u16>, Le<u16>, Le<u16>, Le<u16>, [u8; 4]);
/// First block in the file, number of blocks, first block on the medium: its high and its low half.
type Leaf = (Le<u32>, Le<u16>, Le<u16>, Le<u32>);

/// The header of a node. A node has fewer entries than a block has bytes, so that their number has 16 bits.
fn header(entries: usize, room: usize, depth: u16) -> Header {
    (Le(MAGIC), Le(entries as u16), Le(room as u16), Le(depth), [0; 4])
}

/// A node up to its checksum, all its room included.
fn node(entries: &[(u64, [u8; ENTRY])], room: usize, depth: u16) -> Vec<u8> {
    let start: [u8; ENTRY] = encode(header(entries.len(), room, depth));
    let mut node = start.to_vec();
    entries.iter().for_each(|(_, entry)| node.extend_from_slice(entry));
    node.resize(ENTRY + room * ENTRY, 0);
    node
}

/// An extent. Blocks in a file have 32 bits, on the medium 48.
fn leaf(extent: &Extent) -> [u8; ENTRY] {
    let ((logical, _), (low, high)) = (halves(extent.logical), halves(extent.run.first));
    encode((Le(logical), Le(extent.run.len as u16), Le(high as u16), Le(low)))
}

fn index(logical: u64, block: u64) -> [u8; ENTRY] {
    let ((logical, _), (low, high)) = (halves(logical), halves(block));
    encode((Le(logical), Le(low), Le(high as u16), [0; 2]))
}
