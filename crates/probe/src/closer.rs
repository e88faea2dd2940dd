//! What no signature at a fixed place tells: those of two bytes, which are held against other fields, and those that lie
//! further back. Places and values are those of each format's own definitions, and libblkid tests them.

use alloc::vec;

use atrest_codec::{Reader, Record};
use atrest_device::{BlockDevice, DeviceError};

use crate::FilesystemKind;

/// The GUID by which BitLocker To Go is known, at byte 424 of a boot sector of FAT (libbde, "BitLocker Drive Encryption format").
const BITLOCKER_TO_GO: [u8; 16] =
    [0x3b, 0xd6, 0x67, 0x49, 0x29, 0x2e, 0xd8, 0x4a, 0x83, 0x99, 0xf6, 0xa3, 0x39, 0xe3, 0xd0, 0x01];

/// What the first bytes of a device are, where a signature alone does not tell. Comes before ext and FAT.
pub(crate) fn in_front(start: &[u8]) -> Option<FilesystemKind> {
    let looks = [to_go, core_storage, udf, hfs, nilfs2, minix, gfs2];
    looks.into_iter().find_map(|look| look(start))
}

/// What lies behind the first bytes of a device. Reads up to 512 KiB, so it comes last.
///
/// # Errors
/// If they can't be read.
pub fn further_back(device: &dyn BlockDevice) -> Result<Option<FilesystemKind>, DeviceError> {
    if zfs(device)? {
        return Ok(Some(FilesystemKind::Zfs));
    }
    Ok(at_the_end(device)?.then_some(FilesystemKind::MdRaid))
}

fn has(start: &[u8], at: usize, bytes: &[u8]) -> bool {
    start.get(at..).is_some_and(|rest| rest.starts_with(bytes))
}

/// A drive that can be carried looks like FAT to whoever does not know BitLocker.
fn to_go(start: &[u8]) -> Option<FilesystemKind> {
    let found = has(start, 3, b"MSWIN4.1") && has(start, 424, &BITLOCKER_TO_GO);
    found.then_some(FilesystemKind::BitLocker)
}

/// The volume header of CoreStorage: its signature, its version and the polynomial of its checksum.
fn core_storage(start: &[u8]) -> Option<FilesystemKind> {
    let found = has(start, 88, b"CS") && has(start, 8, &1_u16.to_le_bytes());
    found.then_some(FilesystemKind::CoreStorage)
}

/// The volume recognition sequence of ECMA-167, part 2: descriptors of 2048 or 4096 bytes from byte 32768 on. A disk that
/// is ISO 9660, too, is UDF.
fn udf(start: &[u8]) -> Option<FilesystemKind> {
    const AT: usize = 0x8001;
    let known = |name: &[u8]| matches!(name, b"BEA01" | b"CD001" | b"TEA01" | b"BOOT2" | b"CDW02");
    [2048, 4096].into_iter().find_map(|step| {
        let names = start.get(AT..)?.chunks(step).map_while(|descriptor| descriptor.get(..5));
        let mut behind = names.skip_while(|name| known(name));
        behind.next().filter(|name| matches!(name, [b'N', b'S', b'R', b'0', b'2' | b'3']))?;
        Some(FilesystemKind::Udf)
    })
}

/// Inside Macintosh: Files, "Master Directory Blocks". One that says where an HFS+ lies inside is a wrapper around that.
fn hfs(start: &[u8]) -> Option<FilesystemKind> {
    let block = Record::<128>::new(Reader::at(start, 1024).ok()?.array_ref().ok()?);
    let size = block.be32::<20>();
    let found = block.array::<0, 2>() == b"BD" && size != 0 && size.is_multiple_of(512);
    let inside = matches!(block.array::<124, 2>(), b"H+" | b"HX");
    found.then_some(if inside { FilesystemKind::HfsPlus } else { FilesystemKind::Hfs })
}

/// The kernel's nilfs2_ondisk.h: revision 2, the bytes that the checksum is over, the shift of a block's size.
fn nilfs2(start: &[u8]) -> Option<FilesystemKind> {
    let superblock = Record::<32>::new(Reader::at(start, 1024).ok()?.array_ref().ok()?);
    let sizes = (1..=1024).contains(&superblock.le16::<8>()) && superblock.le32::<20>() <= 6;
    let found = superblock.le32::<0>() == 2 && superblock.le16::<6>() == 0x3434 && sizes;
    found.then_some(FilesystemKind::Nilfs2)
}

/// The kernel's minix_fs.h: versions 1, 2 and 3, each with its magic number, zones and inodes.
fn minix(start: &[u8]) -> Option<FilesystemKind> {
    let superblock = Record::<32>::new(Reader::at(start, 1024).ok()?.array_ref().ok()?);
    let old = matches!(superblock.le16::<16>(), 0x137f | 0x138f | 0x2468 | 0x2478)
        && superblock.le16::<0>() != 0
        && superblock.le16::<4>() != 0
        && superblock.le16::<6>() != 0
        && superblock.le16::<10>() <= 10;
    let third = superblock.le16::<24>() == 0x4d5a
        && superblock.le32::<0>() != 0
        && matches!(superblock.le16::<28>(), 1024 | 2048 | 4096);
    (old || third).then_some(FilesystemKind::Minix)
}

/// The kernel's gfs2_ondisk.h. GFS, its forerunner, has the same magic number and formats below 1800.
fn gfs2(start: &[u8]) -> Option<FilesystemKind> {
    let superblock = Record::<32>::new(Reader::at(start, 0x1_0000).ok()?.array_ref().ok()?);
    let found = superblock.be32::<0>() == 0x0116_1970
        && superblock.be32::<4>() == 1
        && (1800..1900).contains(&superblock.be32::<24>());
    found.then_some(FilesystemKind::Gfs2)
}

/// OpenZFS, "ZFS On-Disk Specification", section 1: a label of 256 KiB at the start, another behind it. The second half of each
/// is a ring of uberblocks, which begin with a magic number in the byte order of the machine. libblkid wants four of them.
fn zfs(device: &dyn BlockDevice) -> Result<bool, DeviceError> {
    const LABEL: u64 = 256 << 10;
    const RING: u64 = 128 << 10;
    const MAGIC: u64 = 0x00ba_b10c;
    for label in [0, LABEL] {
        // cannot overflow: constants.
        let at = label.saturating_add(LABEL - RING);
        if at.saturating_add(RING) > device.size() {
            return Ok(false);
        }
        let mut ring = vec![0; RING as usize];
        device.read_at(at, &mut ring)?;
        let magics = ring.chunks(1024).filter_map(|block| block.first_chunk());
        let found = magics.filter(|magic| [MAGIC.to_le_bytes(), MAGIC.to_be_bytes()].contains(magic));
        if found.count() >= 4 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Members of a Linux RAID of the formats 0.90 and 1.0 have their superblock at the end.
fn at_the_end(device: &dyn BlockDevice) -> Result<bool, DeviceError> {
    const MAGIC: [u8; 4] = 0xa92b_4efc_u32.to_le_bytes();
    let size = device.size();
    let newer = (size / 512).checked_sub(16).and_then(|sectors| (sectors & !7).checked_mul(512));
    let older = (size & !0xffff).checked_sub(0x1_0000);
    for at in [newer, older].into_iter().flatten() {
        let mut magic = [0; 4];
        device.read_at(at, &mut magic)?;
        if magic == MAGIC {
            return Ok(true);
        }
    }
    Ok(false)
}
