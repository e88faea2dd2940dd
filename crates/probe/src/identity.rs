//! The few facts of a superblock by which people name a device: `UUID=` and `LABEL=`.

use alloc::format;
use alloc::string::String;

use atrest_codec::{Le, Reader, Record, Rows, decode};
use atrest_device::{BlockDevice, DeviceError};

use crate::detect::first;
use crate::text::{text, utf16, uuid};
use crate::{ExtSuperblock, FilesystemKind};

/// Bytes from the start of a device that are looked at: Btrfs has its superblock behind 64 KiB.
pub(crate) const IDENTITY_AT: usize = 68 << 10;

/// What people call a device by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What is on it.
    pub kind: FilesystemKind,
    /// Its UUID, in lower case, or the serial number of a FAT, in upper case with a dash. Empty if it has none.
    pub uuid: String,
    /// Its label; empty if it has none.
    pub label: String,
}

/// One kind of content: what it is, where its magic is, the magic, where its UUID is, where its label is and how long.
type Known = (FilesystemKind, usize, &'static [u8], usize, (usize, usize));

/// File systems whose UUID is 16 bytes, and whose label is ASCII up to a zero.
const KNOWN: &[Known] = &[
    (FilesystemKind::Xfs, 0, b"XFSB", 32, (108, 12)),
    (FilesystemKind::Btrfs, 0x1_0040, b"_BHRfS_M", 0x1_0020, (0x1_012b, 256)),
    (FilesystemKind::Erofs, 0x400, &[0xe2, 0xe1, 0xf5, 0xe0], 0x430, (0x440, 16)),
    (FilesystemKind::Swap, 4086, b"SWAPSPACE2", 0x40c, (0x41c, 16)),
    (FilesystemKind::Swap, 16374, b"SWAPSPACE2", 0x40c, (0x41c, 16)),
    (FilesystemKind::Swap, 65526, b"SWAPSPACE2", 0x40c, (0x41c, 16)),
];

/// What a device is called; `None` if nothing is known to be on it.
///
/// # Errors
/// If its first bytes can't be read.
pub fn identity(device: &dyn BlockDevice) -> Result<Option<Identity>, DeviceError> {
    Ok(of_bytes(&first(device, IDENTITY_AT)?))
}

fn of_bytes(start: &[u8]) -> Option<Identity> {
    luks(start)
        .or_else(|| KNOWN.iter().find_map(|known| by_magic(start, known)))
        .or_else(|| ext(start))
        .or_else(|| f2fs(start))
        .or_else(|| squashfs(start))
        .or_else(|| fat(start))
}

fn by_magic(bytes: &[u8], (kind, at, magic, id, (label, len)): &Known) -> Option<Identity> {
    (bytes.get(*at..)?.starts_with(magic)).then_some(())?;
    let id = Reader::at(bytes, *id).ok()?.array_ref().ok()?;
    let label = Reader::at(bytes, *label).ok()?.bytes(*len).ok()?;
    Some(Identity { kind: *kind, uuid: uuid(id), label: text(label) })
}

/// Both versions have the UUID as text at the same place. A LUKS2 volume whose first header is destroyed is found by no name.
fn luks(bytes: &[u8]) -> Option<Identity> {
    let header = Record::<208>::new(bytes.first_chunk()?);
    let (kind, label) = match header.array::<0, 8>() {
        b"LUKS\xba\xbe\0\x01" => (FilesystemKind::Luks1, String::new()),
        b"LUKS\xba\xbe\0\x02" => (FilesystemKind::Luks2, text(header.array::<24, 48>())),
        _ => return None,
    };
    Some(Identity { kind, uuid: text(header.array::<168, 40>()).to_ascii_lowercase(), label })
}

/// A journal of its own is no file system.
fn ext(bytes: &[u8]) -> Option<Identity> {
    let superblock = ExtSuperblock::find(bytes).filter(|superblock| !superblock.is_journal())?;
    let (id, label) = (uuid(superblock.uuid()), text(superblock.label()));
    Some(Identity { kind: superblock.kind(), uuid: id, label })
}

fn f2fs(bytes: &[u8]) -> Option<Identity> {
    let superblock = Record::<0x47c>::new(Reader::at(bytes, 0x400).ok()?.array_ref().ok()?);
    (superblock.be32::<0>() == 0x1020_f5f2).then_some(())?;
    let Rows(units): Rows<Le<u16>, 512> = decode(superblock.array::<0x7c, 1024>());
    let label = utf16(units.into_iter().map(|Le(unit)| unit));
    Some(Identity { kind: FilesystemKind::F2fs, uuid: uuid(superblock.array::<0x6c, 16>()), label })
}

fn squashfs(bytes: &[u8]) -> Option<Identity> {
    let nameless = || Identity { kind: FilesystemKind::SquashFs, uuid: String::new(), label: String::new() };
    bytes.starts_with(b"hsqs").then(nameless)
}

/// FAT. The label is the one in the boot sector, which all tools keep the same as the one in the root directory. Its sizes
/// need not make sense: a name that is on the device is found all the same.
fn fat(bytes: &[u8]) -> Option<Identity> {
    let sector = Record::<512>::new(bytes.first_chunk()?);
    if sector.be16::<510>() != 0x55aa {
        return None;
    }
    let (kind, number, label) = if sector.array::<0x52, 5>() == b"FAT32" {
        (FilesystemKind::Fat32, sector.le32::<0x43>(), sector.array::<0x47, 11>())
    } else {
        let kind = match sector.array::<0x36, 5>() {
            b"FAT12" => FilesystemKind::Fat12,
            b"FAT16" | b"FAT  " => FilesystemKind::Fat16,
            _ => return None,
        };
        (kind, sector.le32::<0x27>(), sector.array::<0x2b, 11>())
    };
    let label = text(label);
    let label = label.trim_end_matches(' ');
    let label = if label == "NO NAME" { "" } else { label };
    Some(Identity {
        kind,
        uuid: format!("{:04X}-{:04X}", number >> 16, number & 0xffff),
        label: label.into(),
    })
}
