//! Directories of linear blocks: kernel Documentation/filesystems/ext4, "Linear (Classic) Directories".

use super::put;
use crate::bytes::crc32c;
use crate::tree::Kind;

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
pub(super) fn blocks(own: u32, parent: u32, entries: &[Entry], block_size: usize, seed: u32) -> Vec<u8> {
    let end = block_size - TAIL;
    let mut out = Vec::new();
    let mut block = vec![0; block_size];
    // Where the last entry of the block starts, and where the next one would.
    let (mut last, mut at) = (0, 0);
    let mut place = |block: &mut Vec<u8>, name: &[u8], inode: u32, kind: Kind| {
        if at + size_of(name.len()) > end {
            finish(block, last, seed);
            out.append(block);
            block.resize(block_size, 0);
            (last, at) = (0, 0);
        }
        put::le32(block, at, inode);
        put::le16(block, at + 4, size_of(name.len()) as u16);
        put::bytes(block, at + 6, &[name.len() as u8, number(kind)]);
        put::bytes(block, at + HEADER, name);
        last = at;
        at += size_of(name.len());
    };
    place(&mut block, b".", own, Kind::Directory);
    place(&mut block, b"..", parent, Kind::Directory);
    for entry in entries {
        place(&mut block, &entry.name, entry.inode, entry.kind);
    }
    finish(&mut block, last, seed);
    out.append(&mut block);
    out
}

/// Stretches the last entry to the tail, and writes that.
fn finish(block: &mut [u8], last: usize, seed: u32) {
    let end = block.len() - TAIL;
    put::le16(block, last + 4, (end - last) as u16);
    put::le16(block, end + 4, TAIL as u16);
    put::bytes(block, end + 7, &[0xde]);
    let sum = crc32c(seed, block.get(..end).unwrap_or(&[]));
    put::le32(block, end + 8, sum);
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
