//! Directories of linear blocks: kernel Documentation/filesystems/ext4, "Linear (Classic) Directories".

use atrest_codec::{Le, WriteError, Writer, crc32c, encode};
use atrest_filetree::Kind;

/// An entry without its name.
const HEADER: usize = 8;
/// Bytes of the entry at the end of a block that holds its checksum.
const TAIL: usize = 12;

/// One name, as it is stored.
pub(super) struct Entry {
    pub(super) name: Vec<u8>,
    pub(super) inode: u32,
    pub(super) kind: Kind,
}

/// Blocks that are needed for names of these lengths besides `.` and `..`.
pub(super) fn blocks_for(lengths: impl Iterator<Item = usize>, block_size: usize) -> u64 {
    let (mut blocks, mut used) = (1, size_of(1) + size_of(2));
    for len in lengths {
        if used + size_of(len) > block_size - TAIL {
            (blocks, used) = (blocks + 1, 0);
        }
        used += size_of(len);
    }
    blocks
}

/// The blocks of a directory. `seed` is that of its inode's checksums.
pub(super) fn blocks(
    own: u32,
    parent: u32,
    entries: &[Entry],
    block_size: usize,
    seed: u32,
) -> Result<Vec<u8>, WriteError> {
    let dots = [(b".".as_slice(), own, Kind::Directory), (b"..", parent, Kind::Directory)];
    let names = entries.iter().map(|entry| (entry.name.as_slice(), entry.inode, entry.kind));
    let mut out = Vec::new();
    let mut block = Block::new(block_size);
    for (name, inode, kind) in dots.into_iter().chain(names) {
        if block.at + size_of(name.len()) > block_size - TAIL {
            out.extend(block.finish(seed)?);
            block = Block::new(block_size);
        }
        block.push(name, inode, kind)?;
    }
    out.extend(block.finish(seed)?);
    Ok(out)
}

/// A block that is being filled.
struct Block {
    bytes: Vec<u8>,
    /// Where the last entry starts, and where the next one would.
    last: usize,
    at: usize,
}

impl Block {
    fn new(size: usize) -> Self {
        Self { bytes: vec![0; size], last: 0, at: 0 }
    }

    fn push(&mut self, name: &[u8], inode: u32, kind: Kind) -> Result<(), WriteError> {
        let size = size_of(name.len());
        let mut writer = Writer::new(self.bytes.get_mut(self.at..).ok_or(WriteError::Full)?);
        let name_len = u8::try_from(name.len()).map_err(|_| WriteError::Full)?;
        writer.field((Le(inode), Le(size as u16), [name_len, number(kind)]))?;
        writer.bytes(name)?;
        (self.last, self.at) = (self.at, self.at + size);
        Ok(())
    }

    /// Stretches the last entry to the tail, writes that, and returns the block.
    fn finish(mut self, seed: u32) -> Result<Vec<u8>, WriteError> {
        let (entries, tail) = self.bytes.split_last_chunk_mut::<TAIL>().ok_or(WriteError::Full)?;
        // The length of an entry stands behind the number of its inode.
        let len = entries.len().checked_sub(self.last).and_then(|len| u16::try_from(len).ok());
        let mut last = Writer::new(entries.get_mut(self.last + 4..).ok_or(WriteError::Full)?);
        last.le16(len.ok_or(WriteError::Full)?)?;
        let sum = crc32c(seed, entries);
        *tail = encode((Le(0_u32), Le(TAIL as u16), [0, 0xde], Le(sum)));
        Ok(self.bytes)
    }
}

fn size_of(name_len: usize) -> usize {
    (HEADER + name_len).next_multiple_of(4)
}

/// The number of a type in directory entries.
fn number(kind: Kind) -> u8 {
    match kind {
        Kind::File => 1,
        Kind::Directory => 2,
        Kind::CharDevice => 3,
        Kind::BlockDevice => 4,
        Kind::Pipe => 5,
        Kind::Socket => 6,
        Kind::Link => 7,
    }
}
