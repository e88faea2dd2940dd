//! The superblock of the filesystem that mke2fs has made: what the builder needs from it, and the counts that it
//! gets in the end.

use atrest_codec::{Record, RecordMut, crc32c};
use atrest_device::BlockDevice;
use atrest_filetree::EncryptedFilesystem;

use super::{BuildError, Unexpected, halves};
use crate::bytes::wide;

const AT: u64 = 1024;
const SIZE: usize = 1024;
const MAGIC: u16 = 0xef53;
/// Bytes in a group descriptor with 64-bit numbers.
pub(super) const DESCRIPTOR: usize = 64;

/// Features that the builder knows the layout of, with what they are called in `mke2fs -O`.
const KNOWN: [(Set, u32); 19] = [
    (Set::Compat, 0x4),  // has_journal: its blocks are in use already
    (Set::Compat, 0x8),  // ext_attr
    (Set::Compat, 0x10), // resize_inode: so are its
    (Set::Compat, 0x20), // dir_index: directories need not have one
    (Set::Compat, STABLE_INODES),
    (Set::Incompat, 0x2),    // filetype
    (Set::Incompat, 0x40),   // extent
    (Set::Incompat, 0x80),   // 64bit
    (Set::Incompat, 0x200),  // flex_bg
    (Set::Incompat, 0x2000), // metadata_csum_seed
    (Set::Incompat, ENCRYPT),
    (Set::RoCompat, 0x1),    // sparse_super
    (Set::RoCompat, 0x2),    // large_file
    (Set::RoCompat, 0x8),    // huge_file
    (Set::RoCompat, 0x20),   // dir_nlink
    (Set::RoCompat, 0x40),   // extra_isize
    (Set::RoCompat, 0x400),  // metadata_csum
    (Set::RoCompat, 0x8000), // verity: nothing has it yet
    (Set::RoCompat, 0x4),    // btree_dir, never used
];
/// Features without which the builder would have to write structures in another form.
const NEEDED: [(Set, u32); 5] = [
    (Set::Incompat, 0x2),
    (Set::Incompat, 0x40),
    (Set::Incompat, 0x80),
    (Set::RoCompat, 0x40),
    (Set::RoCompat, 0x400),
];
const STABLE_INODES: u32 = 0x800;
const ENCRYPT: u32 = 0x10000;
const CSUM_SEED: u32 = 0x2000;
const SPARSE_SUPER: u32 = 0x1;

/// Which of the superblock's three fields a feature lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Set {
    Compat,
    Incompat,
    RoCompat,
}

impl Set {
    const ALL: [Self; 3] = [Self::Compat, Self::Incompat, Self::RoCompat];

    fn of(self, superblock: Record<'_, SIZE>) -> u32 {
        match self {
            Self::Compat => superblock.le32::<0x5c>(),
            Self::Incompat => superblock.le32::<0x60>(),
            Self::RoCompat => superblock.le32::<0x64>(),
        }
    }
}

/// The superblock as mke2fs wrote it.
pub(super) struct Superblock {
    raw: [u8; SIZE],
    pub(super) block_size: usize,
    pub(super) blocks: u64,
    pub(super) first_data_block: u64,
    pub(super) blocks_per_group: u64,
    pub(super) inodes_per_group: u32,
    pub(super) inodes: u32,
    pub(super) inode_size: usize,
    pub(super) groups: u64,
    /// Blocks kept behind the descriptors for more of them.
    pub(super) reserved_descriptors: u64,
    pub(super) free_blocks: u64,
    /// Seed of every metadata checksum.
    pub(super) seed: u32,
    uuid: [u8; 16],
}

impl Superblock {
    pub(super) fn read(device: &dyn BlockDevice) -> Result<Self, BuildError> {
        let mut raw = [0; SIZE];
        device.read_at(AT, &mut raw)?;
        let fields = Record::new(&raw);
        if fields.le16::<0x38>() != MAGIC {
            return Err(BuildError::NotFresh(Unexpected::Superblock));
        }
        features(fields)?;
        let unexpected = || BuildError::NotFresh(Unexpected::Superblock);
        if crc32c(!0, fields.array::<0, 0x3fc>()) != fields.le32::<0x3fc>() {
            return Err(unexpected());
        }
        let block_size = 1024_usize.checked_shl(fields.le32::<0x18>()).ok_or_else(unexpected)?;
        let blocks = wide(fields.le32::<0x150>(), fields.le32::<0x4>());
        let first_data_block = u64::from(fields.le32::<0x14>());
        let blocks_per_group = u64::from(fields.le32::<0x20>());
        let (inodes, inodes_per_group) = (fields.le32::<0x0>(), fields.le32::<0x28>());
        let inode_size = usize::from(fields.le16::<0x58>());
        let grouped = blocks.checked_sub(first_data_block).ok_or_else(unexpected)?;
        if blocks_per_group == 0 {
            return Err(unexpected());
        }
        let groups = grouped.div_ceil(blocks_per_group);
        // Inodes are numbered through all groups, so that each has a descriptor.
        let most_inodes = groups.checked_mul(inodes_per_group.into());
        let sane = (1024..=65536).contains(&block_size)
            && blocks.checked_mul(block_size as u64).is_some_and(|size| size <= device.size())
            && (1..=block_size as u64 * 8).contains(&blocks_per_group)
            && inodes_per_group >= 8
            && u64::from(inodes_per_group) <= block_size as u64 * 8
            && inode_size.is_power_of_two()
            && (256..=block_size).contains(&inode_size)
            && usize::from(fields.le16::<0xfe>()) == DESCRIPTOR
            && fields.le32::<0x4c>() == 1
            && most_inodes.is_some_and(|most| u64::from(inodes) <= most);
        if !sane {
            return Err(unexpected());
        }
        let uuid = *fields.array::<0x68, 16>();
        let has_seed = Set::Incompat.of(fields) & CSUM_SEED != 0;
        let seed = if has_seed { fields.le32::<0x270>() } else { crc32c(!0, &uuid) };
        Ok(Self {
            block_size,
            blocks,
            first_data_block,
            blocks_per_group,
            inodes_per_group,
            inodes,
            inode_size,
            groups,
            reserved_descriptors: fields.le16::<0xce>().into(),
            free_blocks: wide(fields.le32::<0x158>(), fields.le32::<0xc>()),
            seed,
            uuid,
            raw,
        })
    }

    /// What the ciphers of its inodes may depend on.
    pub(super) fn encrypted_filesystem(&self) -> EncryptedFilesystem {
        EncryptedFilesystem {
            uuid: self.uuid,
            block_size: self.block_size as u32,
            stable_inodes: Set::Compat.of(Record::new(&self.raw)) & STABLE_INODES != 0,
        }
    }

    pub(super) fn free_inodes(&self) -> u32 {
        Record::new(&self.raw).le32::<0x10>()
    }

    /// Blocks that a copy of the superblock, its descriptors and the room for more of them take at the start of a group.
    pub(super) fn backup_len(&self, group: u64) -> u64 {
        let sparse = Set::RoCompat.of(Record::new(&self.raw)) & SPARSE_SUPER != 0;
        let power_of = |base: u64| {
            let mut power = base;
            while power < group {
                // cannot overflow: `read` bounds the groups by the size of the device.
                power = power.saturating_mul(base);
            }
            power == group
        };
        let has_copy = !sparse || group <= 1 || [3, 5, 7].into_iter().any(power_of);
        if has_copy { 1 + self.descriptor_blocks() + self.reserved_descriptors } else { 0 }
    }

    pub(super) fn descriptor_blocks(&self) -> u64 {
        (self.groups * DESCRIPTOR as u64).div_ceil(self.block_size as u64)
    }

    /// Writes the counts of what is free now, and `time` as that of the making if it is given.
    pub(super) fn write(
        &mut self,
        device: &dyn BlockDevice,
        free_blocks: u64,
        free_inodes: u32,
        time: Option<i64>,
    ) -> Result<(), BuildError> {
        let mut fields = RecordMut::new(&mut self.raw);
        let (low, high) = halves(free_blocks);
        fields.set_le32::<0xc>(low);
        fields.set_le32::<0x158>(high);
        fields.set_le32::<0x10>(free_inodes);
        if let Some(time) = time {
            // Written, checked, made: 40 bits, of which the upper eight lie apart.
            let (low, high) = halves(time.cast_unsigned());
            fields.set_le32::<0x30>(low);
            fields.set_u8::<0x274>(high as u8);
            fields.set_le32::<0x40>(low);
            fields.set_u8::<0x277>(high as u8);
            fields.set_le32::<0x108>(low);
            fields.set_u8::<0x276>(high as u8);
        }
        let sum = crc32c(!0, Record::new(&self.raw).array::<0, 0x3fc>());
        RecordMut::new(&mut self.raw).set_le32::<0x3fc>(sum);
        Ok(device.write_at(AT, &self.raw)?)
    }
}

/// Fails unless all features that the filesystem has are known, and those that are needed are there.
fn features(superblock: Record<'_, SIZE>) -> Result<(), BuildError> {
    for set in Set::ALL {
        let has = set.of(superblock);
        let sum =
            |list: &[(Set, u32)]| list.iter().filter(|(of, _)| *of == set).fold(0, |sum, (_, bit)| sum | bit);
        let (unknown, missing) = (has & !sum(&KNOWN), sum(&NEEDED) & !has);
        for (bits, is_there) in [(unknown, true), (missing, false)] {
            if bits != 0 {
                return Err(BuildError::Feature {
                    name: feature_name(set, 1 << bits.trailing_zeros()),
                    is_there,
                });
            }
        }
    }
    Ok(())
}

/// What `mke2fs -O` calls a feature.
fn feature_name(set: Set, bit: u32) -> &'static str {
    match (set, bit) {
        (Set::Compat, 0x1) => "dir_prealloc",
        (Set::Compat, 0x2) => "imagic_inodes",
        (Set::Compat, 0x200) => "sparse_super2",
        (Set::Compat, 0x400) => "fast_commit",
        (Set::Compat, 0x1000) => "orphan_file",
        (Set::Incompat, 0x1) => "compression",
        (Set::Incompat, 0x2) => "filetype",
        (Set::Incompat, 0x4) => "needs_recovery",
        (Set::Incompat, 0x8) => "journal_dev",
        (Set::Incompat, 0x10) => "meta_bg",
        (Set::Incompat, 0x40) => "extent",
        (Set::Incompat, 0x80) => "64bit",
        (Set::Incompat, 0x100) => "mmp",
        (Set::Incompat, 0x400) => "ea_inode",
        (Set::Incompat, 0x1000) => "dirdata",
        (Set::Incompat, 0x4000) => "large_dir",
        (Set::Incompat, 0x8000) => "inline_data",
        (Set::Incompat, 0x2_0000) => "casefold",
        (Set::RoCompat, 0x10) => "uninit_bg",
        (Set::RoCompat, 0x40) => "extra_isize",
        (Set::RoCompat, 0x80) => "has_snapshot",
        (Set::RoCompat, 0x100) => "quota",
        (Set::RoCompat, 0x200) => "bigalloc",
        (Set::RoCompat, 0x400) => "metadata_csum",
        (Set::RoCompat, 0x1000) => "read-only",
        (Set::RoCompat, 0x2000) => "project",
        (Set::RoCompat, 0x4000) => "shared_blocks",
        (Set::RoCompat, 0x1_0000) => "orphan_present",
        _ => "that has no name here",
    }
}

#[cfg(test)]
mod tests {
    use atrest_device::{BlockDevice, DeviceError, Geometry};

    use super::*;

    /// A device that holds a superblock, and zeros.
    struct Only([u8; SIZE]);

    impl BlockDevice for Only {
        fn size(&self) -> u64 {
            64 << 20
        }

        fn geometry(&self) -> Geometry {
            Geometry::default()
        }

        fn is_read_only(&self) -> bool {
            false
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
            buf.fill(0);
            if offset == AT {
                buf.copy_from_slice(&self.0);
            }
            Ok(())
        }

        fn write_at(&self, _offset: u64, _data: &[u8]) -> Result<(), DeviceError> {
            Ok(())
        }

        fn flush(&self) -> Result<(), DeviceError> {
            Ok(())
        }
    }

    /// Two groups of 8192 blocks of 4096 bytes, with so many inodes, 2048 in each group, and this first block.
    fn sizes(inodes: u32, first: u32) -> Only {
        let mut raw = [0; SIZE];
        let mut put = |at: usize, bytes: &[u8]| raw[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &inodes.to_le_bytes());
        put(0x4, &16384_u32.to_le_bytes());
        put(0x14, &first.to_le_bytes());
        put(0x18, &2_u32.to_le_bytes());
        put(0x20, &8192_u32.to_le_bytes());
        put(0x28, &2048_u32.to_le_bytes());
        put(0x38, &MAGIC.to_le_bytes());
        put(0x4c, &1_u32.to_le_bytes());
        put(0x58, &256_u16.to_le_bytes());
        put(0x60, &0xc2_u32.to_le_bytes());
        put(0x64, &0x440_u32.to_le_bytes());
        put(0xfe, &64_u16.to_le_bytes());
        let sum = crc32c(!0, &raw[..0x3fc]);
        raw[0x3fc..].copy_from_slice(&sum.to_le_bytes());
        Only(raw)
    }

    #[test]
    fn every_inode_lies_in_a_group() {
        assert_eq!(Superblock::read(&sizes(4096, 0)).map(|sb| sb.groups), Ok(2));
        // A descriptor past the last one would read as zeros, and the inode would be written to block 0.
        for (inodes, first) in [(4097, 0), (u32::MAX, 0), (4096, 16384), (4096, u32::MAX)] {
            let read = Superblock::read(&sizes(inodes, first)).map(|sb| sb.groups);
            assert_eq!(read, Err(BuildError::NotFresh(Unexpected::Superblock)), "{inodes}, {first}");
        }
    }
}
