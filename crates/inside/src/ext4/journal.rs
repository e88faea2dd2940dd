//! The journal (JBD2), replayed in memory: kernel Documentation/filesystems/ext4, "Journal (jbd2)". Big-endian.
//!
//! Nothing is written. The result says which filesystem blocks have newer contents in the journal; a transaction counts
//! only when its commit record is there, and a block that a later transaction revoked is left alone.

use std::collections::{BTreeMap, HashMap};

use super::blocks::{Blocks, Replacement};
use super::inode::Inode;
use super::map;
use crate::bytes::{Fields, crc32c, wide};
use crate::error::{Damage, Feature, TreeError};

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

const TAG_ESCAPED: u32 = 1;
const TAG_SAME_UUID: u32 = 2;
const TAG_LAST: u32 = 8;

/// What the journal adds to the filesystem.
#[derive(Default)]
pub(super) struct Replay {
    pub(super) transactions: u32,
    pub(super) replaced: BTreeMap<u64, Replacement>,
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
    let fields = Fields(&head);
    let (magic, kind) = (fields.be32(0), fields.be32(4));
    let damaged = |block: u32| TreeError::Corrupt(Damage::Journal { block: block.into() });
    if magic != JOURNAL_MAGIC
        || !(SUPERBLOCK_V1..=SUPERBLOCK_V2).contains(&kind)
        || fields.be32(12) != blocks.size()
    {
        return Err(damaged(0));
    }
    let features = if kind == SUPERBLOCK_V2 { fields.be32(0x28) } else { 0 };
    if features & !incompat::KNOWN != 0 {
        return Err(TreeError::UnsupportedFeature(Feature::JournalIncompat(features & !incompat::KNOWN)));
    }
    if has_checksums(features) {
        let mut sum = crc32c(!0, fields.slice(0, 0xfc));
        sum = crc32c(sum, &[0; 4]);
        sum = crc32c(sum, fields.slice(0x100, 0x300));
        if sum != fields.be32(0xfc) {
            return Err(damaged(0));
        }
    }
    let (len, first) = (fields.be32(0x10), fields.be32(0x14));
    let (sequence, start) = (fields.be32(0x18), fields.be32(0x1c));
    let mut last = len;
    if features & incompat::FAST_COMMIT != 0 {
        let reserved = if fields.be32(0x54) == 0 { 256 } else { fields.be32(0x54) };
        last = last.saturating_sub(reserved);
    }
    if start == 0 {
        return Ok(Replay::default());
    }
    let fits = u64::from(len) <= inode.size.checked_div(blocks.size().into()).unwrap_or(0);
    if !fits || first == 0 || first >= last || !(first..last).contains(&start) {
        return Err(damaged(0));
    }
    let seed = crc32c(!0, fields.slice(0x30, 16));
    Journal { blocks, inode, first, last, features, seed }.run(sequence, start)
}

/// The block on the media that holds block `index` of the journal.
fn place(blocks: &Blocks, inode: &Inode, index: u32) -> Result<u64, TreeError> {
    map::run(blocks, inode, index.into())?
        .block
        .ok_or(TreeError::Corrupt(Damage::Journal { block: index.into() }))
}

fn has_checksums(features: u32) -> bool {
    features & (incompat::CSUM_V2 | incompat::CSUM_V3) != 0
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
        let mut budget = self.last.saturating_sub(self.first);
        while budget > 0 {
            let block = self.blocks.read_raw(place(self.blocks, self.inode, at)?)?;
            let fields = Fields(&block);
            if fields.be32(0) != JOURNAL_MAGIC || fields.be32(8) != sequence {
                break;
            }
            let index = at;
            at = self.next(at);
            budget = budget.saturating_sub(1);
            match fields.be32(4) {
                DESCRIPTOR => {
                    if !self.tail_is_good(&block) {
                        break;
                    }
                    for (target, escaped, sum) in self.tags(&block, index)? {
                        pending.push((target, escaped, sum, at));
                        at = self.next(at);
                        budget = budget.saturating_sub(1);
                    }
                }
                REVOKE => {
                    if !self.tail_is_good(&block) {
                        break;
                    }
                    self.revokes(&block, index, &mut pending_revokes)?;
                }
                COMMIT => {
                    if !self.commit_is_good(&block) {
                        break;
                    }
                    for (target, escaped, sum, place) in pending.drain(..) {
                        writes.push(self.write(sequence, target, escaped, sum, place)?);
                    }
                    for block in pending_revokes.drain(..) {
                        revoked.insert(block, sequence);
                    }
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
        let next = at.saturating_add(1);
        if next >= self.last { self.first } else { next }
    }

    /// Descriptor and revoke blocks end with their checksum.
    fn tail_is_good(&self, block: &[u8]) -> bool {
        let at = block.len().saturating_sub(4);
        let sum = crc32c(crc32c(self.seed, Fields(block).slice(0, at)), &[0; 4]);
        !has_checksums(self.features) || sum == Fields(block).be32(at)
    }

    fn commit_is_good(&self, block: &[u8]) -> bool {
        let fields = Fields(block);
        let mut sum = crc32c(self.seed, fields.slice(0, 16));
        sum = crc32c(sum, &[0; 4]);
        sum = crc32c(sum, fields.slice(20, block.len()));
        !has_checksums(self.features) || sum == fields.be32(16)
    }

    /// Target, whether it is escaped, and the stored checksum of each block that a descriptor announces.
    fn tags(&self, block: &[u8], index: u32) -> Result<Vec<(u64, bool, u32)>, TreeError> {
        let v3 = self.features & incompat::CSUM_V3 != 0;
        let wide_numbers = self.features & incompat::BITS64 != 0;
        let size = match (v3, self.features & incompat::CSUM_V2 != 0, wide_numbers) {
            (true, _, _) => 16,
            (_, true, true) => 14,
            (_, true, false) => 10,
            (_, false, true) => 12,
            (_, false, false) => 8,
        };
        let end = block.len().saturating_sub(if has_checksums(self.features) { 4 } else { 0 });
        let mut tags = Vec::new();
        let mut at: usize = 12;
        while at.saturating_add(size) <= end {
            let tag = Fields(Fields(block).slice(at, size));
            let (flags, sum) =
                if v3 { (tag.be32(4), tag.be32(12)) } else { (tag.be16(6).into(), tag.be16(4).into()) };
            let high = if wide_numbers { tag.be32(8) } else { 0 };
            tags.push((wide(high, tag.be32(0)), flags & TAG_ESCAPED != 0, sum));
            at = at.saturating_add(size);
            if flags & TAG_SAME_UUID == 0 {
                at = at.saturating_add(16);
            }
            if flags & TAG_LAST != 0 {
                return Ok(tags);
            }
        }
        // A full block needs no last flag.
        if tags.is_empty() { Err(Damage::Journal { block: index.into() }.into()) } else { Ok(tags) }
    }

    fn revokes(&self, block: &[u8], index: u32, revoked: &mut Vec<u64>) -> Result<(), TreeError> {
        let fields = Fields(block);
        let end = usize::try_from(fields.be32(12)).unwrap_or(usize::MAX);
        if end < 16 || end > block.len() {
            return Err(Damage::Journal { block: index.into() }.into());
        }
        let width = if self.features & incompat::BITS64 != 0 { 8 } else { 4 };
        for entry in fields.slice(16, end.saturating_sub(16)).chunks_exact(width) {
            let entry = Fields(entry);
            revoked.push(if width == 8 { wide(entry.be32(0), entry.be32(4)) } else { entry.be32(0).into() });
        }
        Ok(())
    }

    /// Checks one logged block and turns it into a replacement.
    fn write(
        &self,
        sequence: u32,
        target: u64,
        escaped: bool,
        sum: u32,
        index: u32,
    ) -> Result<Write, TreeError> {
        let damaged = TreeError::Corrupt(Damage::Journal { block: index.into() });
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
        let fields = Fields(&block);
        // Tag and length (16 bits each), features, transaction; little-endian, unlike the rest.
        let tid = fields.le32(8);
        if fields.le16(0) == HEAD && (tid == next || tid.wrapping_add(1) == next) {
            return Err(TreeError::UnsupportedFeature(Feature::FastCommit));
        }
        Ok(())
    }
}
