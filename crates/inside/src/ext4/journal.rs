//! The journal (JBD2), replayed in memory: kernel Documentation/filesystems/ext4, "Journal (jbd2)". Big-endian.
//!
//! Nothing is written. The result says which filesystem blocks have newer contents in the journal; a transaction counts
//! only when its commit record is there, and a block that a later transaction revoked is left alone.

use std::collections::{BTreeMap, HashMap};

use atrest_codec::{Be, Le, ReadError, Reader, Record, crc32c, crc32c_without};
use atrest_filetree::TreeError;

use super::blocks::{Blocks, Replacement};
use super::inode::Inode;
use super::map;
use crate::bytes::wide;
use crate::fault::{Damage, Feature};

pub(super) const JOURNAL_MAGIC: u32 = 0xc03b_3998;

const DESCRIPTOR: u32 = 1;
const COMMIT: u32 = 2;
const SUPERBLOCK_V1: u32 = 3;
const SUPERBLOCK_V2: u32 = 4;
const REVOKE: u32 = 5;

mod incompat {
    pub(crate) const BITS64: u32 = 0x2;
    pub(crate) const CSUM_V2: u32 = 0x8;
    pub(crate) const CSUM_V3: u32 = 0x10;
    pub(crate) const FAST_COMMIT: u32 = 0x20;
    /// Revoke records (1) and asynchronous commits (4) need nothing special.
    pub(crate) const KNOWN: u32 = 0x1 | BITS64 | 0x4 | CSUM_V2 | CSUM_V3 | FAST_COMMIT;
}

/// Bytes of the journal's superblock.
const SUPERBLOCK_LEN: usize = 1024;
/// What descriptor, revoke and commit blocks start with: magic number, kind, sequence number.
type Header = (Be<u32>, Be<u32>, Be<u32>);

const TAG_ESCAPED: u32 = 1;
const TAG_SAME_UUID: u32 = 2;
const TAG_LAST: u32 = 8;

/// What the journal adds to the filesystem.
#[derive(Default)]
pub(super) struct Replay {
    pub(super) transactions: u32,
    pub(super) replaced: BTreeMap<u64, Replacement>,
}

/// What a descriptor says of a block behind it.
struct Tag {
    /// Where it belongs.
    target: u64,
    escaped: bool,
    /// The stored checksum.
    sum: u32,
}

/// A block that a transaction wrote.
struct Write {
    sequence: u32,
    /// Where it belongs.
    target: u64,
    place: Replacement,
}

struct Journal<'a> {
    blocks: &'a Blocks,
    inode: &'a Inode,
    /// Blocks of the log within the journal: it wraps from `last` to `first`.
    first: u32,
    last: u32,
    features: u32,
    seed: u32,
}

/// Reads the journal in `inode`.
pub(super) fn replay(blocks: &Blocks, inode: &Inode) -> Result<Replay, TreeError> {
    let head = blocks.read_raw(place(blocks, inode, 0)?)?;
    let fields = Record::new(head.first_chunk::<SUPERBLOCK_LEN>().ok_or_else(|| damaged(0))?);
    let (magic, kind) = (fields.be32::<0>(), fields.be32::<4>());
    if magic != JOURNAL_MAGIC
        || !(SUPERBLOCK_V1..=SUPERBLOCK_V2).contains(&kind)
        || fields.be32::<12>() != blocks.size()
    {
        return Err(damaged(0));
    }
    let features = if kind == SUPERBLOCK_V2 { fields.be32::<0x28>() } else { 0 };
    if features & !incompat::KNOWN != 0 {
        return Err(Feature::JournalIncompat(features & !incompat::KNOWN).into());
    }
    if has_checksums(features)
        && crc32c_without(!0, fields.bytes(), 0xfc..0x100) != Some(fields.be32::<0xfc>())
    {
        return Err(damaged(0));
    }
    let (len, first) = (fields.be32::<0x10>(), fields.be32::<0x14>());
    let (sequence, start) = (fields.be32::<0x18>(), fields.be32::<0x1c>());
    let mut last = len;
    if features & incompat::FAST_COMMIT != 0 {
        let reserved = if fields.be32::<0x54>() == 0 { 256 } else { fields.be32::<0x54>() };
        last = last.checked_sub(reserved).ok_or_else(|| damaged(0))?;
    }
    if start == 0 {
        return Ok(Replay::default());
    }
    // cannot divide by zero: a block has bytes.
    let fits = u64::from(len) <= inode.size.checked_div(blocks.size().into()).unwrap_or(0);
    if !fits || first == 0 || first >= last || !(first..last).contains(&start) {
        return Err(damaged(0));
    }
    let seed = crc32c(!0, fields.array::<0x30, 16>());
    Journal { blocks, inode, first, last, features, seed }.run(sequence, start)
}

fn damaged(block: u32) -> TreeError {
    Damage::Journal { block: block.into() }.into()
}

/// The block on the media that holds block `index` of the journal.
fn place(blocks: &Blocks, inode: &Inode, index: u32) -> Result<u64, TreeError> {
    map::run(blocks, inode, index.into())?.block.ok_or(damaged(index))
}

fn has_checksums(features: u32) -> bool {
    features & (incompat::CSUM_V2 | incompat::CSUM_V3) != 0
}

/// The blocks that a revoke block names, by numbers of `width` bytes.
fn revoked_blocks(block: &[u8], width: usize) -> Result<Vec<u64>, ReadError> {
    let mut reader = Reader::new(block);
    reader.field::<Header>()?;
    // The length counts the bytes before it, and its own.
    let len = usize::try_from(reader.be32()?).ok().and_then(|len| len.checked_sub(16));
    let mut numbers = reader.sub(len.ok_or(ReadError::Short)?)?;
    let mut blocks = Vec::new();
    while numbers.remaining() > 0 {
        blocks.push(if width == 8 { numbers.be64()? } else { numbers.be32()?.into() });
    }
    Ok(blocks)
}

impl Journal<'_> {
    fn run(&self, mut sequence: u32, start: u32) -> Result<Replay, TreeError> {
        let mut writes: Vec<Write> = Vec::new();
        let mut revoked: HashMap<u64, u32> = HashMap::new();
        // The transaction that is being read; both are dropped unless its commit record comes.
        let (mut pending, mut pending_revokes) = (Vec::new(), Vec::new());
        let mut transactions: u32 = 0;
        let mut at = start;
        // Every block of the log is looked at once at most.
        // cannot overflow: `replay` refused a log that ends before it begins.
        let mut budget = self.last.saturating_sub(self.first);
        while budget > 0 {
            let block = self.blocks.read_raw(place(self.blocks, self.inode, at)?)?;
            let (Be(magic), Be(kind), Be(found)) =
                Reader::new(&block).field::<Header>().map_err(|_| damaged(at))?;
            if magic != JOURNAL_MAGIC || found != sequence {
                break;
            }
            let index = at;
            at = self.next(at);
            // cannot overflow: the loop ends at 0.
            budget = budget.saturating_sub(1);
            match kind {
                DESCRIPTOR => {
                    if !self.tail_is_good(&block) {
                        break;
                    }
                    for tag in self.tags(&block).ok().filter(|tags| !tags.is_empty()).ok_or(damaged(index))? {
                        pending.push((tag, at));
                        at = self.next(at);
                        // intended: a descriptor that announces more blocks than the log has is the last one that is looked at.
                        budget = budget.saturating_sub(1);
                    }
                }
                REVOKE => {
                    if !self.tail_is_good(&block) {
                        break;
                    }
                    let width = if self.features & incompat::BITS64 != 0 { 8 } else { 4 };
                    pending_revokes.extend(revoked_blocks(&block, width).map_err(|_| damaged(index))?);
                }
                COMMIT => {
                    if !self.commit_is_good(&block) {
                        break;
                    }
                    for (tag, place) in pending.drain(..) {
                        writes.push(self.write(sequence, tag, place)?);
                    }
                    for block in pending_revokes.drain(..) {
                        revoked.insert(block, sequence);
                    }
                    // cannot overflow: each has a block of its own.
                    transactions = transactions.saturating_add(1);
                    sequence = sequence.wrapping_add(1);
                }
                _ => break,
            }
        }
        self.check_fast_commits(sequence)?;
        let mut replaced = BTreeMap::new();
        for write in writes {
            // Sequence numbers wrap; the difference tells which is later.
            let later = |revoke: &u32| revoke.wrapping_sub(write.sequence) < 1 << 31;
            if !revoked.get(&write.target).is_some_and(later) {
                replaced.insert(write.target, write.place);
            }
        }
        Ok(Replay { transactions, replaced })
    }

    fn next(&self, at: u32) -> u32 {
        // cannot overflow: it lies before the last block.
        let next = at.saturating_add(1);
        if next >= self.last { self.first } else { next }
    }

    /// Descriptor and revoke blocks end with their checksum.
    fn tail_is_good(&self, block: &[u8]) -> bool {
        let Some((content, sum)) = block.split_last_chunk() else { return false };
        let found = crc32c(crc32c(self.seed, content), &[0; 4]);
        !has_checksums(self.features) || found == u32::from_be_bytes(*sum)
    }

    fn commit_is_good(&self, block: &[u8]) -> bool {
        let stored = Reader::at(block, 16).and_then(|mut fields| fields.be32()).ok();
        !has_checksums(self.features)
            || stored.is_some() && crc32c_without(self.seed, block, 16..20) == stored
    }

    /// What a descriptor announces: a tag for each block behind it.
    fn tags(&self, block: &[u8]) -> Result<Vec<Tag>, ReadError> {
        let sums = if has_checksums(self.features) { 4 } else { 0 };
        let mut reader = Reader::new(block);
        let mut rest = reader.sub(block.len().checked_sub(sums).ok_or(ReadError::Short)?)?;
        rest.field::<Header>()?;
        let mut tags = Vec::new();
        // A full block needs no last flag.
        while rest.remaining() >= self.tag_len() {
            let (tag, flags) = self.tag(&mut rest)?;
            tags.push(tag);
            if flags & TAG_LAST != 0 {
                break;
            }
            if flags & TAG_SAME_UUID == 0 {
                rest.array::<16>()?;
            }
        }
        Ok(tags)
    }

    /// Bytes of a tag, without the UUID that may follow it.
    fn tag_len(&self) -> usize {
        let wide_numbers = self.features & incompat::BITS64 != 0;
        match (self.features & incompat::CSUM_V3 != 0, self.features & incompat::CSUM_V2 != 0, wide_numbers) {
            (true, _, _) => 16,
            (_, true, true) => 14,
            (_, true, false) => 10,
            (_, false, true) => 12,
            (_, false, false) => 8,
        }
    }

    /// Takes one tag, and returns its flags, too.
    fn tag(&self, rest: &mut Reader<'_>) -> Result<(Tag, u32), ReadError> {
        let wide_numbers = self.features & incompat::BITS64 != 0;
        let mut fields = rest.sub(self.tag_len())?;
        let low = fields.be32()?;
        let (flags, high, sum) = if self.features & incompat::CSUM_V3 != 0 {
            (fields.be32()?, fields.be32()?, fields.be32()?)
        } else {
            let (sum, flags) = (fields.be16()?, fields.be16()?);
            (flags.into(), if wide_numbers { fields.be32()? } else { 0 }, sum.into())
        };
        let target = wide(if wide_numbers { high } else { 0 }, low);
        Ok((Tag { target, escaped: flags & TAG_ESCAPED != 0, sum }, flags))
    }

    /// Checks one logged block and turns it into a replacement.
    fn write(&self, sequence: u32, tag: Tag, index: u32) -> Result<Write, TreeError> {
        let Tag { target, escaped, sum } = tag;
        let damaged = damaged(index);
        let block = place(self.blocks, self.inode, index)?;
        if self.blocks.check(target, 1).is_err() {
            return Err(damaged);
        }
        if has_checksums(self.features) {
            let found = self.blocks.read_raw(block)?;
            let actual = crc32c(crc32c(self.seed, &sequence.to_be_bytes()), &found);
            let mask = if self.features & incompat::CSUM_V3 != 0 { !0 } else { 0xffff };
            if (actual ^ sum) & mask != 0 {
                return Err(damaged);
            }
        }
        Ok(Write { sequence, target, place: Replacement { block, escaped } })
    }

    /// Fast-commit records describe changes of inodes rather than blocks. We don't replay them, so if there are any
    /// for the transaction after the last one, what we would show is stale: say so instead.
    fn check_fast_commits(&self, next: u32) -> Result<(), TreeError> {
        const HEAD: u16 = 0x0009;
        if self.features & incompat::FAST_COMMIT == 0 {
            return Ok(());
        }
        let block = self.blocks.read_raw(place(self.blocks, self.inode, self.last)?)?;
        // Tag and length (16 bits each), features, transaction; little-endian, unlike the rest.
        let (Le(tag), Le(_), Le(_), Le(tid)): (Le<u16>, Le<u16>, Le<u32>, Le<u32>) =
            Reader::new(&block).field().map_err(|_| damaged(self.last))?;
        if tag == HEAD && (tid == next || tid.wrapping_add(1) == next) {
            return Err(Feature::FastCommit.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revoke_block_holds_whole_numbers() {
        let block = |len: u32| [&[0; 12], &len.to_be_bytes()[..], &[1; 12]].concat();
        assert_eq!(revoked_blocks(&block(28), 4), Ok(vec![0x0101_0101; 3]));
        assert_eq!(revoked_blocks(&block(24), 8), Ok(vec![0x0101_0101_0101_0101]));
        assert_eq!(revoked_blocks(&block(16), 8), Ok(Vec::new()));
        // Half a number would be left out: its block would come back.
        assert_eq!(revoked_blocks(&block(28), 8), Err(ReadError::Short));
        for len in [0, 15, 17, 29, u32::MAX] {
            assert_eq!(revoked_blocks(&block(len), 4), Err(ReadError::Short), "{len}");
        }
    }
}
