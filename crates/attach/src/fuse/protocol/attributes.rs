//! What `stat` shows, as the kernel is told.

use atrest_codec::encode;
use atrest_filetree::{Kind, Timestamp};

use super::Native;

/// The attributes of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileAttributes {
    pub node: u64,
    pub kind: Kind,
    /// Permission bits, without the kind.
    pub permissions: u32,
    pub links: u32,
    pub uid: u32,
    pub gid: u32,
    /// Which device a device node stands for.
    pub device: u32,
    pub size: u64,
    /// Blocks of 512 bytes.
    pub blocks: u64,
    pub accessed: Timestamp,
    pub modified: Timestamp,
    pub changed: Timestamp,
}

/// Bytes that are best read at once, as `stat` shows them.
const BLOCK_SIZE: u32 = 4096;

impl FileAttributes {
    /// `struct fuse_attr`.
    pub(super) fn encode(&self) -> [u8; 88] {
        let seconds = |time: Timestamp| Native(time.seconds.cast_unsigned());
        let mode = kind_bits(self.kind) | self.permissions & 0o7777;
        encode((
            (Native(self.node), Native(self.size), Native(self.blocks)),
            (seconds(self.accessed), seconds(self.modified), seconds(self.changed)),
            (
                Native(self.accessed.nanoseconds),
                Native(self.modified.nanoseconds),
                Native(self.changed.nanoseconds),
            ),
            (Native(mode), Native(self.links), Native(self.uid), Native(self.gid)),
            (Native(self.device), Native(BLOCK_SIZE), Native(0_u32)),
        ))
    }
}

/// A kind as `st_mode` has it.
pub fn kind_bits(kind: Kind) -> u32 {
    match kind {
        Kind::File => libc::S_IFREG,
        Kind::Directory => libc::S_IFDIR,
        Kind::Link => libc::S_IFLNK,
        Kind::Pipe => libc::S_IFIFO,
        Kind::Socket => libc::S_IFSOCK,
        Kind::CharDevice => libc::S_IFCHR,
        Kind::BlockDevice => libc::S_IFBLK,
    }
}
