//! Block groups: their descriptors and bitmaps, which are read when something is first taken from a group and written
//! at the end with their checksums. Kernel Documentation/filesystems/ext4, "Block Group Descriptors", "Block and inode Bitmaps".

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use atrest_codec::{Record, RecordMut, crc32c};
use atrest_device::BlockDevice;

use super::superblock::{DESCRIPTOR, Superblock};
use super::{BuildError, Unexpected, halves};
use crate::bytes::wide;

const INODES_UNUSED: u16 = 1;
const BLOCKS_UNUSED: u16 = 2;

/// The descriptors of all groups and the bitmaps of those that were touched.
pub(super) struct Groups {
    descriptors: Vec<[u8; DESCRIPTOR]>,
    blocks: BTreeMap<u64, Vec<u8>>,
    inodes: BTreeMap<u64, Vec<u8>>,
}

/// One group's descriptor.
#[derive(Clone, Copy)]
pub(super) struct Descriptor<'a>(Record<'a, DESCRIPTOR>);

impl Descriptor<'_> {
    fn block_bitmap(self) -> u64 {
        wide(self.0.le32::<0x20>(), self.0.le32::<0>())
    }

    fn inode_bitmap(self) -> u64 {
        wide(self.0.le32::<0x24>(), self.0.le32::<4>())
    }

    pub(super) fn inode_table(self) -> u64 {
        wide(self.0.le32::<0x28>(), self.0.le32::<8>())
    }

    fn flags(self) -> u16 {
        self.0.le16::<0x12>()
    }

    pub(super) fn free_blocks(self) -> u32 {
        u32::from(self.0.le16::<0x2c>()) << 16 | u32::from(self.0.le16::<0xc>())
    }

    fn free_inodes(self) -> u32 {
        u32::from(self.0.le16::<0x2e>()) << 16 | u32::from(self.0.le16::<0xe>())
    }

    fn directories(self) -> u32 {
        u32::from(self.0.le16::<0x30>()) << 16 | u32::from(self.0.le16::<0x10>())
    }

    fn unused_inodes(self) -> u32 {
        u32::from(self.0.le16::<0x32>()) << 16 | u32::from(self.0.le16::<0x1c>())
    }
}

impl Groups {
    pub(super) fn read(device: &dyn BlockDevice, sb: &Superblock) -> Result<Self, BuildError> {
        let mut descriptors = vec![[0; DESCRIPTOR]; sb.groups as usize];
        device.read_at((sb.first_data_block + 1) * sb.block_size as u64, descriptors.as_flattened_mut())?;
        let groups = Self { descriptors, blocks: BTreeMap::new(), inodes: BTreeMap::new() };
        for (group, descriptor) in (0..).zip(&groups.descriptors) {
            let fields = Record::new(descriptor);
            let table = Descriptor(fields).inode_table();
            if checksum(sb, group, fields) != fields.le16::<0x1e>() || table == 0 || table >= sb.blocks {
                return Err(BuildError::NotFresh(Unexpected::Descriptor { group }));
            }
        }
        Ok(groups)
    }

    /// The descriptor of a group, which must exist.
    pub(super) fn descriptor(&self, group: u64) -> Result<Descriptor<'_>, BuildError> {
        let found = usize::try_from(group).ok().and_then(|group| self.descriptors.get(group));
        let found = found.ok_or(BuildError::NotFresh(Unexpected::Descriptor { group }))?;
        Ok(Descriptor(Record::new(found)))
    }

    fn descriptor_mut(&mut self, group: u64) -> Result<RecordMut<'_, DESCRIPTOR>, BuildError> {
        let found = usize::try_from(group).ok().and_then(|group| self.descriptors.get_mut(group));
        Ok(RecordMut::new(found.ok_or(BuildError::NotFresh(Unexpected::Descriptor { group }))?))
    }

    /// The bitmap of the blocks of a group.
    pub(super) fn block_bitmap(
        &mut self,
        device: &dyn BlockDevice,
        sb: &Superblock,
        group: u64,
    ) -> Result<&mut Vec<u8>, BuildError> {
        if !self.blocks.contains_key(&group) {
            let descriptor = self.descriptor(group)?;
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
        for descriptor in self.descriptors.iter().map(|found| Descriptor(Record::new(found))) {
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
    pub(super) fn count_blocks(&mut self, group: u64, len: i64) -> Result<(), BuildError> {
        let free = i64::from(self.descriptor(group)?.free_blocks()) - len;
        let free =
            u32::try_from(free).map_err(|_| BuildError::NotFresh(Unexpected::BlockBitmap { group }))?;
        let (low, high) = halves16(free);
        let mut descriptor = self.descriptor_mut(group)?;
        descriptor.set_le16::<0xc>(low);
        descriptor.set_le16::<0x2c>(high);
        Ok(())
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
        let descriptor = self.descriptor(group)?;
        let unexpected = BuildError::NotFresh(Unexpected::Descriptor { group });
        let free = descriptor.free_inodes().checked_sub(1).ok_or(unexpected)?;
        let directories = descriptor.directories() + u32::from(is_directory);
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
        let mut descriptor = self.descriptor_mut(group)?;
        let (low, high) = halves16(free);
        descriptor.set_le16::<0xe>(low);
        descriptor.set_le16::<0x2e>(high);
        let (low, high) = halves16(directories);
        descriptor.set_le16::<0x10>(low);
        descriptor.set_le16::<0x30>(high);
        let (low, high) = halves16(unused);
        descriptor.set_le16::<0x1c>(low);
        descriptor.set_le16::<0x32>(high);
        Ok(())
    }

    /// Writes the bitmaps that were touched, and the descriptors.
    pub(super) fn write(&mut self, device: &dyn BlockDevice, sb: &Superblock) -> Result<(), BuildError> {
        let size = sb.block_size as u64;
        for (group, bitmap) in std::mem::take(&mut self.blocks) {
            device.write_at(self.descriptor(group)?.block_bitmap() * size, &bitmap)?;
            let (low, high) = halves16(bitmap_checksum(sb, &bitmap, sb.blocks_per_group, group)?);
            let flags = self.descriptor(group)?.flags() & !BLOCKS_UNUSED;
            let mut descriptor = self.descriptor_mut(group)?;
            descriptor.set_le16::<0x12>(flags);
            descriptor.set_le16::<0x18>(low);
            descriptor.set_le16::<0x38>(high);
        }
        for (group, bitmap) in std::mem::take(&mut self.inodes) {
            device.write_at(self.descriptor(group)?.inode_bitmap() * size, &bitmap)?;
            let (low, high) = halves16(bitmap_checksum(sb, &bitmap, sb.inodes_per_group.into(), group)?);
            let flags = self.descriptor(group)?.flags() & !INODES_UNUSED;
            let mut descriptor = self.descriptor_mut(group)?;
            descriptor.set_le16::<0x12>(flags);
            descriptor.set_le16::<0x1a>(low);
            descriptor.set_le16::<0x3a>(high);
        }
        for (group, descriptor) in (0..).zip(&mut self.descriptors) {
            let sum = checksum(sb, group, Record::new(descriptor));
            RecordMut::new(descriptor).set_le16::<0x1e>(sum);
        }
        Ok(device.write_at((sb.first_data_block + 1) * size, self.descriptors.as_flattened())?)
    }
}

/// The checksum of a bitmap with a bit for each of `count` things.
fn bitmap_checksum(sb: &Superblock, bitmap: &[u8], count: u64, group: u64) -> Result<u32, BuildError> {
    let used = bitmap.get(..(count / 8) as usize);
    Ok(crc32c(sb.seed, used.ok_or(BuildError::NotFresh(Unexpected::Descriptor { group }))?))
}

/// The low and the high half of a number, as ext4 came to 32 bits.
fn halves16(value: u32) -> (u16, u16) {
    ((value & 0xffff) as u16, (value >> 16) as u16)
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
    // cannot overflow: inodes count from 1.
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

fn checksum(sb: &Superblock, group: u64, descriptor: Record<'_, DESCRIPTOR>) -> u16 {
    let (number, _) = halves(group);
    let mut sum = crc32c(sb.seed, &number.to_le_bytes());
    sum = crc32c(sum, descriptor.array::<0, 0x1e>());
    sum = crc32c(sum, &[0; 2]);
    sum = crc32c(sum, descriptor.array::<0x20, 0x20>());
    (sum & 0xffff) as u16
}

fn read_block(device: &dyn BlockDevice, sb: &Superblock, block: u64) -> Result<Vec<u8>, BuildError> {
    let mut bytes = vec![0; sb.block_size];
    // intended: a place behind all numbers is one that the device refuses.
    device.read_at(block.saturating_mul(sb.block_size as u64), &mut bytes)?;
    Ok(bytes)
}
