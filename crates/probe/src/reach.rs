//! How far what is on a device reaches, by its superblock. For whoever needs the end of the device.

use alloc::format;
use alloc::string::String;
use core::fmt;

use atrest_codec::{Reader, Record};
use atrest_device::{BlockDevice, DeviceError};

use crate::ExtSuperblock;
use crate::detect::first;
use crate::identity::IDENTITY_AT;

/// A file system or the like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Its name, as people write it.
    pub name: &'static str,
    /// Bytes from the start of the device that belong to it.
    pub bytes: u64,
}

/// What is on the device and how far it reaches; `None` if that is not known.
///
/// # Errors
/// If the first bytes can't be read.
pub fn of(device: &dyn BlockDevice) -> Result<Option<Reach>, DeviceError> {
    let start = first(device, IDENTITY_AT)?;
    let kinds = [ext, xfs, btrfs, swap, fat];
    Ok(kinds.into_iter().find_map(|kind| kind(&start)))
}

/// What a person can do so that only the first `bytes` of the device at `path` are in use.
pub fn how_to_shrink(name: &str, path: impl fmt::Display, bytes: u64) -> String {
    let kib = bytes >> 10;
    match name {
        "ext2/3/4" => format!("shrink it first: e2fsck -f {path} && resize2fs {path} {kib}K"),
        "btrfs" => format!("mount it and shrink it first: btrfs filesystem resize {kib}K MOUNTPOINT"),
        "FAT" => format!("shrink it first: fatresize --size {bytes} {path}"),
        "swap" => format!("make it anew, shorter: mkswap {path} {kib}"),
        "XFS" => {
            String::from("XFS can't be shrunk; enlarge the device, or use --header FILE, which needs no room")
        }
        _ => String::from("shrink it first, or use --header FILE, which needs no room"),
    }
}

fn ext(start: &[u8]) -> Option<Reach> {
    Some(Reach { name: "ext2/3/4", bytes: ExtSuperblock::find(start)?.size()? })
}

fn xfs(start: &[u8]) -> Option<Reach> {
    let superblock = Record::<16>::new(start.first_chunk()?);
    (superblock.array::<0, 4>() == b"XFSB").then_some(())?;
    let (block, blocks) = (superblock.be32::<4>(), superblock.be64::<8>());
    Some(Reach { name: "XFS", bytes: blocks.checked_mul(block.into())? })
}

/// The size of this device, of which there may be several.
fn btrfs(start: &[u8]) -> Option<Reach> {
    let superblock = Record::<0x100>::new(Reader::at(start, 64 << 10).ok()?.array_ref().ok()?);
    let is_btrfs = superblock.array::<0x40, 8>() == b"_BHRfS_M";
    is_btrfs.then(|| Reach { name: "btrfs", bytes: superblock.le64::<0xd1>() })
}

fn fat(start: &[u8]) -> Option<Reach> {
    let boot = Record::<512>::new(start.first_chunk()?);
    let sector = Some(boot.le16::<11>()).filter(|sector| matches!(sector, 512 | 1024 | 2048 | 4096))?;
    let named = boot.array::<54, 3>() == b"FAT" || boot.array::<82, 5>() == b"FAT32";
    (named && boot.be16::<510>() == 0x55aa).then_some(())?;
    let sectors = match boot.le16::<19>() {
        0 => boot.le32::<32>(),
        sectors => sectors.into(),
    };
    Some(Reach { name: "FAT", bytes: u64::from(sectors).checked_mul(sector.into())? })
}

fn swap(start: &[u8]) -> Option<Reach> {
    let page = Record::<4096>::new(start.first_chunk()?);
    (page.array::<4086, 10>() == b"SWAPSPACE2").then_some(())?;
    Some(Reach { name: "swap", bytes: u64::from(page.le32::<1028>()).checked_add(1)?.checked_mul(4096)? })
}
