//! What starts at the first byte of a device, by the signatures that each format defines.

use core::fmt;

use atrest_device::{BlockDevice, DeviceError};

use crate::bytes::Fields;
use crate::fat;

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
    Xfs,
    Btrfs,
    F2fs,
    Jfs,
    ReiserFs,
    Apfs,
    HfsPlus,
    Erofs,
    SquashFs,
    Iso9660,
    LittleFs,
    Ecryptfs,
    Swap,
    Lvm,
    MdRaid,
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
            Self::Xfs => "XFS",
            Self::Btrfs => "Btrfs",
            Self::F2fs => "F2FS",
            Self::Jfs => "JFS",
            Self::ReiserFs => "ReiserFS",
            Self::Apfs => "APFS",
            Self::HfsPlus => "HFS+",
            Self::Erofs => "EROFS",
            Self::SquashFs => "SquashFS",
            Self::Iso9660 => "ISO 9660",
            Self::LittleFs => "LittleFS",
            Self::Ecryptfs => "eCryptfs",
            Self::Swap => "swap space",
            Self::Lvm => "an LVM physical volume",
            Self::MdRaid => "a Linux RAID member",
            Self::Luks1 => "a LUKS1 volume",
            Self::Luks2 => "a LUKS2 volume",
        }
    }
}

impl fmt::Display for FilesystemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Signatures at fixed places, most specific first. ext and FAT need a closer look and come after these.
const SIGNATURES: &[(usize, &[u8], FilesystemKind)] = &[
    (0, b"LUKS\xba\xbe\x00\x01", FilesystemKind::Luks1),
    (0, b"LUKS\xba\xbe\x00\x02", FilesystemKind::Luks2),
    (0, b"XFSB", FilesystemKind::Xfs),
    (0, b"hsqs", FilesystemKind::SquashFs),
    (3, b"EXFAT   ", FilesystemKind::ExFat),
    (3, b"NTFS    ", FilesystemKind::Ntfs),
    (3, b"-FVE-FS-", FilesystemKind::BitLocker),
    (8, b"littlefs", FilesystemKind::LittleFs),
    (32, b"NXSB", FilesystemKind::Apfs),
    (512, b"LABELONE", FilesystemKind::Lvm),
    (1024, b"\x10\x20\xf5\xf2", FilesystemKind::F2fs),
    (1024, b"\xe2\xe1\xf5\xe0", FilesystemKind::Erofs),
    (1024, b"H+\x00\x04", FilesystemKind::HfsPlus),
    (1024, b"HX\x00\x05", FilesystemKind::HfsPlus),
    (4096, b"\xfc\x4e\x2b\xa9", FilesystemKind::MdRaid),
    (4086, b"SWAPSPACE2", FilesystemKind::Swap),
    (0x8000, b"JFS1", FilesystemKind::Jfs),
    (0x8001, b"CD001", FilesystemKind::Iso9660),
    (0x10034, b"ReIsEr", FilesystemKind::ReiserFs),
    (0x10040, b"_BHRfS_M", FilesystemKind::Btrfs),
];

/// Bytes from the start in which every signature lies.
const LOOK_AT: usize = 0x10400;

/// Which filesystem starts at the first byte of `device`; none if we know none that does.
///
/// Only I/O failures are errors. A filesystem whose signature is right may still fail to open.
pub fn detect(device: &dyn BlockDevice) -> Result<Option<FilesystemKind>, DeviceError> {
    let len = usize::try_from(device.size()).map_or(LOOK_AT, |size| size.min(LOOK_AT));
    let mut start = vec![0; len];
    device.read_at(0, &mut start)?;
    let fields = Fields(&start);
    let found = SIGNATURES.iter().find(|(at, signature, _)| fields.slice(*at, signature.len()) == *signature);
    if let Some((_, _, kind)) = found {
        return Ok(Some(*kind));
    }
    if fields.le16(1024 + 0x38) == crate::ext4::MAGIC {
        return Ok(Some(crate::ext4::kind(Fields(fields.slice(1024, 1024)))));
    }
    Ok(fat::BootSector::parse(fields.slice(0, 512)).ok().map(|boot| boot.kind()))
}
