//! The superblock and the group descriptors: kernel Documentation/filesystems/ext4, "Super Block" and "Block Group Descriptors".

use atrest_codec::{Record, crc32c, crc32c_without};
use atrest_filetree::{EncryptedFilesystem, TreeError};

use super::hash::NameHash;
use crate::bytes::wide;
use crate::fault::{Damage, Feature, Field};
use atrest_probe::{ExtSuperblock, FilesystemKind};

/// The superblock starts at this byte, whatever the block size.
pub(super) const AT: usize = ExtSuperblock::AT;
/// Bytes in it.
pub(super) const LEN: usize = ExtSuperblock::LEN;

pub(super) mod compat {
    pub(crate) const HAS_JOURNAL: u32 = 0x4;
    pub(crate) const DIR_INDEX: u32 = 0x20;
    pub(crate) const SPARSE_SUPER2: u32 = 0x200;
    pub(crate) const STABLE_INODES: u32 = 0x800;
}

pub(super) mod incompat {
    pub(crate) const FILETYPE: u32 = 0x2;
    pub(crate) const RECOVER: u32 = 0x4;
    pub(crate) const META_BG: u32 = 0x10;
    pub(crate) const EXTENTS: u32 = 0x40;
    pub(crate) const BITS64: u32 = 0x80;
    pub(crate) const MMP: u32 = 0x100;
    pub(crate) const FLEX_BG: u32 = 0x200;
    pub(crate) const EA_INODE: u32 = 0x400;
    pub(crate) const CSUM_SEED: u32 = 0x2000;
    pub(crate) const LARGEDIR: u32 = 0x4000;
    pub(crate) const INLINE_DATA: u32 = 0x8000;
    pub(crate) const ENCRYPT: u32 = 0x10000;
    pub(crate) const CASEFOLD: u32 = 0x20000;
    /// What reading needs to know. Missing: compression (1), journal device (8), data in directory entries (0x1000).
    pub(crate) const KNOWN: u32 = FILETYPE
        | RECOVER
        | META_BG
        | EXTENTS
        | BITS64
        | MMP
        | FLEX_BG
        | EA_INODE
        | CSUM_SEED
        | LARGEDIR
        | INLINE_DATA
        | ENCRYPT
        | CASEFOLD;
}

mod ro_compat {
    pub(crate) const SPARSE_SUPER: u32 = 0x1;
    pub(crate) const METADATA_CSUM: u32 = 0x400;
    /// sparse_super, large_file, btree_dir, huge_file, uninit_bg, dir_nlink, extra_isize, quota, bigalloc, metadata_csum,
    /// project and verity (whose files have a flag).
    pub(crate) const LEAVES_CONTENTS_ALONE: u32 = 0xa77f;
}

/// What reading needs from the superblock, all values checked.
#[derive(Clone, Debug)]
pub(super) struct Superblock {
    pub(super) kind: FilesystemKind,
    /// Bytes in a block: 1024 to 65536.
    pub(super) block_size: u32,
    /// Blocks in the filesystem, which fit into the device.
    pub(super) blocks: u64,
    /// Of these, free ones by the superblock's count.
    pub(super) free_blocks: u64,
    pub(super) inodes: u32,
    first_data_block: u32,
    blocks_per_group: u32,
    pub(super) inodes_per_group: u32,
    /// Groups for which there are descriptors.
    groups: u64,
    pub(super) inode_size: u16,
    descriptor_size: u16,
    compat: u32,
    pub(super) incompat: u32,
    ro_compat: u32,
    first_meta_group: u32,
    backup_groups: [u32; 2],
    pub(super) journal_inode: u32,
    /// Seed of every metadata checksum; none if the filesystem has none.
    pub(super) checksum_seed: Option<u32>,
    /// How directories hash names; none if they have no indices.
    pub(super) name_hash: Option<NameHash>,
    pub(super) uuid: [u8; 16],
    pub(super) label: Vec<u8>,
    /// Cleanly unmounted, as far as the state field says.
    pub(super) clean: bool,
    /// The kernel recorded errors.
    pub(super) errors: bool,
}

/// The three fields of features: compatible, incompatible, and compatible for readers.
fn features(superblock: Record<'_, LEN>) -> (u32, u32, u32) {
    (superblock.le32::<0x5c>(), superblock.le32::<0x60>(), superblock.le32::<0x64>())
}

impl Superblock {
    /// Parses the superblock of a filesystem on a device of `device_size` bytes.
    pub(super) fn parse(bytes: &[u8; LEN], device_size: u64) -> Result<Self, TreeError> {
        let fields = Record::new(bytes);
        let bad = |field| Err(TreeError::from(Damage::Superblock(field)));
        let Some(kind) = ExtSuperblock::new(bytes).map(ExtSuperblock::kind) else {
            return Err(TreeError::UnknownFilesystem);
        };
        let (compat, incompat, ro_compat) = features(fields);
        if incompat & !incompat::KNOWN != 0 {
            return Err(Feature::ExtIncompat(incompat & !incompat::KNOWN).into());
        }
        let has_checksums = ro_compat & ro_compat::METADATA_CSUM != 0;
        if has_checksums && crc32c(!0, fields.array::<0, 0x3fc>()) != fields.le32::<0x3fc>() {
            return Err(Damage::SuperblockChecksum.into());
        }
        let log = fields.le32::<0x18>();
        if log > 6 {
            return bad(Field::BlockSize);
        }
        let block_size = 1024_u32 << log;
        let (revision, bits64) = (fields.le32::<0x4c>(), incompat & incompat::BITS64 != 0);
        if revision > 1 {
            return bad(Field::Version);
        }
        let blocks = wide(if bits64 { fields.le32::<0x150>() } else { 0 }, fields.le32::<0x4>());
        let first_data_block = fields.le32::<0x14>();
        let blocks_per_group = fields.le32::<0x20>();
        let inodes_per_group = fields.le32::<0x28>();
        let inode_size = if revision == 0 { 128 } else { fields.le16::<0x58>() };
        let descriptor_size = if bits64 { fields.le16::<0xfe>() } else { 32 };
        let inodes = fields.le32::<0>();
        // cannot overflow: a block has 64 KiB at most.
        let bits_per_block = block_size.saturating_mul(8);
        if first_data_block > 1 || u64::from(first_data_block) >= blocks {
            return bad(Field::FirstDataBlock);
        }
        // With bigalloc the bitmap counts clusters, so that a group may have more blocks than the bitmap has bits.
        if blocks_per_group == 0 || !blocks_per_group.is_multiple_of(8) {
            return bad(Field::BlocksPerGroup);
        }
        if !(128..=block_size).contains(&u32::from(inode_size)) || !inode_size.is_power_of_two() {
            return bad(Field::InodeSize);
        }
        if inodes_per_group == 0 || inodes_per_group > bits_per_block {
            return bad(Field::InodesPerGroup);
        }
        let descriptor_ok = u32::from(descriptor_size) <= block_size && descriptor_size.is_power_of_two();
        if !descriptor_ok || (bits64 && descriptor_size < 64) {
            return bad(Field::DescriptorSize);
        }
        let Some(size) = blocks.checked_mul(u64::from(block_size)) else { return bad(Field::BlockCount) };
        if size > device_size {
            return Err(TreeError::LargerThanDevice { needs: size, has: device_size });
        }
        // cannot overflow: the first block was checked. More inodes than 64 bits count are more than 32 do.
        let groups = blocks.saturating_sub(u64::from(first_data_block)).div_ceil(u64::from(blocks_per_group));
        if inodes == 0 || u64::from(inodes) > groups.saturating_mul(u64::from(inodes_per_group)) {
            return bad(Field::InodeCount);
        }
        let uuid: [u8; 16] = *fields.array::<0x68, 16>();
        let seed =
            if incompat & incompat::CSUM_SEED != 0 { fields.le32::<0x270>() } else { crc32c(!0, &uuid) };
        let label = fields.array::<0x78, 16>();
        let state = fields.le16::<0x3a>();
        Ok(Self {
            kind,
            block_size,
            blocks,
            free_blocks: wide(if bits64 { fields.le32::<0x158>() } else { 0 }, fields.le32::<0xc>())
                .min(blocks),
            inodes,
            first_data_block,
            blocks_per_group,
            inodes_per_group,
            groups,
            inode_size,
            descriptor_size,
            compat,
            incompat,
            ro_compat,
            first_meta_group: fields.le32::<0x104>(),
            backup_groups: [fields.le32::<0x24c>(), fields.le32::<0x250>()],
            journal_inode: fields.le32::<0xe0>(),
            checksum_seed: has_checksums.then_some(seed),
            name_hash: (compat & compat::DIR_INDEX != 0).then(|| NameHash {
                version: fields.u8::<0xfc>(),
                unsigned: fields.le32::<0x160>() & 2 != 0,
                seed: [
                    fields.le32::<0xec>(),
                    fields.le32::<0xf0>(),
                    fields.le32::<0xf4>(),
                    fields.le32::<0xf8>(),
                ],
            }),
            uuid,
            // cannot miss: a split text has a first part.
            label: label.split(|&byte| byte == 0).next().unwrap_or(&[]).to_vec(),
            clean: state & 1 != 0,
            errors: state & 2 != 0,
        })
    }

    pub(super) fn has(&self, incompat: u32) -> bool {
        self.incompat & incompat != 0
    }

    /// What the ciphers of encrypted inodes may depend on.
    pub(super) fn encrypted_filesystem(&self) -> EncryptedFilesystem {
        EncryptedFilesystem {
            uuid: self.uuid,
            block_size: self.block_size,
            stable_inodes: self.compat & compat::STABLE_INODES != 0,
        }
    }

    /// Whether the journal holds what the rest of the filesystem lacks.
    pub(super) fn needs_recovery(&self) -> bool {
        self.compat & compat::HAS_JOURNAL != 0 && self.has(incompat::RECOVER)
    }

    /// Block and byte in it at which the descriptor of `group` lies; none if there is no such group.
    pub(super) fn descriptor_place(&self, group: u64) -> Option<(u64, usize)> {
        if group >= self.groups {
            return None;
        }
        let per_block = u64::from(self.block_size.checked_div(u32::from(self.descriptor_size))?);
        let index = group.checked_div(per_block)?;
        let within = group.checked_rem(per_block)?.checked_mul(u64::from(self.descriptor_size))?;
        // Block of the superblock: it starts at byte 1024.
        let superblock = u64::from(self.block_size == 1024);
        let block = if !self.has(incompat::META_BG) || index < u64::from(self.first_meta_group) {
            superblock.checked_add(1)?.checked_add(index)?
        } else {
            // Each block of descriptors lies at the start of the groups it describes, behind a superblock copy.
            let first = index.checked_mul(per_block)?;
            let start = first.checked_mul(u64::from(self.blocks_per_group))?;
            let own =
                if first == 0 { superblock.checked_add(1)? } else { u64::from(self.has_superblock(first)) };
            let data = if first == 0 { 0 } else { u64::from(self.first_data_block) };
            start.checked_add(data)?.checked_add(own)?
        };
        Some((block, usize::try_from(within).ok()?))
    }

    /// Fails if a feature says that contents must not be changed by who does not know it: shared blocks, snapshots …
    pub(super) fn check_overwrites(&self) -> Result<(), TreeError> {
        match self.ro_compat & !ro_compat::LEAVES_CONTENTS_ALONE {
            0 => Ok(()),
            unknown => Err(Feature::ExtRoCompat(unknown).into()),
        }
    }

    /// Whether a group starts with a copy of the superblock.
    fn has_superblock(&self, group: u64) -> bool {
        if self.compat & compat::SPARSE_SUPER2 != 0 {
            return group == 0 || self.backup_groups.iter().any(|&backup| u64::from(backup) == group);
        }
        let power_of = |base: u64| {
            let mut power = base;
            while power < group {
                // cannot overflow: groups have eight blocks or more, so that there are fewer than 2^61.
                power = power.saturating_mul(base);
            }
            power == group
        };
        self.ro_compat & ro_compat::SPARSE_SUPER == 0 || group <= 1 || [3, 5, 7].into_iter().any(power_of)
    }

    /// The block at which the inode table of `group` starts, from its descriptor.
    pub(super) fn inode_table(&self, group: u32, descriptor: &[u8]) -> Result<u64, TreeError> {
        let damaged = || TreeError::from(Damage::GroupDescriptor { group });
        let descriptor = descriptor.get(..usize::from(self.descriptor_size)).ok_or_else(damaged)?;
        let low = Record::new(descriptor.first_chunk::<32>().ok_or_else(damaged)?);
        if let Some(seed) = self.checksum_seed {
            let sum = crc32c_without(crc32c(seed, &group.to_le_bytes()), descriptor, 0x1e..0x20);
            let [a, b, ..] = sum.ok_or_else(damaged)?.to_le_bytes();
            if u16::from_le_bytes([a, b]) != low.le16::<0x1e>() {
                return Err(damaged());
            }
        }
        // Filesystems without 64-bit numbers have no upper half.
        let high = match descriptor.first_chunk::<64>() {
            Some(whole) => Record::new(whole).le32::<0x28>(),
            None => 0,
        };
        Ok(wide(high, low.le32::<0x8>()))
    }
}
