//! The sizes of a littlefs that nobody told, from its superblock.

/// What a superblock says of its medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probed {
    /// Bytes in an erase block.
    pub block_size: u32,
    /// Erase blocks.
    pub block_count: u32,
}

/// Bytes of a block in which the superblock's first entry lies.
const ENTRY: usize = 44;

/// Looks for a superblock: `read` fills its buffer from a byte offset and says whether it could. The first block has one; so
/// has the second, where a power loss took the first: then block sizes are tried.
pub fn probe(mut read: impl FnMut(u64, &mut [u8]) -> bool) -> Option<Probed> {
    let starts = core::iter::once(0).chain((7..=22).map(|bits| 1_u64 << bits));
    for start in starts {
        let mut block = [0; ENTRY];
        if read(start, &mut block)
            && let Some(found) = entry(&block)
            && (start == 0 || start == u64::from(found.block_size))
        {
            return Some(found);
        }
    }
    None
}

/// Revision, tag, "littlefs", tag, version, block size, block count: the first entry of a compacted superblock.
fn entry(block: &[u8; ENTRY]) -> Option<Probed> {
    let word = |at: usize| Some(u32::from_le_bytes(block.get(at..at.checked_add(4)?)?.try_into().ok()?));
    let (version, block_size, block_count) = (word(20)?, word(24)?, word(28)?);
    let plausible = block.get(8..16) == Some(b"littlefs") && version >> 16 == 2 && block_size >= 128;
    (plausible && block_count >= 2).then_some(Probed { block_size, block_count })
}
