//! Inodes: kernel Documentation/filesystems/ext4, "Index Nodes".

use atrest_codec::{Reader, Record, RecordMut, crc32c, crc32c_without};
use atrest_filetree::{Kind, Metadata, Timestamp, TreeError};

use super::superblock::Superblock;
use super::{Blocks, incompat, xattr};
use crate::build::encode_time;
use crate::bytes::wide;
use crate::fault::Damage;

pub(super) const ROOT: u32 = 2;

pub(super) mod flag {
    /// Immutable, or only to be appended to, or covered by fs-verity's hashes.
    pub(crate) const PROTECTED: u32 = 0x10 | 0x20 | 0x10_0000;
    pub(crate) const ENCRYPT: u32 = 0x800;
    pub(crate) const INDEX: u32 = 0x1000;
    pub(crate) const HUGE_FILE: u32 = 0x4_0000;
    pub(crate) const EXTENTS: u32 = 0x8_0000;
    pub(crate) const INLINE_DATA: u32 = 0x1000_0000;
    pub(crate) const CASEFOLD: u32 = 0x4000_0000;
}

/// Largest file with an extent tree or a block map that we accept, in blocks: block numbers in a file have 32 bits.
const MAX_FILE_BLOCKS: u64 = 1 << 32;

/// One inode, its checksum and its type verified.
pub(super) struct Inode {
    pub(super) number: u32,
    pub(super) kind: Kind,
    pub(super) size: u64,
    pub(super) flags: u32,
    /// Seed of the checksums of its extents and directory blocks.
    pub(super) checksum_seed: Option<u32>,
    /// The fields that every inode has.
    base: [u8; BASE],
    /// All bytes behind them: further fields and attributes. Nothing in an inode of 128 bytes.
    rest: Vec<u8>,
    /// How many bytes of `rest` are fields.
    extra: usize,
}

/// Bytes of the fields that every inode has.
const BASE: usize = 128;
/// Offsets of the further fields, counted from the first of them.
mod extra {
    /// How many bytes of them there are.
    pub(super) const LEN: usize = 0x80 - super::BASE;
    pub(super) const CHECKSUM_HIGH: usize = 0x82 - super::BASE;
    pub(super) const CHANGED: usize = 0x84 - super::BASE;
    pub(super) const MODIFIED: usize = 0x88 - super::BASE;
    pub(super) const ACCESSED: usize = 0x8c - super::BASE;
}

impl Inode {
    /// Reads inode `number`.
    pub(super) fn read(sb: &Superblock, blocks: &Blocks, number: u32) -> Result<Self, TreeError> {
        let (block, at) = Self::place(sb, blocks, number)?;
        let found = blocks.read(block)?;
        let raw = found.get(at..).and_then(|from| from.get(..usize::from(sb.inode_size)));
        Self::parse(sb, number, raw.ok_or(Damage::Inode(number.into()))?)
    }

    /// The block in which inode `number` lies, and the byte in it.
    pub(super) fn place(sb: &Superblock, blocks: &Blocks, number: u32) -> Result<(u64, usize), TreeError> {
        let index = number.checked_sub(1).filter(|_| number <= sb.inodes);
        let index = index.ok_or(Damage::InodeNumber(number.into()))?;
        let bad = || TreeError::from(Damage::Inode(number.into()));
        let group = index.checked_div(sb.inodes_per_group).ok_or_else(bad)?;
        let (block, within) = sb.descriptor_place(group.into()).ok_or(Damage::InodeNumber(number.into()))?;
        let descriptors = blocks.read(block)?;
        let descriptor = descriptors.get(within..).ok_or(Damage::GroupDescriptor { group })?;
        let table = sb.inode_table(group, descriptor)?;
        let index = u64::from(index.checked_rem(sb.inodes_per_group).ok_or_else(bad)?);
        let byte = index.checked_mul(sb.inode_size.into()).ok_or_else(bad)?;
        let size = u64::from(sb.block_size);
        let block = byte.checked_div(size).and_then(|blocks| table.checked_add(blocks));
        let within = byte.checked_rem(size).and_then(|within| usize::try_from(within).ok());
        // Block 0 holds no inodes; a table there means that the descriptor was never filled in.
        let block = block.filter(|block| *block != 0);
        block.zip(within).ok_or_else(bad)
    }

    fn parse(sb: &Superblock, number: u32, raw: &[u8]) -> Result<Self, TreeError> {
        let bad = || TreeError::from(Damage::Inode(number.into()));
        let (base, rest) = raw.split_first_chunk::<BASE>().ok_or_else(bad)?;
        let fields = Record::new(base);
        let checksum_seed = sb.checksum_seed.map(|seed| {
            let seed = crc32c(seed, &number.to_le_bytes());
            crc32c(seed, fields.array::<0x64, 4>())
        });
        if let Some(seed) = checksum_seed {
            let sum = checksum(seed, base, rest).ok_or_else(bad)?;
            let [a, b, ..] = sum.crc.to_le_bytes();
            let low = u16::from_le_bytes([a, b]) == fields.le16::<0x7c>();
            if !low || sum.stored_high.is_some_and(|stored| u32::from(stored) != sum.crc >> 16) {
                return Err(Damage::InodeChecksum(number.into()).into());
            }
        }
        let extra = if rest.is_empty() { 0 } else { usize::from(extra_len(rest).ok_or_else(bad)?) };
        let mode = fields.le16::<0>();
        let kind = match mode >> 12 {
            0x1 => Kind::Pipe,
            0x2 => Kind::CharDevice,
            0x4 => Kind::Directory,
            0x6 => Kind::BlockDevice,
            0x8 => Kind::File,
            0xa => Kind::Link,
            0xc => Kind::Socket,
            _ => return Err(bad()),
        };
        let size = wide(fields.le32::<0x6c>(), fields.le32::<0x4>());
        // i_size_high was directory ACL in old filesystems; the kernel reads it for all types since the large-file feature.
        let limit = MAX_FILE_BLOCKS.saturating_mul(u64::from(sb.block_size)); // cannot overflow: a block has 64 KiB at most.
        if size > limit || extra > rest.len() {
            return Err(bad());
        }
        let flags = fields.le32::<0x20>();
        if flags & flag::INLINE_DATA != 0 && !sb.has(incompat::INLINE_DATA) {
            return Err(bad());
        }
        Ok(Self { number, kind, size, flags, checksum_seed, base: *base, rest: rest.to_vec(), extra })
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.flags & flag::ENCRYPT != 0
    }

    /// The 60 bytes that hold the root of the block map, a short link target or inline data.
    pub(super) fn map(&self) -> &[u8; 60] {
        self.fields().array::<0x28, 60>()
    }

    fn fields(&self) -> Record<'_, BASE> {
        Record::new(&self.base)
    }

    /// One of the further fields; none if this inode has no room for it.
    fn extra32(&self, at: usize) -> Option<u32> {
        Reader::at(self.rest.get(..self.extra)?, at).and_then(|mut fields| fields.le32()).ok()
    }

    /// Contents stored in the inode itself: the map's bytes, then the value of the attribute `system.data`.
    pub(super) fn inline_data(&self) -> Vec<u8> {
        let mut data = self.map().to_vec();
        // Callers know how many bytes there must be, so damage that hides some is not missed.
        if let Ok(Some(more)) = xattr::in_inode(self, (xattr::namespace::SYSTEM, b"data")) {
            data.extend_from_slice(more);
        }
        data
    }

    /// What lies behind the inode's fields: attributes, or nothing.
    pub(super) fn attribute_space(&self) -> &[u8] {
        // cannot miss: `parse` checked that the fields end within the inode.
        self.rest.get(self.extra..).unwrap_or(&[])
    }

    /// The block with further attributes, or 0.
    pub(super) fn attribute_block(&self) -> u64 {
        wide(self.fields().le16::<0x76>().into(), self.fields().le32::<0x68>())
    }

    pub(super) fn metadata(&self) -> Metadata {
        let fields = self.fields();
        let allocated = wide(u32::from(fields.le16::<0x74>()), fields.le32::<0x1c>());
        let unit = if self.flags & flag::HUGE_FILE != 0 { 4096 } else { 512 };
        let owner = |low, high| u32::from(low) | u32::from(high) << 16;
        Metadata {
            kind: self.kind,
            size: self.size,
            mode: fields.le16::<0>() & 0o7777,
            uid: owner(fields.le16::<0x2>(), fields.le16::<0x78>()),
            gid: owner(fields.le16::<0x18>(), fields.le16::<0x7a>()),
            links: fields.le16::<0x1a>().into(),
            inode: self.number.into(),
            // cannot overflow: the count has 48 bits.
            allocated: allocated.saturating_mul(unit),
            modified: self.time(fields.le32::<0x10>(), extra::MODIFIED),
            accessed: self.time(fields.le32::<0x8>(), extra::ACCESSED),
            changed: self.time(fields.le32::<0xc>(), extra::CHANGED),
        }
    }

    /// The bytes of the inode with another time of the last change of its contents.
    pub(super) fn modified_at(&self, time: Timestamp) -> Result<Vec<u8>, TreeError> {
        let bad = || TreeError::from(Damage::Inode(self.number.into()));
        let (mut base, mut rest) = (self.base, self.rest.clone());
        let (seconds, more) = encode_time(time);
        RecordMut::new(&mut base).set_le32::<0x10>(seconds);
        if self.extra32(extra::MODIFIED).is_some() {
            let field = rest.get_mut(extra::MODIFIED..).and_then(|from| from.first_chunk_mut());
            *field.ok_or_else(bad)? = more.to_le_bytes();
        }
        if let Some(seed) = self.checksum_seed {
            let sum = checksum(seed, &base, &rest).ok_or_else(bad)?;
            RecordMut::new(&mut base).set_le16::<0x7c>((sum.crc & 0xffff) as u16);
            if sum.stored_high.is_some() {
                let field = rest.get_mut(extra::CHECKSUM_HIGH..).and_then(|from| from.first_chunk_mut());
                *field.ok_or_else(bad)? = ((sum.crc >> 16) as u16).to_le_bytes();
            }
        }
        Ok([base.as_slice(), &rest].concat())
    }

    /// A time: 32 signed bits of seconds, extended by two bits and nanoseconds where the inode has room for them.
    fn time(&self, seconds: u32, extra_at: usize) -> Timestamp {
        let seconds = i64::from(seconds.cast_signed());
        let Some(extra) = self.extra32(extra_at) else { return Timestamp { seconds, nanoseconds: 0 } };
        // cannot overflow: 32 bits and two more.
        let seconds = seconds.saturating_add(i64::from(extra & 3) << 32);
        Timestamp { seconds, nanoseconds: (extra >> 2).min(999_999_999) }
    }
}

/// How many bytes behind the first 128 of an inode are fields; none if the inode ends before it says so.
fn extra_len(rest: &[u8]) -> Option<u16> {
    Reader::at(rest, extra::LEN).and_then(|mut fields| fields.le16()).ok()
}

/// The checksum of an inode.
struct Checksum {
    /// Of its bytes, without those that hold it.
    crc: u32,
    /// The upper half as it is stored, if the inode has a field for it.
    stored_high: Option<u16>,
}

/// Computes the checksum of an inode's bytes: the first 128 and those behind them. None if they end within a field.
fn checksum(seed: u32, base: &[u8; BASE], rest: &[u8]) -> Option<Checksum> {
    let crc = crc32c_without(seed, base, 0x7c..0x7e)?;
    if rest.is_empty() {
        return Some(Checksum { crc, stored_high: None });
    }
    if extra_len(rest)? < 4 {
        return Some(Checksum { crc: crc32c(crc, rest), stored_high: None });
    }
    let stored = Reader::at(rest, extra::CHECKSUM_HIGH).and_then(|mut fields| fields.le16()).ok()?;
    let crc = crc32c_without(crc, rest, extra::CHECKSUM_HIGH..extra::CHANGED)?;
    Some(Checksum { crc, stored_high: Some(stored) })
}
