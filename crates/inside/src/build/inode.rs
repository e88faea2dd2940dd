//! Inodes as bytes: kernel Documentation/filesystems/ext4, "Index Nodes".

use super::attributes::Placed;
use super::put;
use super::superblock::Superblock;
use crate::bytes::{Fields, crc32c};
use crate::tree::{Kind, Timestamp};

/// Bytes of fields behind the first 128: the kernel's.
const EXTRA: usize = 32;
/// What lies behind the fields is for attributes.
pub(super) const ATTRIBUTES_AT: usize = 128 + EXTRA;

pub(super) mod flag {
    pub(crate) const ENCRYPT: u32 = 0x800;
    pub(crate) const EXTENTS: u32 = 0x8_0000;
}

/// What an inode says.
pub(super) struct Fresh<'a> {
    pub(super) number: u32,
    pub(super) kind: Kind,
    pub(super) mode: u16,
    pub(super) owner: (u32, u32),
    pub(super) size: u64,
    pub(super) links: u32,
    /// Blocks of contents, tree and attributes.
    pub(super) blocks: u64,
    pub(super) flags: u32,
    /// Root of the extent tree, short link target or device numbers.
    pub(super) map: [u8; 60],
    pub(super) accessed: Timestamp,
    pub(super) changed: Timestamp,
    pub(super) modified: Timestamp,
    pub(super) attributes: &'a Placed,
    pub(super) attribute_block: u64,
}

/// Seed of the checksums of an inode, its extents and its directory blocks. Generations are 0 in a new filesystem.
pub(super) fn seed(sb: &Superblock, number: u32) -> u32 {
    crc32c(crc32c(sb.seed, &number.to_le_bytes()), &[0; 4])
}

impl Fresh<'_> {
    pub(super) fn encode(&self, sb: &Superblock) -> Vec<u8> {
        let mut raw = vec![0; sb.inode_size];
        put::le16(&mut raw, 0, type_bits(self.kind) << 12 | self.mode & 0o7777);
        put::halves16(&mut raw, 0x2, 0x78, self.owner.0);
        put::halves16(&mut raw, 0x18, 0x7a, self.owner.1);
        put::halves32(&mut raw, 0x4, 0x6c, self.size);
        put::le16(&mut raw, 0x1a, self.links as u16);
        // Counted in 512 bytes, 48 bits of them.
        let sectors = self.blocks * (sb.block_size as u64 / 512);
        put::le32(&mut raw, 0x1c, put::low32(sectors));
        put::le16(&mut raw, 0x74, (sectors >> 32) as u16);
        put::le32(&mut raw, 0x20, self.flags);
        put::bytes(&mut raw, 0x28, &self.map);
        put::le32(&mut raw, 0x68, put::low32(self.attribute_block));
        put::le16(&mut raw, 0x76, (self.attribute_block >> 32) as u16);
        put::le16(&mut raw, 0x80, EXTRA as u16);
        for (at, extra_at, time) in [
            (0x8, 0x8c, self.accessed),
            (0xc, 0x84, self.changed),
            (0x10, 0x88, self.modified),
            // Made when it was last changed, as far as anybody can know.
            (0x90, 0x94, self.changed),
        ] {
            let (seconds, extra) = encode_time(time);
            put::le32(&mut raw, at, seconds);
            put::le32(&mut raw, extra_at, extra);
        }
        self.attributes.write_inside(raw.get_mut(ATTRIBUTES_AT..).unwrap_or(&mut []));
        checksum_with(&mut raw, sb, self.number, 0);
        raw
    }
}

/// Writes the checksum of an inode.
pub(super) fn checksum_with(raw: &mut [u8], sb: &Superblock, number: u32, generation: u32) {
    // Inodes that mke2fs keeps for later have no field for the upper half.
    let is_wide = raw.len() > 128 && Fields(raw).le16(0x80) >= 4;
    put::le16(raw, 0x7c, 0);
    if is_wide {
        put::le16(raw, 0x82, 0);
    }
    let seed = crc32c(crc32c(sb.seed, &number.to_le_bytes()), &generation.to_le_bytes());
    let sum = crc32c(seed, raw);
    put::le16(raw, 0x7c, (sum & 0xffff) as u16);
    if is_wide {
        put::le16(raw, 0x82, (sum >> 16) as u16);
    }
}

/// The seconds' low 32 bits; two more bits and the nanoseconds. What lies outside of 34 bits is moved to their border.
pub(crate) fn encode_time(time: Timestamp) -> (u32, u32) {
    let seconds = time.seconds.clamp(-(1 << 31), (1 << 34) - (1 << 31) - 1);
    let low = put::low32(seconds.cast_unsigned());
    let epoch = ((seconds - i64::from(low.cast_signed())) >> 32) & 3;
    (low, epoch as u32 | time.nanoseconds << 2)
}

/// The map of a device's inode: old numbers in the first word, large ones in the second.
pub(super) fn device_map((major, minor): (u32, u32)) -> [u8; 60] {
    let mut map = [0; 60];
    if major < 256 && minor < 256 {
        put::le32(&mut map, 0, major << 8 | minor);
    } else {
        put::le32(&mut map, 4, minor & 0xff | major << 8 | (minor & !0xff) << 12);
    }
    map
}

/// The root inode's map as mke2fs wrote it, if it is an extent tree.
pub(super) fn map_of(raw: &[u8]) -> Option<&[u8]> {
    let fields = Fields(raw);
    (fields.le32(0x20) & flag::EXTENTS != 0).then(|| fields.slice(0x28, 60))
}

fn type_bits(kind: Kind) -> u16 {
    match kind {
        Kind::Pipe => 0x1,
        Kind::CharDevice => 0x2,
        Kind::Directory => 0x4,
        Kind::BlockDevice => 0x6,
        Kind::File => 0x8,
        Kind::Link => 0xa,
        Kind::Socket => 0xc,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_kernels_table() {
        // Documentation/filesystems/ext4, "Inode Timestamps": the extra bits and where they lead.
        let encode = |seconds| encode_time(Timestamp { seconds, nanoseconds: 7 });
        assert_eq!(encode(-1), (0xffff_ffff, 7 << 2));
        assert_eq!(encode(-0x8000_0000), (0x8000_0000, 7 << 2));
        assert_eq!(encode(0x7fff_ffff), (0x7fff_ffff, 7 << 2));
        assert_eq!(encode(0x8000_0000), (0x8000_0000, 7 << 2 | 1));
        assert_eq!(encode(0x1_0000_0000), (0, 7 << 2 | 1));
        assert_eq!(encode(0x1_8000_0000), (0x8000_0000, 7 << 2 | 2));
        assert_eq!(encode(0x3_7fff_ffff), (0x7fff_ffff, 7 << 2 | 3));
        assert_eq!(encode(0x3_8000_0000), (0x7fff_ffff, 7 << 2 | 3), "moved to the border");
    }
}
