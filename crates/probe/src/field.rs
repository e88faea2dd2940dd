//! Fields that can be wrong in a superblock.

use core::fmt;

/// Fields that can be wrong in a superblock or boot sector.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Field {
    BlockSize,
    BlockCount,
    BlocksPerGroup,
    InodesPerGroup,
    InodeSize,
    InodeCount,
    DescriptorSize,
    FirstDataBlock,
    JournalInode,
    SectorSize,
    ClusterSize,
    ReservedSectors,
    FatCount,
    FatSize,
    RootEntries,
    RootCluster,
    SectorCount,
    InfoSector,
    Version,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BlockSize => "block size",
            Self::BlockCount => "block count",
            Self::BlocksPerGroup => "blocks per group",
            Self::InodesPerGroup => "inodes per group",
            Self::InodeSize => "inode size",
            Self::InodeCount => "inode count",
            Self::DescriptorSize => "group descriptor size",
            Self::FirstDataBlock => "first data block",
            Self::JournalInode => "journal inode",
            Self::SectorSize => "sector size",
            Self::ClusterSize => "cluster size",
            Self::ReservedSectors => "number of reserved sectors",
            Self::FatCount => "number of FATs",
            Self::FatSize => "size of a FAT",
            Self::RootEntries => "number of root directory entries",
            Self::RootCluster => "first cluster of the root directory",
            Self::SectorCount => "sector count",
            Self::InfoSector => "information sector",
            Self::Version => "version",
        })
    }
}
