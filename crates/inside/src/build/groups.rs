//! Block groups: their descriptors and bitmaps, which are read when something is first taken from a group and written
//! at the end with their checksums. Kernel Documentation/filesystems/ext4, "Block Group Descriptors", "Block and inode Bitmaps".

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use atrest_device::BlockDevice;

use super::superblock::Superblock;
use super::{BuildError, Unexpected, put};
use crate::bytes::{Fields, crc32c, wide};

const INODES_UNUSED: u16 = 1;
const BLOCKS_UNUSED: u16 = 2;

/// The descriptors of all groups and the bitmaps of those that were touched.
pub(super) struct Groups {
    raw: Vec<u8>,
    blocks: BTreeMap<u64, Vec<u8>>,
    inodes: BTreeMap<u64, Vec<u8>>,
}

/// One group's descriptor.
#[derive(Clone, Copy)]
pub(super) struct Descriptor<'a>(Fields<'a>);

impl Descriptor<'_> {
    fn block_bitmap(self) -> u64 {
        wide(self.0.le32(0x20), self.0.le32(0))
    }

    fn inode_bitmap(self) -> u64 {
        wide(self.0.le32(0x24), self.0.le32(4))
    }

    pub(super) fn inode_table(self) -> u64 {
        wide(self.0.le32(0x28), self.0.le32(8))
    }

    fn flags(self) -> u16 {
        self.0.le16(0x12)
    }

    pub(super) fn free_blocks(self) -> u32 {
        u32::from(self.0.le16(0x2c)) << 16 | u32::from(self.0.le16(0xc))
    }

    fn free_inodes(self) -> u32 {
        u32::from(self.0.le16(0x2e)) << 16 | u32::from(self.0.le16(0xe))
    }

    fn directories(self) -> u32 {
        u32::from(self.0.le16(0x30)) << 16 | u32::from(self.0.le16(0x10))
    }

    fn unused_inodes(self) -> u32 {
        u32::from(self.0.le16(0x32)) << 16 | u32::from(self.0.le16(0x1c))
    }
}

impl Groups {
    pub(super) fn read(device: &dyn BlockDevice, sb: &Superblock) -> Result<Self, BuildError> {
        let len = sb.groups as usize * sb.descriptor_size;
        let mut raw = vec![0; len];
        device.read_at((sb.first_data_block + 1) * sb.block_size as u64, &mut raw)?;
        let groups = Self { raw, blocks: BTreeMap::new(), inodes: BTreeMap::new() };
        for group in 0..sb.groups {
            let table = groups.descriptor(sb, group).inode_table();
            let sum = checksum(sb, group, groups.descriptor(sb, group).0.0);
            if sum != groups.descriptor(sb, group).0.le16(0x1e) || table == 0 || table >= sb.blocks {
                return Err(BuildError::NotFresh(Unexpected::Descriptor { group }));
            }
        }
        Ok(groups)
    }

    pub(super) fn descriptor(&self, sb: &Superblock, group: u64) -> Descriptor<'_> {
        Descriptor(Fields(Fields(&self.raw).slice(group as usize * sb.descriptor_size, sb.descriptor_size)))
    }

    fn raw(&mut self, sb: &Superblock, group: u64) -> &mut [u8] {
        let at = group as usize * sb.descriptor_size;
        self.raw.get_mut(at..at + sb.descriptor_size).unwrap_or(&mut [])
    }

    /// The bitmap of the blocks of a group.
    pub(super) fn block_bitmap(
        &mut self,
        device: &dyn BlockDevice,
        sb: &Superblock,
        group: u64,
    ) -> Result<&mut Vec<u8>, BuildError> {
        if !self.blocks.contains_key(&group) {
            let descriptor = self.descriptor(sb, group);
            let bitmap = if descriptor.flags() & BLOCKS_UNUSED != 0 {
                self.first_block_bitmap(sb, group)
            } else {
                read_block(device, sb, descriptor.block_bitmap())?
            };
            let free = group_len(sb, group) - ones(&bitmap, group_len(sb, group));
            if free != u64::from(descriptor.free_blocks()) {
                return Err(BuildError::NotFresh(Unexpected::BlockBitmap { group }));
            }
            self.blocks.insert(group, bitmap);
        }
        self.blocks.get_mut(&group).ok_or(BuildError::NotFresh(Unexpected::BlockBitmap { group }))
    }

    /// What the bitmap of a group is that mke2fs did not write: only the filesystem's own structures are in use.
    fn first_block_bitmap(&self, sb: &Superblock, group: u64) -> Vec<u8> {
        let mut bitmap = vec![0; sb.block_size];
        let (start, len) = (group_start(sb, group), group_len(sb, group));
        let table = (u64::from(sb.inodes_per_group) * sb.inode_size as u64).div_ceil(sb.block_size as u64);
        let mut used = vec![(start, sb.backup_len(group))];
        for other in 0..sb.groups {
            let descriptor = self.descriptor(sb, other);
            used.extend([
                (descriptor.block_bitmap(), 1),
                (descriptor.inode_bitmap(), 1),
                (descriptor.inode_table(), table),
            ]);
        }
        for (first, count) in used {
            for block in first.max(start)..(first + count).min(start + len) {
                set(&mut bitmap, block - start);
            }
        }
        for bit in len..sb.block_size as u64 * 8 {
            set(&mut bitmap, bit);
        }
        bitmap
    }

    /// Counts `len` blocks of a group as taken (or, if negative, as given back).
    pub(super) fn count_blocks(&mut self, sb: &Superblock, group: u64, len: i64) {
        let free = i64::from(self.descriptor(sb, group).free_blocks()) - len;
        put::halves16(self.raw(sb, group), 0xc, 0x2c, u32::try_from(free).unwrap_or(0));
    }

    /// Marks an inode as used.
    pub(super) fn use_inode(
        &mut self,
        device: &dyn BlockDevice,
        sb: &Superblock,
        number: u32,
        is_directory: bool,
    ) -> Result<(), BuildError> {
        let (group, index) = inode_place(sb, number);
        let descriptor = self.descriptor(sb, group);
        let (free, directories) = (descriptor.free_inodes(), descriptor.directories());
        let (flags, at) = (descriptor.flags(), descriptor.inode_bitmap());
        let unused = descriptor.unused_inodes().min(sb.inodes_per_group - index - 1);
        let bitmap = match self.inodes.entry(group) {
            Entry::Occupied(held) => held.into_mut(),
            Entry::Vacant(place) => place.insert(if flags & INODES_UNUSED != 0 {
                let mut bitmap = vec![0; sb.block_size];
                (sb.inodes_per_group.into()..sb.block_size as u64 * 8).for_each(|bit| set(&mut bitmap, bit));
                bitmap
            } else {
                read_block(device, sb, at)?
            }),
        };
        if is_set(bitmap, index.into()) {
            return Err(BuildError::NotFresh(Unexpected::Inode(number)));
        }
        set(bitmap, index.into());
        let raw = self.raw(sb, group);
        put::halves16(raw, 0xe, 0x2e, free.saturating_sub(1));
        put::halves16(raw, 0x10, 0x30, directories + u32::from(is_directory));
        put::halves16(raw, 0x1c, 0x32, unused);
        Ok(())
    }

    /// Writes the bitmaps that were touched, and the descriptors.
    pub(super) fn write(&mut self, device: &dyn BlockDevice, sb: &Superblock) -> Result<(), BuildError> {
        let size = sb.block_size as u64;
        for (group, bitmap) in std::mem::take(&mut self.blocks) {
            device.write_at(self.descriptor(sb, group).block_bitmap() * size, &bitmap)?;
            let sum = crc32c(sb.seed, Fields(&bitmap).slice(0, sb.blocks_per_group as usize / 8));
            self.bitmap_written(sb, group, BLOCKS_UNUSED, (0x18, 0x38), sum);
        }
        for (group, bitmap) in std::mem::take(&mut self.inodes) {
            device.write_at(self.descriptor(sb, group).inode_bitmap() * size, &bitmap)?;
            let sum = crc32c(sb.seed, Fields(&bitmap).slice(0, sb.inodes_per_group as usize / 8));
            self.bitmap_written(sb, group, INODES_UNUSED, (0x1a, 0x3a), sum);
        }
        for group in 0..sb.groups {
            let sum = checksum(sb, group, self.descriptor(sb, group).0.0);
            put::le16(self.raw(sb, group), 0x1e, sum);
        }
        Ok(device.write_at((sb.first_data_block + 1) * size, &self.raw)?)
    }

    fn bitmap_written(&mut self, sb: &Superblock, group: u64, flag: u16, sum_at: (usize, usize), sum: u32) {
        let flags = self.descriptor(sb, group).flags() & !flag;
        let raw = self.raw(sb, group);
        put::le16(raw, 0x12, flags);
        put::halves16(raw, sum_at.0, sum_at.1, sum);
    }
}

/// First block of a group.
pub(super) fn group_start(sb: &Superblock, group: u64) -> u64 {
    sb.first_data_block + group * sb.blocks_per_group
}

/// Blocks in a group: the last one may be short.
pub(super) fn group_len(sb: &Superblock, group: u64) -> u64 {
    sb.blocks_per_group.min(sb.blocks - group_start(sb, group))
}

/// The group of an inode, and its index there.
pub(super) fn inode_place(sb: &Superblock, number: u32) -> (u64, u32) {
    let index = number.saturating_sub(1);
    (u64::from(index / sb.inodes_per_group), index % sb.inodes_per_group)
}

pub(super) fn is_set(bitmap: &[u8], bit: u64) -> bool {
    bitmap.get((bit / 8) as usize).is_none_or(|byte| byte >> (bit % 8) & 1 == 1)
}

pub(super) fn set(bitmap: &mut [u8], bit: u64) {
    if let Some(byte) = bitmap.get_mut((bit / 8) as usize) {
        *byte |= 1 << (bit % 8);
    }
}

pub(super) fn clear(bitmap: &mut [u8], bit: u64) {
    if let Some(byte) = bitmap.get_mut((bit / 8) as usize) {
        *byte &= !(1 << (bit % 8));
    }
}

fn ones(bitmap: &[u8], len: u64) -> u64 {
    (0..len).filter(|bit| is_set(bitmap, *bit)).count() as u64
}

fn checksum(sb: &Superblock, group: u64, descriptor: &[u8]) -> u16 {
    let fields = Fields(descriptor);
    let mut sum = crc32c(sb.seed, &put::low32(group).to_le_bytes());
    sum = crc32c(sum, fields.slice(0, 0x1e));
    sum = crc32c(sum, &[0; 2]);
    sum = crc32c(sum, fields.slice(0x20, sb.descriptor_size));
    (sum & 0xffff) as u16
}

fn read_block(device: &dyn BlockDevice, sb: &Superblock, block: u64) -> Result<Vec<u8>, BuildError> {
    let mut bytes = vec![0; sb.block_size];
    device.read_at(block.saturating_mul(sb.block_size as u64), &mut bytes)?;
    Ok(bytes)
}
