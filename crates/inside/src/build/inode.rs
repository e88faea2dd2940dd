//! Inodes as bytes: kernel Documentation/filesystems/ext4, "Index Nodes".

use atrest_codec::{Record, RecordMut, WriteError, crc32c};
use atrest_filetree::{Kind, Timestamp};

use super::attributes::Placed;
use super::halves;
use super::superblock::Superblock;

/// Bytes of fields behind the first 128: the kernel's.
const EXTRA: usize = 32;
/// Bytes of all fields. What lies behind them is for attributes.
pub(super) const FIELDS: usize = 128 + EXTRA;

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
    /// Writes the fields, and the attributes into the space behind them.
    pub(super) fn write(
        &self,
        sb: &Superblock,
        fields: &mut [u8; FIELDS],
        space: &mut [u8],
    ) -> Result<(), WriteError> {
        *fields = [0; FIELDS];
        space.fill(0);
        let mut raw = RecordMut::new(fields);
        raw.set_le16::<0>(type_bits(self.kind) << 12 | self.mode & 0o7777);
        raw.set_le16::<0x2>((self.owner.0 & 0xffff) as u16);
        raw.set_le16::<0x78>((self.owner.0 >> 16) as u16);
        raw.set_le16::<0x18>((self.owner.1 & 0xffff) as u16);
        raw.set_le16::<0x7a>((self.owner.1 >> 16) as u16);
        let (low, high) = halves(self.size);
        raw.set_le32::<0x4>(low);
        raw.set_le32::<0x6c>(high);
        raw.set_le16::<0x1a>(self.links as u16);
        // Counted in 512 bytes, 48 bits of them.
        let (low, high) = halves(self.blocks * (sb.block_size as u64 / 512));
        raw.set_le32::<0x1c>(low);
        raw.set_le16::<0x74>(high as u16);
        raw.set_le32::<0x20>(self.flags);
        raw.set::<0x28, 60>(&self.map);
        let (low, high) = halves(self.attribute_block);
        raw.set_le32::<0x68>(low);
        raw.set_le16::<0x76>(high as u16);
        raw.set_le16::<0x80>(EXTRA as u16);
        set_times(&mut raw, [self.accessed, self.changed, self.modified].map(encode_time));
        self.attributes.write_inside(space)?;
        checksum_with(fields, space, sb, self.number, 0);
        Ok(())
    }
}

/// Writes the times of the last access, of the last change of the inode and of its contents. An inode was made when it was last
/// changed, as far as anybody can know.
fn set_times(raw: &mut RecordMut<'_, FIELDS>, [accessed, changed, modified]: [(u32, u32); 3]) {
    set_old_times(raw, accessed.0, changed.0, modified.0);
    raw.set_le32::<0x84>(changed.1);
    raw.set_le32::<0x88>(modified.1);
    raw.set_le32::<0x8c>(accessed.1);
    raw.set_le32::<0x90>(changed.0);
    raw.set_le32::<0x94>(changed.1);
}

/// Writes the seconds of the times that every inode has.
fn set_old_times(raw: &mut RecordMut<'_, FIELDS>, accessed: u32, changed: u32, modified: u32) {
    raw.set_le32::<0x8>(accessed);
    raw.set_le32::<0xc>(changed);
    raw.set_le32::<0x10>(modified);
}

/// Sets all times of an inode that mke2fs made, if it is in use.
pub(super) fn settle(fields: &mut [u8; FIELDS], space: &[u8], sb: &Superblock, number: u32, time: Timestamp) {
    let old = Record::new(fields);
    let (mode, changed) = (old.le16::<0>(), old.le32::<0xc>());
    let (generation, has_extra) = (old.le32::<0x64>(), old.le16::<0x80>() >= 24);
    if mode == 0 && changed == 0 {
        return;
    }
    let time = encode_time(time);
    let mut raw = RecordMut::new(fields);
    if has_extra {
        set_times(&mut raw, [time; 3]);
    } else {
        set_old_times(&mut raw, time.0, time.0, time.0);
    }
    checksum_with(fields, space, sb, number, generation);
}

/// Writes the checksum of an inode.
fn checksum_with(fields: &mut [u8; FIELDS], space: &[u8], sb: &Superblock, number: u32, generation: u32) {
    // Inodes that mke2fs keeps for later have no field for the upper half.
    let is_wide = Record::new(fields).le16::<0x80>() >= 4;
    let mut raw = RecordMut::new(fields);
    raw.set_le16::<0x7c>(0);
    if is_wide {
        raw.set_le16::<0x82>(0);
    }
    let seed = crc32c(crc32c(sb.seed, &number.to_le_bytes()), &generation.to_le_bytes());
    let sum = crc32c(crc32c(seed, fields), space);
    let mut raw = RecordMut::new(fields);
    raw.set_le16::<0x7c>((sum & 0xffff) as u16);
    if is_wide {
        raw.set_le16::<0x82>((sum >> 16) as u16);
    }
}

/// The seconds' low 32 bits; two more bits and the nanoseconds. What lies outside of 34 bits is moved to their border.
pub(crate) fn encode_time(time: Timestamp) -> (u32, u32) {
    let seconds = time.seconds.clamp(-(1 << 31), (1 << 34) - (1 << 31) - 1);
    let (low, _) = halves(seconds.cast_unsigned());
    let epoch = ((seconds - i64::from(low.cast_signed())) >> 32) & 3;
    (low, epoch as u32 | time.nanoseconds << 2)
}

/// The map of a device's inode: old numbers in the first word, large ones in the second.
pub(super) fn device_map((major, minor): (u32, u32)) -> [u8; 60] {
    let mut map = [0; 60];
    let mut numbers = RecordMut::new(&mut map);
    if major < 256 && minor < 256 {
        numbers.set_le32::<0>(major << 8 | minor);
    } else {
        numbers.set_le32::<4>(minor & 0xff | major << 8 | (minor & !0xff) << 12);
    }
    map
}

/// The root inode's map as mke2fs wrote it, if it is an extent tree.
pub(super) fn map_of(fields: &[u8; FIELDS]) -> Option<&[u8; 60]> {
    let fields = Record::new(fields);
    (fields.le32::<0x20>() & flag::EXTENTS != 0).then(|| fields.array::<0x28, 60>())
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
