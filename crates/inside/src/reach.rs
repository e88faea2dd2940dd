//! How far what is on a device reaches, by its superblock. For whoever needs the end of the device.

use std::path::Path;

use atrest_device::{BlockDevice, DeviceError};

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
    // btrfs has its superblock behind 64 KiB; all others lie before it.
    let mut start = vec![0; device.size().min(68 << 10) as usize];
    device.read_at(0, &mut start)?;
    let view = View(&start);
    let kinds = [ext, xfs, btrfs, swap, fat];
    Ok(kinds.into_iter().find_map(|kind| kind(&view)))
}

/// What a person can do so that only the first `bytes` are in use.
pub fn how_to_shrink(name: &str, path: &Path, bytes: u64) -> String {
    let (path, kib) = (path.display(), bytes >> 10);
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

/// The first bytes of a device.
struct View<'a>(&'a [u8]);

impl View<'_> {
    fn bytes<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..)?.first_chunk().copied()
    }

    fn le16(&self, at: usize) -> Option<u64> {
        self.bytes(at).map(u16::from_le_bytes).map(u64::from)
    }

    fn le32(&self, at: usize) -> Option<u64> {
        self.bytes(at).map(u32::from_le_bytes).map(u64::from)
    }

    fn le64(&self, at: usize) -> Option<u64> {
        self.bytes(at).map(u64::from_le_bytes)
    }

    fn has(&self, at: usize, magic: &[u8]) -> bool {
        self.0.get(at..at + magic.len()) == Some(magic)
    }
}

fn ext(view: &View<'_>) -> Option<Reach> {
    let superblock = 1024;
    let is_ext = view.has(superblock + 0x38, &[0x53, 0xEF]);
    let shift = view.le32(superblock + 0x18).filter(|shift| is_ext && *shift <= 6)?;
    let with_64_bits = view.le32(superblock + 0x60)? & 0x80 != 0;
    let high = if with_64_bits { view.le32(superblock + 0x150)? } else { 0 };
    let blocks = view.le32(superblock + 4)? | high << 32;
    Some(Reach { name: "ext2/3/4", bytes: blocks.checked_mul(1024 << shift)? })
}

fn xfs(view: &View<'_>) -> Option<Reach> {
    let block = view.bytes(4).map(u32::from_be_bytes).filter(|_| view.has(0, b"XFSB"))?;
    let blocks = view.bytes(8).map(u64::from_be_bytes)?;
    Some(Reach { name: "XFS", bytes: blocks.checked_mul(block.into())? })
}

fn btrfs(view: &View<'_>) -> Option<Reach> {
    let superblock = 64 << 10;
    // The size of this device, of which there may be several.
    let bytes = view.le64(superblock + 0xD1).filter(|_| view.has(superblock + 0x40, b"_BHRfS_M"))?;
    Some(Reach { name: "btrfs", bytes })
}

fn fat(view: &View<'_>) -> Option<Reach> {
    let sector = view.le16(11).filter(|sector| matches!(sector, 512 | 1024 | 2048 | 4096))?;
    let is_fat = view.has(510, &[0x55, 0xAA]) && (view.has(54, b"FAT") || view.has(82, b"FAT32"));
    let sectors = match view.le16(19).filter(|_| is_fat)? {
        0 => view.le32(32)?,
        sectors => sectors,
    };
    Some(Reach { name: "FAT", bytes: sectors.checked_mul(sector)? })
}

fn swap(view: &View<'_>) -> Option<Reach> {
    let page: usize = 4096;
    let last = view.le32(1028).filter(|_| view.has(page - 10, b"SWAPSPACE2"))?;
    Some(Reach { name: "swap", bytes: last.checked_add(1)?.checked_mul(page as u64)? })
}
