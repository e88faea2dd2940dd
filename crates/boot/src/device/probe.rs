//! What is on a device: the few facts of a superblock by which people name it. Everything is read from untrusted bytes and believed
//! to be a name, no more.

use std::fs::File;
use std::os::unix::fs::FileExt;

use atrest_codec::{Le, Reader, Record, Rows, decode};

/// Bytes that are looked at: Btrfs has its superblock behind 64 KiB.
const HEAD: usize = 68 << 10;

/// What is on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Such as `ext4`, by the kernel's names for file systems; `crypto_LUKS` and `swap` are none that can be mounted.
    pub kind: &'static str,
    /// Its UUID, in lower case, or the serial number of a FAT, in upper case with a dash.
    pub uuid: String,
    /// Its label; empty if it has none.
    pub label: String,
}

/// What LUKS headers are called.
pub const LUKS: &str = "crypto_LUKS";
/// What swap space is called.
pub const SWAP: &str = "swap";

/// Looks at a device; `None` for what is not known, and for what can't be read.
pub fn probe(device: &File) -> Option<Content> {
    content(&head(device)?)
}

/// As much of the beginning as there is.
fn head(device: &File) -> Option<Vec<u8>> {
    let mut bytes = vec![0; HEAD];
    let mut filled = 0;
    while filled < HEAD {
        match device.read_at(bytes.get_mut(filled..)?, filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    bytes.truncate(filled);
    Some(bytes)
}

/// One kind of content: its name, where its magic is, the magic, where its UUID is, where its label is and how long.
type Known = (&'static str, usize, &'static [u8], usize, (usize, usize));

/// File systems whose UUID is 16 bytes, and whose label is ASCII up to a zero.
const KNOWN: &[Known] = &[
    ("xfs", 0, b"XFSB", 32, (108, 12)),
    ("btrfs", 0x1_0040, b"_BHRfS_M", 0x1_0020, (0x1_012b, 256)),
    ("erofs", 0x400, &[0xe2, 0xe1, 0xf5, 0xe0], 0x430, (0x440, 16)),
    (SWAP, 4086, b"SWAPSPACE2", 0x40c, (0x41c, 16)),
    (SWAP, 16374, b"SWAPSPACE2", 0x40c, (0x41c, 16)),
    (SWAP, 65526, b"SWAPSPACE2", 0x40c, (0x41c, 16)),
];

/// What these bytes begin.
pub fn content(bytes: &[u8]) -> Option<Content> {
    luks(bytes)
        .or_else(|| KNOWN.iter().find_map(|known| by_magic(bytes, known)))
        .or_else(|| ext(bytes))
        .or_else(|| f2fs(bytes))
        .or_else(|| squashfs(bytes))
        .or_else(|| fat(bytes))
}

fn by_magic(bytes: &[u8], (kind, at, magic, uuid, (label, len)): &Known) -> Option<Content> {
    (bytes.get(*at..)?.starts_with(magic)).then_some(())?;
    let uuid = Reader::at(bytes, *uuid).ok()?.array_ref().ok()?;
    let label = Reader::at(bytes, *label).ok()?.bytes(*len).ok()?;
    Some(Content { kind, uuid: uuid_text(uuid), label: text(label) })
}

/// Both versions have the UUID as text at the same place. A LUKS2 volume whose first header is destroyed is found by no name.
fn luks(bytes: &[u8]) -> Option<Content> {
    let header = Record::<208>::new(bytes.first_chunk()?);
    let label = match header.array::<0, 8>() {
        b"LUKS\xba\xbe\0\x01" => String::new(),
        b"LUKS\xba\xbe\0\x02" => text(header.array::<24, 48>()),
        _ => return None,
    };
    Some(Content { kind: LUKS, uuid: text(header.array::<168, 40>()).to_ascii_lowercase(), label })
}

fn ext(bytes: &[u8]) -> Option<Content> {
    let superblock = Record::<0x400>::new(Reader::at(bytes, 0x400).ok()?.array_ref().ok()?);
    if superblock.le16::<0x38>() != 0xef53 {
        return None;
    }
    let (compatible, incompatible) = (superblock.le32::<0x5c>(), superblock.le32::<0x60>());
    let read_only = superblock.le32::<0x64>();
    // A journal of its own is no file system.
    if incompatible & 0x8 != 0 {
        return None;
    }
    // What ext3 does not know: see ext4_feature_set_ok and its like in the kernel.
    let kind = match (incompatible & !0x16, read_only & !0x7, compatible & 0x4) {
        (0, 0, 0) => "ext2",
        (0, 0, _) => "ext3",
        _ => "ext4",
    };
    let (uuid, label) = (superblock.array::<0x68, 16>(), superblock.array::<0x78, 16>());
    Some(Content { kind, uuid: uuid_text(uuid), label: text(label) })
}

fn f2fs(bytes: &[u8]) -> Option<Content> {
    let superblock = Record::<0x47c>::new(Reader::at(bytes, 0x400).ok()?.array_ref().ok()?);
    (superblock.be32::<0>() == 0x1020_f5f2).then_some(())?;
    let Rows(units): Rows<Le<u16>, 512> = decode(superblock.array::<0x7c, 1024>());
    let label: Vec<u16> = units.into_iter().map(|Le(unit)| unit).take_while(|unit| *unit != 0).collect();
    let uuid = uuid_text(superblock.array::<0x6c, 16>());
    Some(Content { kind: "f2fs", uuid, label: String::from_utf16_lossy(&label) })
}

fn squashfs(bytes: &[u8]) -> Option<Content> {
    bytes.starts_with(b"hsqs").then(|| Content { kind: "squashfs", ..Content::default() })
}

/// FAT. The label is the one in the boot sector, which all tools keep the same as the one in the root directory.
fn fat(bytes: &[u8]) -> Option<Content> {
    let sector = Record::<512>::new(bytes.first_chunk()?);
    if sector.be16::<510>() != 0x55aa {
        return None;
    }
    let (number, label) = if sector.array::<0x52, 5>() == b"FAT32" {
        (sector.le32::<0x43>(), sector.array::<0x47, 11>())
    } else if [b"FAT12", b"FAT16", b"FAT  "].contains(&sector.array::<0x36, 5>()) {
        (sector.le32::<0x27>(), sector.array::<0x2b, 11>())
    } else {
        return None;
    };
    let label = text(label);
    let label = label.trim_end_matches(' ');
    let label = if label == "NO NAME" { String::new() } else { label.into() };
    Some(Content { kind: "vfat", uuid: format!("{:04X}-{:04X}", number >> 16, number & 0xffff), label })
}

fn uuid_text(bytes: &[u8; 16]) -> String {
    let mut uuid = String::with_capacity(36);
    for (i, byte) in bytes.iter().enumerate() {
        if [4, 6, 8, 10].contains(&i) {
            uuid.push('-');
        }
        uuid.push_str(&format!("{byte:02x}"));
    }
    uuid
}

/// Up to the first zero.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    // cannot miss: the end was found in the bytes, or is theirs.
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}
