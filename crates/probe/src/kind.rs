//! File systems and what else fills a whole device, and the signatures by which they are known.

use core::fmt;

use crate::closer;

/// A filesystem, or another thing that fills a whole partition.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FilesystemKind {
    Ext2,
    Ext3,
    Ext4,
    Fat12,
    Fat16,
    Fat32,
    ExFat,
    Ntfs,
    BitLocker,
    ReFs,
    Xfs,
    Btrfs,
    Bcachefs,
    Zfs,
    F2fs,
    Nilfs2,
    Jfs,
    ReiserFs,
    Reiser4,
    Gfs2,
    Ocfs2,
    Minix,
    Ufs,
    Apfs,
    CoreStorage,
    Hfs,
    HfsPlus,
    Erofs,
    SquashFs,
    CramFs,
    RomFs,
    Udf,
    Iso9660,
    LittleFs,
    Ubi,
    Ubifs,
    Swap,
    Hibernation,
    Lvm,
    MdRaid,
    Bcache,
    DmIntegrity,
    DmVerity,
    Vdo,
    Luks1,
    Luks2,
}

impl FilesystemKind {
    /// The name that people and `mount` use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext2 => "ext2",
            Self::Ext3 => "ext3",
            Self::Ext4 => "ext4",
            Self::Fat12 => "FAT12",
            Self::Fat16 => "FAT16",
            Self::Fat32 => "FAT32",
            Self::ExFat => "exFAT",
            Self::Ntfs => "NTFS",
            Self::BitLocker => "BitLocker",
            Self::ReFs => "ReFS",
            Self::Xfs => "XFS",
            Self::Btrfs => "Btrfs",
            Self::Bcachefs => "bcachefs",
            Self::Zfs => "ZFS",
            Self::F2fs => "F2FS",
            Self::Nilfs2 => "NILFS2",
            Self::Jfs => "JFS",
            Self::ReiserFs => "ReiserFS",
            Self::Reiser4 => "Reiser4",
            Self::Gfs2 => "GFS2",
            Self::Ocfs2 => "OCFS2",
            Self::Minix => "Minix",
            Self::Ufs => "UFS",
            Self::Apfs => "APFS",
            Self::CoreStorage => "CoreStorage, which FileVault 2 encrypts",
            Self::Hfs => "HFS",
            Self::HfsPlus => "HFS+",
            Self::Erofs => "EROFS",
            Self::SquashFs => "SquashFS",
            Self::CramFs => "cramfs",
            Self::RomFs => "romfs",
            Self::Udf => "UDF",
            Self::Iso9660 => "ISO 9660",
            Self::LittleFs => "LittleFS",
            Self::Ubi => "a UBI device",
            Self::Ubifs => "UBIFS",
            Self::Swap => "swap space",
            Self::Hibernation => "swap space with a hibernated system",
            Self::Lvm => "an LVM physical volume",
            Self::MdRaid => "a Linux RAID member",
            Self::Bcache => "a bcache device",
            Self::DmIntegrity => "a dm-integrity device",
            Self::DmVerity => "a dm-verity hash device",
            Self::Vdo => "a VDO device",
            Self::Luks1 => "a LUKS1 volume",
            Self::Luks2 => "a LUKS2 volume",
        }
    }
}

impl FilesystemKind {
    /// The word of `blkid`, which for file systems is the one that the kernel mounts them by.
    pub fn blkid_name(self) -> &'static str {
        match self {
            Self::Ext2 => "ext2",
            Self::Ext3 => "ext3",
            Self::Ext4 => "ext4",
            Self::Fat12 | Self::Fat16 | Self::Fat32 => "vfat",
            Self::ExFat => "exfat",
            Self::Ntfs => "ntfs",
            Self::BitLocker => "BitLocker",
            Self::ReFs => "ReFS",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
            Self::Bcachefs => "bcachefs",
            Self::Zfs => "zfs_member",
            Self::F2fs => "f2fs",
            Self::Nilfs2 => "nilfs2",
            Self::Jfs => "jfs",
            Self::ReiserFs => "reiserfs",
            Self::Reiser4 => "reiser4",
            Self::Gfs2 => "gfs2",
            Self::Ocfs2 => "ocfs2",
            Self::Minix => "minix",
            Self::Ufs => "ufs",
            Self::Apfs => "apfs",
            Self::CoreStorage => "corestorage",
            Self::Hfs => "hfs",
            Self::HfsPlus => "hfsplus",
            Self::Erofs => "erofs",
            Self::SquashFs => "squashfs",
            Self::CramFs => "cramfs",
            Self::RomFs => "romfs",
            Self::Udf => "udf",
            Self::Iso9660 => "iso9660",
            Self::LittleFs => "littlefs",
            Self::Ubi => "ubi",
            Self::Ubifs => "ubifs",
            Self::Swap => "swap",
            Self::Hibernation => "swsuspend",
            Self::Lvm => "LVM2_member",
            Self::MdRaid => "linux_raid_member",
            Self::Bcache => "bcache",
            Self::DmIntegrity => "DM_integrity",
            Self::DmVerity => "DM_verity_hash",
            Self::Vdo => "vdo",
            Self::Luks1 | Self::Luks2 => "crypto_LUKS",
        }
    }
}

impl fmt::Display for FilesystemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Signatures at fixed places (first byte, signature, what it is), most specific first. ext and FAT need a closer look and
/// come after these.
pub const SIGNATURES: &[(usize, &[u8], FilesystemKind)] = &[
    (0, b"LUKS\xba\xbe\x00\x01", FilesystemKind::Luks1),
    (0, b"LUKS\xba\xbe\x00\x02", FilesystemKind::Luks2),
    (0, b"XFSB", FilesystemKind::Xfs),
    (0, b"hsqs", FilesystemKind::SquashFs),
    (3, b"EXFAT   ", FilesystemKind::ExFat),
    (3, b"NTFS    ", FilesystemKind::Ntfs),
    (3, b"-FVE-FS-", FilesystemKind::BitLocker),
    (3, b"ReFS\0", FilesystemKind::ReFs),
    (8, b"littlefs", FilesystemKind::LittleFs),
    (32, b"NXSB", FilesystemKind::Apfs),
    (0, b"LABELONE", FilesystemKind::Lvm),
    (512, b"LABELONE", FilesystemKind::Lvm),
    (1024, b"LABELONE", FilesystemKind::Lvm),
    (1536, b"LABELONE", FilesystemKind::Lvm),
    (0, b"integrt\0", FilesystemKind::DmIntegrity),
    (0, b"verity\0\0", FilesystemKind::DmVerity),
    (0, b"dmvdo001", FilesystemKind::Vdo),
    (1024, b"\x10\x20\xf5\xf2", FilesystemKind::F2fs),
    (1024, b"\xe2\xe1\xf5\xe0", FilesystemKind::Erofs),
    (1024, b"H+\x00\x04", FilesystemKind::HfsPlus),
    (1024, b"HX\x00\x05", FilesystemKind::HfsPlus),
    (0, b"\xfc\x4e\x2b\xa9", FilesystemKind::MdRaid),
    (4096, b"\xfc\x4e\x2b\xa9", FilesystemKind::MdRaid),
    (4120, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81", FilesystemKind::Bcache),
    (4120, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef", FilesystemKind::Bcachefs),
    (0, b"\x45\x3d\xcd\x28", FilesystemKind::CramFs),
    (0, b"\x28\xcd\x3d\x45", FilesystemKind::CramFs),
    (512, b"\x45\x3d\xcd\x28", FilesystemKind::CramFs),
    (512, b"\x28\xcd\x3d\x45", FilesystemKind::CramFs),
    (0, b"-rom1fs-", FilesystemKind::RomFs),
    (0, b"UBI#", FilesystemKind::Ubi),
    (0, b"\x31\x18\x10\x06", FilesystemKind::Ubifs),
    (1024, b"OCFSV2", FilesystemKind::Ocfs2),
    (2048, b"OCFSV2", FilesystemKind::Ocfs2),
    (4096, b"OCFSV2", FilesystemKind::Ocfs2),
    (8192, b"OCFSV2", FilesystemKind::Ocfs2),
    // UFS1 and UFS2, in either byte order.
    (0x255c, b"\x54\x19\x01\x00", FilesystemKind::Ufs),
    (0x255c, b"\x00\x01\x19\x54", FilesystemKind::Ufs),
    (0x1055c, b"\x19\x01\x54\x19", FilesystemKind::Ufs),
    (0x1055c, b"\x19\x54\x01\x19", FilesystemKind::Ufs),
    // At the end of the first page: of 4, 8, 16, 32 or 64 KiB.
    (4086, b"SWAPSPACE2", FilesystemKind::Swap),
    (8182, b"SWAPSPACE2", FilesystemKind::Swap),
    (16374, b"SWAPSPACE2", FilesystemKind::Swap),
    (32758, b"SWAPSPACE2", FilesystemKind::Swap),
    (65526, b"SWAPSPACE2", FilesystemKind::Swap),
    (4086, b"S1SUSPEND\0", FilesystemKind::Hibernation),
    (8182, b"S1SUSPEND\0", FilesystemKind::Hibernation),
    (16374, b"S1SUSPEND\0", FilesystemKind::Hibernation),
    (32758, b"S1SUSPEND\0", FilesystemKind::Hibernation),
    (65526, b"S1SUSPEND\0", FilesystemKind::Hibernation),
    (0x8000, b"JFS1", FilesystemKind::Jfs),
    (0x8001, b"CD001", FilesystemKind::Iso9660),
    (0x2034, b"ReIsErFs", FilesystemKind::ReiserFs),
    (0x10000, b"ReIsEr4", FilesystemKind::Reiser4),
    (0x10034, b"ReIsEr", FilesystemKind::ReiserFs),
    (0x10040, b"_BHRfS_M", FilesystemKind::Btrfs),
];

/// Bytes from the start in which every signature lies.
pub const LOOK_AT: usize = 0x10800;

/// What these bytes of the start of a device are, by a signature and what stands beside it. ext and FAT have none at a fixed
/// place.
pub fn by_signature(start: &[u8]) -> Option<FilesystemKind> {
    let has = |at: usize, signature: &[u8]| start.get(at..).is_some_and(|rest| rest.starts_with(signature));
    // A disk with both is UDF and ISO 9660 at once, which its closer look decides.
    closer::in_front(start).or_else(|| {
        SIGNATURES.iter().find(|(at, signature, _)| has(*at, signature)).map(|(_, _, kind)| *kind)
    })
}
