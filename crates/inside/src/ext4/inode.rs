//! Inodes: kernel Documentation/filesystems/ext4, "Index Nodes".

use super::superblock::Superblock;
use super::{Blocks, incompat, xattr};
use crate::build::{encode_time, put};
use crate::bytes::{Fields, crc32c, wide};
use crate::error::{Damage, TreeError};
use crate::tree::{Kind, Metadata, Timestamp};

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
    /// All bytes of the inode.
    raw: Vec<u8>,
}

impl Inode {
    /// Reads inode `number`.
    pub(super) fn read(sb: &Superblock, blocks: &Blocks, number: u32) -> Result<Self, TreeError> {
        let (block, at) = Self::place(sb, blocks, number)?;
        let found = blocks.read(block)?;
        Self::parse(sb, number, Fields(&found).slice(at, usize::from(sb.inode_size)))
    }

    /// The block in which inode `number` lies, and the byte in it.
    pub(super) fn place(sb: &Superblock, blocks: &Blocks, number: u32) -> Result<(u64, usize), TreeError> {
        let index = number.checked_sub(1).filter(|_| number <= sb.inodes);
        let index = index.ok_or(Damage::InodeNumber(number.into()))?;
        let group = u64::from(index.checked_div(sb.inodes_per_group).unwrap_or(u32::MAX));
        let (block, within) = sb.descriptor_place(group).ok_or(Damage::InodeNumber(number.into()))?;
        let descriptors = blocks.read(block)?;
        let table = sb.inode_table(group, descriptors.get(within..).unwrap_or(&[]))?;
        let index = u64::from(index.checked_rem(sb.inodes_per_group).unwrap_or(0));
        let byte = index.saturating_mul(u64::from(sb.inode_size));
        let size = u64::from(sb.block_size);
        let block =
            table.checked_add(byte.checked_div(size).unwrap_or(0)).ok_or(Damage::Inode(number.into()))?;
        // Block 0 holds no inodes; a table there means that the descriptor was never filled in.
        if block == 0 {
            return Err(Damage::Inode(number.into()).into());
        }
        Ok((block, usize::try_from(byte.checked_rem(size).unwrap_or(0)).unwrap_or(0)))
    }

    fn parse(sb: &Superblock, number: u32, raw: &[u8]) -> Result<Self, TreeError> {
        let fields = Fields(raw);
        let checksum_seed = sb.checksum_seed.map(|seed| {
            let seed = crc32c(seed, &number.to_le_bytes());
            crc32c(seed, &fields.array::<4>(0x64))
        });
        let has_extra = raw.len() > 128;
        let extra = if has_extra { usize::from(fields.le16(0x80)) } else { 0 };
        if let Some(seed) = checksum_seed {
            let (crc, mask) = checksum(seed, raw);
            let stored = u32::from(fields.le16(0x7c)) | u32::from(fields.le16(0x82)) << 16;
            if (crc ^ stored) & mask != 0 {
                return Err(Damage::InodeChecksum(number.into()).into());
            }
        }
        let kind = match fields.le16(0) >> 12 {
            0x1 => Kind::Pipe,
            0x2 => Kind::CharDevice,
            0x4 => Kind::Directory,
            0x6 => Kind::BlockDevice,
            0x8 => Kind::File,
            0xa => Kind::Link,
            0xc => Kind::Socket,
            _ => return Err(Damage::Inode(number.into()).into()),
        };
        let size = wide(fields.le32(0x6c), fields.le32(0x4));
        // i_size_high was directory ACL in old filesystems; the kernel reads it for all types since the large-file feature.
        let limit = MAX_FILE_BLOCKS.saturating_mul(u64::from(sb.block_size));
        let links = fields.le16(0x1a);
        let unused = extra > raw.len().saturating_sub(128) || (links == 0 && fields.le16(0) == 0);
        if size > limit || unused {
            return Err(Damage::Inode(number.into()).into());
        }
        let flags = fields.le32(0x20);
        if flags & flag::INLINE_DATA != 0 && !sb.has(incompat::INLINE_DATA) {
            return Err(Damage::Inode(number.into()).into());
        }
        Ok(Self { number, kind, size, flags, checksum_seed, raw: raw.to_vec() })
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.flags & flag::ENCRYPT != 0
    }

    /// The 60 bytes that hold the root of the block map, a short link target or inline data.
    pub(super) fn map(&self) -> &[u8] {
        Fields(&self.raw).slice(0x28, 60)
    }

    /// Contents stored in the inode itself: the map's bytes, then the value of the attribute `system.data`.
    pub(super) fn inline_data(&self) -> Vec<u8> {
        let mut data = self.map().to_vec();
        data.extend_from_slice(self.inline_attribute().unwrap_or(&[]));
        data
    }

    /// What lies behind the inode's fields: attributes, or nothing.
    pub(super) fn attribute_space(&self) -> &[u8] {
        let extra = usize::from(Fields(&self.raw).le16(0x80));
        self.raw.get(128_usize.saturating_add(extra)..).unwrap_or(&[])
    }

    /// The block with further attributes, or 0.
    pub(super) fn attribute_block(&self) -> u64 {
        let fields = Fields(&self.raw);
        wide(u32::from(fields.le16(0x76)), fields.le32(0x68))
    }

    /// The value of `system.data`, if the extra space of the inode holds it.
    fn inline_attribute(&self) -> Option<&[u8]> {
        xattr::in_inode(self, (xattr::namespace::SYSTEM, b"data")).ok().flatten()
    }

    pub(super) fn metadata(&self) -> Metadata {
        let fields = Fields(&self.raw);
        let allocated = wide(u32::from(fields.le16(0x74)), fields.le32(0x1c));
        let unit = if self.flags & flag::HUGE_FILE != 0 { 4096 } else { 512 };
        let owner = |low, high| u32::from(fields.le16(low)) | u32::from(fields.le16(high)) << 16;
        Metadata {
            kind: self.kind,
            size: self.size,
            mode: fields.le16(0) & 0o7777,
            uid: owner(0x2, 0x78),
            gid: owner(0x18, 0x7a),
            links: fields.le16(0x1a).into(),
            inode: self.number.into(),
            allocated: allocated.saturating_mul(unit),
            modified: self.time(0x10, 0x88),
            accessed: self.time(0x8, 0x8c),
            changed: self.time(0xc, 0x84),
        }
    }

    /// The bytes of the inode with another time of the last change of its contents.
    pub(super) fn modified_at(&self, time: Timestamp) -> Vec<u8> {
        let mut raw = self.raw.clone();
        let (seconds, extra) = encode_time(time);
        put::le32(&mut raw, 0x10, seconds);
        if raw.len() > 128 && Fields(&raw).le16(0x80) >= 0x8c_u16.saturating_sub(0x80) {
            put::le32(&mut raw, 0x88, extra);
        }
        if let Some(seed) = self.checksum_seed {
            let (sum, mask) = checksum(seed, &raw);
            put::le16(&mut raw, 0x7c, (sum & 0xffff) as u16);
            if mask == !0 {
                put::le16(&mut raw, 0x82, (sum >> 16) as u16);
            }
        }
        raw
    }

    /// A time: 32 signed bits of seconds, extended by two bits and nanoseconds where the inode has room for them.
    fn time(&self, at: usize, extra_at: usize) -> Timestamp {
        let fields = Fields(&self.raw);
        let [a, b, c, d] = fields.array(at);
        let seconds = i64::from(i32::from_le_bytes([a, b, c, d]));
        let room = 128_usize.saturating_add(usize::from(fields.le16(0x80)));
        if self.raw.len() <= 128 || extra_at.saturating_add(4) > room {
            return Timestamp { seconds, nanoseconds: 0 };
        }
        let extra = fields.le32(extra_at);
        let seconds = seconds.saturating_add(i64::from(extra & 3) << 32);
        Timestamp { seconds, nanoseconds: (extra >> 2).min(999_999_999) }
    }
}

/// The checksum of an inode's bytes, and which bits of it are stored.
fn checksum(seed: u32, raw: &[u8]) -> (u32, u32) {
    let fields = Fields(raw);
    let has_extra = raw.len() > 128;
    let is_wide = has_extra && fields.le16(0x80) >= 4;
    let mut crc = crc32c(seed, fields.slice(0, 0x7c));
    crc = crc32c(crc, &[0; 2]);
    crc = crc32c(crc, fields.slice(0x7e, 128 - 0x7e));
    if has_extra {
        crc = crc32c(crc, fields.slice(0x80, 2));
        crc = crc32c(crc, if is_wide { &[0; 2] } else { fields.slice(0x82, 2) });
        crc = crc32c(crc, fields.slice(0x84, raw.len()));
    }
    (crc, if is_wide { !0 } else { 0xffff })
}
