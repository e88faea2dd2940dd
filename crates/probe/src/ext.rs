//! The superblock of ext2, ext3 and ext4, as far as it says what it is: kernel Documentation/filesystems/ext4, "Super Block".

use atrest_codec::{Reader, Record};

use crate::FilesystemKind;

/// Features that ext2 and ext3 have: file types in directories, recovery, block groups of metadata.
const INCOMPATIBLE_OF_EXT3: u32 = 0x2 | 0x4 | 0x10;
/// Sparse superblocks, large files and trees of directory entries.
const READ_ONLY_OF_EXT3: u32 = 0x1 | 0x2 | 0x4;

mod feature {
    pub(super) const HAS_JOURNAL: u32 = 0x4;
    pub(super) const JOURNAL_DEVICE: u32 = 0x8;
    pub(super) const BITS64: u32 = 0x80;
}

/// A superblock with the right magic number, and otherwise as it was found.
#[derive(Clone, Copy, Debug)]
pub struct ExtSuperblock<'a>(Record<'a, LEN>);

const LEN: usize = 1024;

impl<'a> ExtSuperblock<'a> {
    /// Its first byte on the device, whatever the block size.
    pub const AT: usize = 1024;
    /// Bytes in it.
    pub const LEN: usize = LEN;

    /// The superblock among the first bytes of a device. The magic number has two bytes only:
    /// [`block_size`](Self::block_size) tells more.
    pub fn find(start: &'a [u8]) -> Option<Self> {
        Self::new(Reader::at(start, Self::AT).ok()?.array_ref().ok()?)
    }

    /// The superblock in these bytes.
    pub fn new(bytes: &'a [u8; LEN]) -> Option<Self> {
        let record = Record::new(bytes);
        (record.le16::<0x38>() == 0xef53).then_some(Self(record))
    }

    /// Which of the three file systems it is, by the features it uses, as libblkid tells them apart.
    pub fn kind(self) -> FilesystemKind {
        let (compatible, incompatible, read_only) = self.features();
        if incompatible & !INCOMPATIBLE_OF_EXT3 != 0 || read_only & !READ_ONLY_OF_EXT3 != 0 {
            FilesystemKind::Ext4
        } else if compatible & feature::HAS_JOURNAL != 0 {
            FilesystemKind::Ext3
        } else {
            FilesystemKind::Ext2
        }
    }

    /// Features that any, no older, and no writing older program may ignore.
    fn features(self) -> (u32, u32, u32) {
        (self.0.le32::<0x5c>(), self.0.le32::<0x60>(), self.0.le32::<0x64>())
    }

    /// Whether it is a device for the journal of another file system, and none itself.
    pub fn is_journal(self) -> bool {
        self.features().1 & feature::JOURNAL_DEVICE != 0
    }

    /// Bytes in a block, 1024 to 65536; `None` if it says an impossible number.
    pub fn block_size(self) -> Option<u32> {
        let shift = self.0.le32::<0x18>();
        (shift <= 6).then(|| 1024_u32.checked_shl(shift)).flatten()
    }

    /// Bytes in the file system; `None` if they can't be.
    pub fn size(self) -> Option<u64> {
        let has_high = self.features().1 & feature::BITS64 != 0;
        let high = if has_high { u64::from(self.0.le32::<0x150>()) } else { 0 };
        let blocks = u64::from(self.0.le32::<0x4>()) | high << 32;
        blocks.checked_mul(self.block_size()?.into())
    }

    /// Its UUID.
    pub fn uuid(self) -> &'a [u8; 16] {
        self.0.array::<0x68, 16>()
    }

    /// Its label, filled up with zeros.
    pub fn label(self) -> &'a [u8; 16] {
        self.0.array::<0x78, 16>()
    }
}
