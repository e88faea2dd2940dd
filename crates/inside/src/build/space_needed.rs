//! How large a filesystem must be for a source.

use super::source::Source;
use super::{BLOCK, dir};
use atrest_filetree::Kind;

/// Inodes that mke2fs takes for itself.
const RESERVED_INODES: u64 = 11;
const INODE: u64 = 256;

/// Inodes for a source in a filesystem of `size` bytes: a quarter more than it takes, and at least as many as mke2fs would make.
pub(super) fn inodes(source: &Source, size: u64) -> u64 {
    let own = RESERVED_INODES + source.entries.len() as u64;
    ((own + own / 4).next_multiple_of(16) + 256).max(size / 16384)
}

/// Bytes of a filesystem for a source, with a tenth more for what comes later.
pub(super) fn bytes(source: &Source) -> u64 {
    let block = BLOCK as u64;
    let contents: u64 = source
        .entries
        .iter()
        .map(|found| {
            // Names are padded to 32 bytes at most when they are encrypted; attributes take one block at most.
            let lengths = found.children.iter().map(|(name, _)| name.len().next_multiple_of(32).min(255));
            let own = match found.kind {
                Kind::File => found.blocks,
                Kind::Directory => dir::blocks_for(lengths, BLOCK),
                Kind::Link => 1,
                _ => 0,
            };
            own + u64::from(!found.attributes.is_empty())
        })
        .sum();
    let blocks = contents + (inodes(source, contents * block) * INODE).div_ceil(block);
    // The extent trees, bitmaps, descriptors and copies of the superblock are less than one part in fifty.
    let used = blocks * block + blocks * block / 50;
    (used + used / 10 + (4 << 20) + journal(used)).next_multiple_of(1 << 20)
}

/// Bytes of the journal that mke2fs makes in a filesystem for so many bytes.
fn journal(used: u64) -> u64 {
    match used >> 20 {
        0..100 => 4 << 20,
        100..900 => 16 << 20,
        900..1800 => 32 << 20,
        1800..15_000 => 64 << 20,
        15_000..30_000 => 128 << 20,
        30_000..60_000 => 256 << 20,
        60_000..120_000 => 512 << 20,
        _ => 1 << 30,
    }
}
